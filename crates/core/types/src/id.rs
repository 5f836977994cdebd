//! Identifiers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A shard: the unit of metadata placement, logging and recovery. The number of shards of a file
/// system never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShardId(pub u16);

/// A server: one process that holds shards and data objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub u16);

/// The version of a cluster map; it only grows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

/// The identity of a file system, drawn at random when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FsId(pub u128);

/// One client's life: a mount or an open library handle. Drawn at random by the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// One lane of a session's requests: at most one request of a slot is unanswered at a time
/// (as in NFSv4.1), so a shard keeps one answer for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlotId(pub u16);

/// A distributed operation: its coordinator and the number the coordinator gave it
/// (Xiong et al., section 4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TxId {
    /// The shard that decides it, and numbers it.
    pub coordinator: ShardId,
    /// Grows with each operation that the coordinator begins, over its restarts as well.
    pub sequence: u64,
}

/// An inode number: `birth shard (16 bits) | serial (48 bits)`. Never reused, the same for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ino(pub u64);

impl Ino {
    /// Bits of the serial number.
    pub const SERIAL_BITS: u32 = 48;
    /// The largest serial number.
    pub const MAX_SERIAL: u64 = (1 << Self::SERIAL_BITS) - 1;
    /// The root directory: serial 1 of shard 0, which makes it the number FUSE gives its root.
    pub const ROOT: Ino = Ino(1);

    /// The number of the `serial`th inode born on `shard`.
    ///
    /// # Panics
    /// When `serial` is 0 or does not fit: a shard that made 2^48 inodes is broken state.
    pub fn new(shard: ShardId, serial: u64) -> Ino {
        assert!(
            serial > 0 && serial <= Self::MAX_SERIAL,
            "inode serial {serial} out of range"
        );
        Ino(u64::from(shard.0) << Self::SERIAL_BITS | serial)
    }

    /// The shard that made the inode; it may have moved since.
    pub fn birth_shard(self) -> ShardId {
        ShardId((self.0 >> Self::SERIAL_BITS) as u16)
    }

    /// The number among the inodes that its birth shard made.
    pub fn serial(self) -> u64 {
        self.0 & Self::MAX_SERIAL
    }
}

impl fmt::Debug for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ino({self})")
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.birth_shard().0, self.serial())
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for FsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for FsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FsId({self})")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.coordinator, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_number_keeps_its_birth_shard_and_serial() {
        let ino = Ino::new(ShardId(63), Ino::MAX_SERIAL);
        assert_eq!(ino.birth_shard(), ShardId(63));
        assert_eq!(ino.serial(), Ino::MAX_SERIAL);
        assert_eq!(Ino::new(ShardId(0), 1), Ino::ROOT);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn serial_zero_is_no_inode() {
        let _ = Ino::new(ShardId(1), 0);
    }
}
