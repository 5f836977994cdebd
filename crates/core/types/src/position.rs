//! Directory positions: where a name stands in its directory, whatever its partitions are.

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

/// Bits of a position that come from the name's hash, first radix bit first.
pub const HASH_BITS: u32 = 56;
/// Bits below the hash, which number the names that share one hash.
pub const ORDINAL_BITS: u32 = 7;

const _: () = assert!(
    HASH_BITS + ORDINAL_BITS == 63,
    "a position is a non-negative off_t"
);

/// A place in the one stable order of a directory's entries: `hash (56 bits) | ordinal (7 bits)`.
///
/// Entries are stored in this order, a partition is a contiguous range of it, and it is the
/// `telldir` cookie. A split changes who serves a range and never a position, which is why `readdir`
/// goes on through splits. The hash of a name is never 0, so positions below `Position::FIRST`
/// are free for `.` and `..`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(pub u64);

impl Position {
    /// No name stands before this one.
    pub const FIRST: Position = Position(1 << ORDINAL_BITS);
    /// After every name.
    pub const END: Position = Position(1 << (HASH_BITS + ORDINAL_BITS));

    /// The position of the first name with this hash.
    pub fn from_hash(hash: u64) -> Position {
        assert!(
            hash > 0 && hash < 1 << HASH_BITS,
            "hash {hash:#x} out of range"
        );
        Position(hash << ORDINAL_BITS)
    }

    /// The hash alone.
    pub fn hash(self) -> u64 {
        self.0 >> ORDINAL_BITS
    }

    /// Which of the names with the same hash, in the order of their bytes.
    pub fn ordinal(self) -> u8 {
        (self.0 & ((1 << ORDINAL_BITS) - 1)) as u8
    }

    /// The same hash with another ordinal.
    pub fn with_ordinal(self, ordinal: u8) -> Position {
        assert!(u32::from(ordinal) < 1 << ORDINAL_BITS);
        Position((self.0 & !((1 << ORDINAL_BITS) - 1)) | u64::from(ordinal))
    }

    /// The first `depth` radix bits as a partition index: the first radix bit is the index's lowest,
    /// so that partition `i` at depth `r` splits into `i` and `i + 2^r` (GIGA+) while both halves
    /// stay contiguous in the order of positions.
    pub fn radix_index(self, depth: u8) -> u32 {
        if depth == 0 {
            return 0;
        }
        assert!(u32::from(depth) <= 32);
        let top = (self.0 >> (HASH_BITS + ORDINAL_BITS - u32::from(depth))) as u32;
        top.reverse_bits() >> (32 - u32::from(depth))
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({:#018x})", self.0)
    }
}

/// The key of a file system's name hash. Without it nobody can choose names that overload one
/// partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashKey(pub u64, pub u64);

impl HashKey {
    /// Where `name` stands in any directory of this file system: SipHash-2-4 of its bytes, cut to
    /// 56 bits, 0 replaced by 1; ordinal 0.
    pub fn position(self, name: &[u8]) -> Position {
        let mut hasher = SipHasher24::new_with_keys(self.0, self.1);
        hasher.write(name);
        Position::from_hash((hasher.finish() >> (64 - HASH_BITS)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radix_bits_are_read_from_the_top_lowest_index_bit_first() {
        let position = Position(0b100 << (63 - 3));
        assert_eq!(position.radix_index(0), 0);
        assert_eq!(position.radix_index(1), 1);
        assert_eq!(position.radix_index(2), 1);
        let position = Position(0b011 << (63 - 3));
        assert_eq!(position.radix_index(1), 0);
        assert_eq!(position.radix_index(2), 2);
        assert_eq!(position.radix_index(3), 6);
    }

    #[test]
    fn the_hash_is_pinned() {
        let key = HashKey(1, 2);
        assert_eq!(key.position(b"pando"), key.position(b"pando"));
        assert_ne!(key.position(b"pando"), HashKey(1, 3).position(b"pando"));
        assert_eq!(key.position(b"pando").0, PANDO);
        assert_eq!(key.position(b"pando").ordinal(), 0);
    }

    /// SipHash-2-4 of "pando" under key (1, 2): changing it makes every stored directory unreadable.
    const PANDO: u64 = 8_005_324_116_614_998_784;
}
