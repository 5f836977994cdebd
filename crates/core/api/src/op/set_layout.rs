//! Layout of a file that has no data yet.

use super::{Change, Operation};
use crate::LayoutChoice;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Layout for a file that has no data yet; `NotEmpty` if it has some. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLayout {
    /// A file on the addressed shard, or a directory at its home.
    pub ino: Ino,
    /// The wish; the servers that carry it are chosen when the data comes.
    pub layout: LayoutChoice,
}

impl Operation for SetLayout {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Dir(self.ino)]
    }
}
