//! Open.

use super::{Change, Operation};
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Opens a file for `access` (4 read, 2 write, 1 execute): checks the caller's rights, and from
/// then on the session keeps the inode alive until it releases it. Answers `Inode`, whose body holds what the file has
/// inline if that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// A file on the addressed shard.
    pub ino: Ino,
    /// The rights that the caller needs.
    pub access: u16,
    /// Whether it is cut to nothing, as with `O_TRUNC`.
    pub truncate: bool,
    /// Whether the answer brings what the file has inline. Of one that is cut it brings nothing.
    pub data: bool,
}

impl Operation for Open {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        self.truncate
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Inode(self.ino)]
    }

    fn is_remembered(&self) -> bool {
        true
    }

    fn changes_objects(&self) -> Option<Ino> {
        self.truncate.then_some(self.ino)
    }
}
