//! Grants of directories, and inode numbers for what is made under them.

use super::Operation;
use pandofs_types::limits::MAX_GRANTED_BYTES;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Asks for a grant of a directory that is whole on its home shard. Answers `Granted`, with nothing if there is none to
/// be had now: others look at the directory, it is too large, or it is about to split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// A directory whose home is asked.
    pub dir: Ino,
}

impl Operation for Grant {
    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.dir), None]
    }

    fn lists(&self) -> Option<(Ino, Position)> {
        Some((self.dir, Position::FIRST))
    }

    fn max_answer_bytes(&self) -> usize {
        MAX_GRANTED_BYTES
    }
}

/// Begins the grants that the session has of this shard, without a directory: some are to be made here whose names are on
/// other shards. Answers `Granted`, with nothing if there are none to be had now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginGrants;

impl Operation for BeginGrants {}

/// Renews all grants that the session has of this shard. Answers `Done`; `Stale` if they were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// [`Granted::incarnation`](crate::Granted::incarnation).
    pub incarnation: u64,
}

impl Operation for Renew {
    fn needs_map(&self) -> bool {
        false
    }
}

/// Takes a block of inode numbers that nobody else gets, for what the session makes under grants. Answers `Numbers` when
/// they are on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeNumbers {
    /// At least 1, at most [`MAX_NUMBERS_PER_BLOCK`](pandofs_types::limits::MAX_NUMBERS_PER_BLOCK). They are to be used in
    /// their order.
    pub count: u32,
    /// Further ones, which follow these and may be used in any order: at most
    /// [`MAX_UNORDERED_NUMBERS`](pandofs_types::limits::MAX_UNORDERED_NUMBERS).
    pub unordered: u32,
}

impl Operation for TakeNumbers {
    fn is_mutation(&self) -> bool {
        true
    }

    fn answers_when_synced(&self) -> bool {
        true
    }
}
