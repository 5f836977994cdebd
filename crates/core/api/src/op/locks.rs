//! Locks of files.
//!
//! They are not recorded in slots, but the shard keeps the last answer to each slot in memory.

use super::Operation;
use pandofs_types::{FileLock, Ino, LockKind, LockRange};
use serde::{Deserialize, Serialize};

/// Locks, in place of what the owner has of the range. `Done`; `WouldBlock` if somebody's lock is in
/// the way and it is not `blocking`. One that is kept waiting for `wait_ms`, or would have to wait and has
/// none, is told `Refusal::NotYet`; the same request, sent again, goes on waiting at its place. Sent again with
/// `blocking` false it ends the waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLock {
    /// The file.
    pub ino: Ino,
    /// The range to lock, and its owner.
    pub lock: FileLock,
    /// Whether to wait for locks in the way (`F_SETLKW`).
    pub blocking: bool,
    /// Milliseconds that the client waits for an answer.
    pub wait_ms: u32,
}

impl Operation for SetLock {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_lock(&self) -> bool {
        true
    }

    fn is_remembered(&self) -> bool {
        true
    }
}

/// Unlocks what the owner has of the range. Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlock {
    /// The file.
    pub ino: Ino,
    /// Of which kind.
    pub kind: LockKind,
    /// As in [`FileLock`].
    pub owner: u64,
    /// Bytes; a lock that is partly in it keeps the rest.
    pub range: LockRange,
}

impl Operation for Unlock {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_lock(&self) -> bool {
        true
    }

    fn is_remembered(&self) -> bool {
        true
    }
}

/// Asks for the lock that is in the way of this one. Answers `Lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetLock {
    /// The file.
    pub ino: Ino,
    /// Tried, not taken.
    pub lock: FileLock,
}

impl Operation for GetLock {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_lock(&self) -> bool {
        true
    }
}

/// A descriptor of an open file was closed through which these owners of the session have locked: they may
/// unlock in a moment. Until then, for [`CLOSING_WAIT`] at most, a request for one of these locks that
/// does not want to wait is kept. `Done`.
///
/// [`CLOSING_WAIT`]: pandofs_types::limits::CLOSING_WAIT
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// The file.
    pub ino: Ino,
    /// Kind and number of each, as in [`FileLock`].
    pub owners: Vec<(LockKind, u64)>,
}

impl Operation for Closing {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_lock(&self) -> bool {
        true
    }

    fn is_remembered(&self) -> bool {
        true
    }
}

/// After the server restarted, or may have given the session up: the session has these locks. `last`
/// when they are all. Answers `LostLocks`: those that it does not have any more. Inodes that are not on
/// the shard are skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relock {
    /// Inodes of the addressed shard, each with one lock.
    pub locks: Vec<(Ino, FileLock)>,
    /// Whether no more of them follow, so that the shard need not wait for this session.
    pub last: bool,
}

impl Operation for Relock {
    fn is_lock(&self) -> bool {
        true
    }

    fn needs_map(&self) -> bool {
        false
    }
}
