//! Pseudo-random numbers that are the same on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// `stream` distinguishes several generators of one seed.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let seed = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        let mut rng = Rng(SplitMix64::seed_from_u64(seed));
        rng.next_u64();
        rng
    }

    /// Uniform over all values.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing to choose from");
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Uniform in (0, 1).
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

/// Brings all into an order drawn at random (Fisher and Yates).
pub(crate) fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| Rng::new(seed, stream).next_u64();
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(7, 2);
        let drawn = [(); 3].map(|()| rng.next_u64());
        assert_eq!(
            drawn,
            [
                10_336_487_222_553_535_666,
                3_728_867_645_701_403_392,
                10_978_826_750_847_800_011
            ]
        );
    }

    #[test]
    fn draws_are_even() {
        let mut rng = Rng::new(3, 0);
        let mut hits = [0; 10];
        for _ in 0..10_000 {
            hits[rng.below(10) as usize] += 1;
        }
        assert!(
            hits.iter().all(|hits| (880..1_120).contains(hits)),
            "{hits:?}"
        );
        let mean = (0..10_000).map(|_| rng.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
