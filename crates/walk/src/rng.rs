//! Numbers that look random and follow from a seed alone.

/// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers for a seed for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, by Lemire's multiplication; its bias is below `end / 2^64`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0);
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_below_an_end_reach_all_of_them() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (800..1_200).contains(count)),
            "{seen:?}"
        );
    }
}
