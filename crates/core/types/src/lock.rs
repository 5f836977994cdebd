//! Advisory locks on files.

use serde::{Deserialize, Serialize};

/// Rules that a lock follows. Locks of different kinds do not conflict, as on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LockKind {
    /// `flock()`: the whole file, owned by an open file description.
    Flock,
    /// `fcntl()`: a range, owned by a process (`F_SETLK`) or an open file description (`F_OFD_SETLK`).
    Record,
}

/// Whether others may have locks on the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LockMode {
    /// Any number of owners may have it on the same byte (`F_RDLCK`, `LOCK_SH`).
    Shared,
    /// No other owner has a lock of this kind on the same byte (`F_WRLCK`, `LOCK_EX`).
    Exclusive,
}

/// Bytes `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LockRange {
    /// Offset in the file, bytes.
    pub first: u64,
    /// Offset in the file, bytes; `LockRange::MAX` for all that follows, whatever the size becomes.
    pub last: u64,
}

/// Lock of one owner, or a request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileLock {
    /// Locks of different kinds do not see one another.
    pub kind: LockKind,
    /// Tells the owners of a session apart.
    pub owner: u64,
    /// The process that `F_GETLK` tells.
    pub pid: u32,
    /// Shared, or exclusive.
    pub mode: LockMode,
    /// Bytes of the file; `flock` always has the whole of it.
    pub range: LockRange,
}

impl LockRange {
    /// The last byte that can be locked: offsets are signed.
    pub const MAX: u64 = i64::MAX as u64;
    /// All of a file, however long it grows.
    pub const WHOLE: LockRange = LockRange {
        first: 0,
        last: LockRange::MAX,
    };

    /// Whether it is one (they come from the network).
    pub fn is_valid(self) -> bool {
        self.first <= self.last && self.last <= LockRange::MAX
    }

    /// Returns whether there is a byte in both.
    pub fn overlaps(self, other: LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: LockRange) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl FileLock {
    /// Whether it is one (they come from the network).
    pub fn is_valid(&self) -> bool {
        match self.kind {
            LockKind::Flock => self.range == LockRange::WHOLE,
            LockKind::Record => self.range.is_valid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        let range = |first, last| LockRange { first, last };
        assert!(range(3, 5).overlaps(range(5, 9)) && range(5, 9).overlaps(range(3, 5)));
        assert!(!range(3, 4).overlaps(range(5, 9)));
        assert!(range(3, 5).contains(range(3, 5)) && !range(3, 5).contains(range(4, 6)));
        assert!(range(7, 7).is_valid() && !range(8, 7).is_valid());
        assert!(LockRange::WHOLE.is_valid() && !range(0, LockRange::MAX + 1).is_valid());
    }

    #[test]
    fn a_lock_of_flock_is_of_the_whole_file() {
        let lock = |kind, last| FileLock {
            kind,
            owner: 1,
            pid: 1,
            mode: LockMode::Shared,
            range: LockRange { first: 0, last },
        };
        assert!(lock(LockKind::Flock, LockRange::MAX).is_valid());
        assert!(!lock(LockKind::Flock, 9).is_valid());
        assert!(lock(LockKind::Record, 9).is_valid());
    }
}
