//! Getattr: an inode by its number.

use super::Operation;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAttr {
    /// The inode, on the addressed shard.
    pub ino: Ino,
}

impl Operation for GetAttr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn lists(&self) -> Option<(Ino, Position)> {
        Some((self.ino, Position::FIRST))
    }
}

/// As `GetAttr`, once the file's data objects have followed all of its truncations: `Refusal::TryAgain` before. Answers
/// `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The inode, on the addressed shard.
    pub ino: Ino,
}

impl Operation for Followed {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
