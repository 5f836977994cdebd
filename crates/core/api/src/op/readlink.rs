//! Readlink.

use super::Operation;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Answers `Link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLink {
    /// A symbolic link on the addressed shard.
    pub ino: Ino,
}

impl Operation for ReadLink {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }
}
