//! Readdir.

use super::Operation;
use pandofs_types::limits::MAX_READDIR_BYTES;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Entries of the partitions on this shard from `from` on, as far as they follow one another
/// without a gap; whole groups of equal hash. Answers `Entries`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDir {
    /// The directory that is listed.
    pub dir: Ino,
    /// `Position::FIRST` for the first page, later the `next` of the answer before.
    pub from: Position,
    /// Whether the answer has the inodes that are on the same shard.
    pub plus: bool,
    /// Entries of a page; a group of equal hash may exceed it.
    pub max_entries: u32,
    /// Bytes of a page as it is sent, about.
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
