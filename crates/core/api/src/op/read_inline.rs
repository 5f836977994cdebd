//! Read of a file that is kept inline.

use super::Operation;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Reads a file kept inline; answers `Inode`, whose body holds the data or the layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadInline {
    /// A file on the addressed shard.
    pub ino: Ino,
}

impl Operation for ReadInline {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
