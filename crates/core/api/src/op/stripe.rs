//! Stripe: a file outgrows its inode.

use super::{Change, Operation};
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// The file outgrows its inode: the shard copies the inline data into a data object; the file is
/// striped when this is answered. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripe {
    /// A file kept inline.
    pub ino: Ino,
}

impl Operation for Stripe {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Inode(self.ino)]
    }

    fn changes_objects(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
