//! Things that must be counted once by all processes together, as files with several names.
//!
//! Each key has a process that knows who claimed it first: which one follows from the key, so that
//! no process knows all of them and two processes ask the same one. An answer takes as long as a
//! message and back; until it is there the claim is a part of the entry's directory, which is not
//! left before.

use crate::dir::Dir;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Key of a claim: for a file its device and inode.
pub(crate) type Key = (u64, u64);

/// A claim of an entry in a directory.
pub(crate) struct Claim<D> {
    pub dir: Arc<Dir<D>>,
    pub key: Key,
    /// Amount that the directory's state gets if it is the first.
    pub amount: u64,
}

/// The keys that this process decides on, each with the walk that it was claimed in.
#[derive(Debug, Default)]
pub(crate) struct Decided(Mutex<HashSet<(u32, Key)>>);

impl Decided {
    /// Returns whether it was not claimed before.
    pub(crate) fn is_first(&self, walk: u32, key: Key) -> bool {
        let mut decided = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decided.insert((walk, key))
    }
}

/// Returns which of so many processes decides on a key.
pub(crate) fn decider(key: Key, ranks: u32) -> u32 {
    // Inode numbers of one directory often are multiples of something.
    let mixed = (key.0 ^ key.1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mixed % u64::from(ranks)) as u32
}

/// Claims of this process that others have not answered.
pub(crate) struct Open<D> {
    last: u64,
    claims: HashMap<u64, Claim<D>>,
}

impl<D> Open<D> {
    pub(crate) fn new() -> Open<D> {
        Open {
            last: 0,
            claims: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Remembers it; the number by which it is answered.
    pub(crate) fn add(&mut self, claim: Claim<D>) -> u64 {
        self.last += 1;
        self.claims.insert(self.last, claim);
        self.last
    }

    pub(crate) fn answered(&mut self, number: u64) -> Option<Claim<D>> {
        self.claims.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_first_once_in_each_walk() {
        let decided = Decided::default();
        assert!(decided.is_first(1, (2, 3)));
        assert!(!decided.is_first(1, (2, 3)));
        assert!(decided.is_first(1, (3, 2)) && decided.is_first(2, (2, 3)));
    }

    #[test]
    fn every_process_decides_on_some() {
        let mut keys = [0; 5];
        for ino in 0..1_000 {
            keys[decider((7, ino * 256), 5) as usize] += 1;
        }
        assert!(keys.iter().all(|count| *count > 100), "{keys:?}");
    }
}
