//! Readdir.

use super::Operation;
use pandofs_types::limits::MAX_READDIR_BYTES;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Entries of the partitions on this shard from `from` on, as far as they follow one another
/// without a gap; whole groups of equal hash. Answers `Entries`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDir {
    pub dir: Ino,
    pub from: Position,
    pub plus: bool,
    pub max_entries: u32,
    pub max_bytes: u32,
}

impl Operation for ReadDir {
    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn lists(&self) -> Option<(Ino, Position)> {
        Some((self.dir, self.from))
    }

    fn max_answer_bytes(&self) -> usize {
        (self.max_bytes as usize).min(MAX_READDIR_BYTES)
    }
}
