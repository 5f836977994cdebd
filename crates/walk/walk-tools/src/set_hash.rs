//! Digest of a set that does not depend on the order of its elements.
//!
//! Several threads and processes can have parts of it. It is LtHash (Bellare and Micciancio, "A New
//! Paradigm for Collision-Free Hashing", and Lewi, Kim, Maykov and Weis, "Securing Update
//! Propagation with Homomorphic Hashing"), with 1,024 lanes of 16 bits. Each element is stretched
//! to 2,048 bytes by BLAKE3, and the lanes are added up.

/// Lanes of 16 bits.
const LANES: usize = 1_024;

/// A set of elements, as long as none was taken out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetHash(
    /// Nothing while it is empty: most directories that wait have not been begun.
    Vec<u16>,
);

impl SetHash {
    /// Adds what was hashed so far as one element.
    pub(crate) fn add(&mut self, element: &blake3::Hasher) {
        let mut bytes = [0; LANES * 2];
        element.finalize_xof().fill(&mut bytes);
        let lanes = bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|lane| u16::from_le_bytes(*lane));
        self.add_lanes(lanes);
    }

    /// Adds all elements of another set. None if that is no set.
    pub(crate) fn add_all(&mut self, other: &[u16]) -> Option<()> {
        match other.len() {
            0 => {}
            LANES => self.add_lanes(other.iter().copied()),
            _ => return None,
        }
        Some(())
    }

    /// Returns the lanes, which another process can add.
    pub(crate) fn lanes(&self) -> &[u16] {
        &self.0
    }

    /// Hashes the sum.
    pub(crate) fn finish(&self, hasher: &mut blake3::Hasher) {
        let mut bytes = [0; LANES * 2];
        for (place, lane) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(&self.0) {
            *place = lane.to_le_bytes();
        }
        hasher.update(&bytes);
    }

    fn add_lanes(&mut self, lanes: impl Iterator<Item = u16>) {
        self.0.resize(LANES, 0);
        for (sum, lane) in self.0.iter_mut().zip(lanes) {
            *sum = sum.wrapping_add(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(bytes: &[u8]) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytes);
        hasher
    }

    #[test]
    fn neither_order_nor_parts_matter() {
        let (mut one, mut other, mut part) =
            (SetHash::default(), SetHash::default(), SetHash::default());
        for element in [b"a", b"b", b"c"] {
            one.add(&hashed(element));
        }
        part.add(&hashed(b"b"));
        other.add(&hashed(b"c"));
        other.add(&hashed(b"a"));
        assert_ne!(one, other);
        assert_eq!(other.add_all(part.lanes()), Some(()));
        assert_eq!(one, other);
        assert_eq!(other.add_all(&[]), Some(()));
        assert_eq!(one, other);
        assert_eq!(other.add_all(&[1]), None);
    }
}
