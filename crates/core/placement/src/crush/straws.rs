//! Straws of straw2: what a shard draws for a server.
//!
//! A straw's length is `ln(u) / weight`, with `u` uniform in (0, 1] by a hash of the shard and the server. It depends
//! on nothing else, so nobody's straws change when other servers join, leave or get another weight.
//!
//! The hash is that of Stafford's variant 13 of the finalizer of MurmurHash3 over the shard's key xor the server's key.
//! A key is SipHash-2-4 with the key 0 over `d` (a shard) or `s` (a server) and the number, 16 bits, little-endian. The
//! hash's upper 32 bits, plus 1, over 2^32 are `u`. Logarithms are to the base 2, which changes no comparison, in integer
//! arithmetic: the result is the same on every machine.

use pandofs_types::{ServerId, ShardId};
use siphasher::sip::SipHasher24;
use std::cmp::Ordering;
use std::hash::Hasher;

/// Bits after the point of a logarithm.
pub(super) const LOG_FRACTION_BITS: u32 = 40;
/// Bits of the hash that make a straw.
pub(super) const STRAW_HASH_BITS: u32 = 32;

/// A shard's or a server's part of the hashes of its straws. Millions of straws are drawn for a large cluster, so what
/// is done for each of them is a few multiplications.
#[derive(Clone, Copy)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn of_shard(shard: ShardId) -> Key {
        Key::new(b'd', shard.0)
    }

    pub(super) fn of_server(server: ServerId) -> Key {
        Key::new(b's', server.0)
    }

    fn new(kind: u8, number: u16) -> Key {
        let mut hasher = SipHasher24::new_with_keys(0, 0);
        hasher.write(&[kind]);
        hasher.write(&number.to_le_bytes());
        Key(hasher.finish())
    }
}

/// Draws `u`, times 2^`STRAW_HASH_BITS`.
pub(super) fn draw(shard: Key, server: Key) -> u64 {
    let mut hash = shard.0 ^ server.0;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    (hash >> (u64::BITS - STRAW_HASH_BITS)) + 1
}

/// The length of a straw: `-shortfall / weight`, never over 0. Lengths are compared as fractions, so no weight is too
/// small or too large to count.
#[derive(Clone, Copy)]
pub(super) struct Straw {
    /// `-log2(u)`, with `LOG_FRACTION_BITS` bits after the point.
    shortfall: u64,
    weight: u32,
}

impl Straw {
    pub(super) fn new(drawn: u64, weight: u32) -> Straw {
        Straw {
            shortfall: shortfall(drawn),
            weight,
        }
    }
}

impl Ord for Straw {
    fn cmp(&self, other: &Straw) -> Ordering {
        let mine = u128::from(self.shortfall) * u128::from(other.weight);
        let theirs = u128::from(other.shortfall) * u128::from(self.weight);
        theirs.cmp(&mine)
    }
}

impl PartialOrd for Straw {
    fn partial_cmp(&self, other: &Straw) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Straw {
    fn eq(&self, other: &Straw) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Straw {}

/// Returns the least that a server of this weight draws for straws of which, with all weights together `whole`, a shard
/// has `wanted` on the average. Of any two weights it is the same length, to the unit of the least shortfall.
pub(super) fn least_drawn(wanted: u64, weight: u32, whole: u64) -> u64 {
    assert!(whole > 0, "no server has a weight");
    let length = u128::from(wanted) << LOG_FRACTION_BITS;
    let limit = length * u128::from(weight) / u128::from(whole);
    // The shortfall falls as what is drawn rises.
    let (mut too_short, mut long_enough) = (0, 1 << STRAW_HASH_BITS);
    while too_short + 1 < long_enough {
        let middle = u64::midpoint(too_short, long_enough);
        if u128::from(shortfall(middle)) <= limit {
            long_enough = middle;
        } else {
            too_short = middle;
        }
    }
    long_enough
}

/// `-log2(drawn / 2^STRAW_HASH_BITS)`, with `LOG_FRACTION_BITS` bits after the point.
fn shortfall(drawn: u64) -> u64 {
    (u64::from(STRAW_HASH_BITS) << LOG_FRACTION_BITS) - log2(drawn)
}

/// The logarithm of `value` to the base 2, with `LOG_FRACTION_BITS` bits after the point, by
/// repeated squaring: the square of a number in [1, 2) reaches 2 when the next bit of its logarithm
/// is 1.
fn log2(value: u64) -> u64 {
    assert!(value > 0, "no logarithm of 0");
    const POINT: u32 = u64::BITS - 1;
    let whole = value.ilog2();
    let mut mantissa = value << (POINT - whole);
    let mut log = u64::from(whole);
    for _ in 0..LOG_FRACTION_BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let carry = (square >> (2 * POINT + 1)) as u32;
        mantissa = (square >> (POINT + carry)) as u64;
        log = log << 1 | u64::from(carry);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_right_to_a_millionth() {
        for exponent in 0..=32 {
            assert_eq!(log2(1 << exponent), exponent << LOG_FRACTION_BITS);
        }
        for value in (1..100_000).chain((1 << 32) - 1_000..1 << 32) {
            let expected = (value as f64).log2();
            let got = log2(value) as f64 / (1_u64 << LOG_FRACTION_BITS) as f64;
            assert!(
                (got - expected).abs() < 1e-6,
                "log2({value}) is {expected}, not {got}"
            );
            assert!(log2(value) <= log2(value + 1));
        }
        assert_eq!(shortfall(1 << STRAW_HASH_BITS), 0);
    }

    /// Neither the numbers of shards nor those of servers show in what is drawn: in each of 16 ranges of `u` there are as
    /// many as chance has, for the first of either number and along either.
    #[test]
    fn draws_are_uniform() {
        const RANGES: usize = 16;
        const DRAWS: u16 = 16_384;
        let counts = |draws: &mut dyn Iterator<Item = u64>| {
            let mut counts = [0_i32; RANGES];
            for drawn in draws {
                assert!((1..=1 << STRAW_HASH_BITS).contains(&drawn));
                counts[((drawn - 1) >> (STRAW_HASH_BITS - 4)) as usize] += 1;
            }
            counts
        };
        let shard = |number| Key::of_shard(ShardId(number));
        let server = |number| Key::of_server(ServerId(number));
        let expected = i32::from(DRAWS) / RANGES as i32;
        for fixed in [0, 1, 2, 255, 10_000] {
            let along_shards = counts(&mut (0..DRAWS).map(|n| draw(shard(n), server(fixed))));
            let along_servers = counts(&mut (0..DRAWS).map(|n| draw(shard(fixed), server(n))));
            for counts in [along_shards, along_servers] {
                // Six standard deviations of as many draws.
                let off = counts
                    .iter()
                    .all(|&count| (count - expected).abs() < 6 * 32);
                assert!(off, "{counts:?}");
            }
        }
    }

    proptest! {
        /// A straw is long enough for one server just if one of the same length is for another.
        #[test]
        fn the_least_draw_is_where_the_length_is_reached(
            wanted in 1..1_000_u64,
            weight in 1..=u32::MAX,
            more in 0..u64::from(u32::MAX),
        ) {
            let whole = u64::from(weight) + more;
            let least = least_drawn(wanted, weight, whole);
            let fits = |drawn| {
                let length = u128::from(wanted) << LOG_FRACTION_BITS;
                u128::from(shortfall(drawn)) * u128::from(whole) <= length * u128::from(weight)
            };
            prop_assert!(fits(least));
            prop_assert!(least == 1 || !fits(least - 1));
        }
    }
}
