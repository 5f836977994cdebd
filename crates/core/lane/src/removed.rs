//! Data objects that were removed a while ago, so that nothing that comes late makes one anew.
//!
//! An inode's number is given out once, so nothing is ever to be done to its objects after their removal. But a request
//! may come after that: by another connection than the removal, when the inode has moved to another shard in between and
//! no client waits for the request any more.
//!
//! ```text
//! old shard:  cut 2 (late) ................................................ makes an empty object, which stays
//! new shard:                 cut 3, which does what cut 2 did    removal
//! ```

use crate::limits::MAX_REMEMBERED_REMOVALS;
use pandofs_types::Ino;
use std::collections::{HashSet, VecDeque};

/// The last of them, [`MAX_REMEMBERED_REMOVALS`] at most.
#[derive(Debug, Default)]
pub struct Removed {
    known: HashSet<Ino>,
    /// Oldest first.
    order: VecDeque<Ino>,
}

impl Removed {
    /// Forgets the oldest removal beyond `MAX_REMEMBERED_REMOVALS`.
    pub fn note(&mut self, ino: Ino) {
        if !self.known.insert(ino) {
            return;
        }
        self.order.push_back(ino);
        if self.order.len() > MAX_REMEMBERED_REMOVALS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns whether its object was removed, as far as is remembered.
    pub fn has(&self, ino: Ino) -> bool {
        self.known.contains(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_remembered() {
        let mut removed = Removed::default();
        for number in 0..=MAX_REMEMBERED_REMOVALS as u64 {
            removed.note(Ino(number));
            removed.note(Ino(number));
        }
        assert!(!removed.has(Ino(0)));
        assert!(removed.has(Ino(1)) && removed.has(Ino(MAX_REMEMBERED_REMOVALS as u64)));
        assert_eq!(removed.known.len(), MAX_REMEMBERED_REMOVALS);
    }

    #[test]
    fn one_is_remembered_as_long_as_others_however_often_it_is_removed() {
        for times in 1..=2 {
            let mut removed = Removed::default();
            for number in 0..=MAX_REMEMBERED_REMOVALS as u64 {
                for _ in 0..times {
                    removed.note(Ino(number));
                }
            }
            assert_eq!([0, 1].map(|ino| removed.has(Ino(ino))), [false, true]);
            let known = (removed.known.len(), removed.order.len());
            let most = MAX_REMEMBERED_REMOVALS;
            assert_eq!(known, (most, most), "{times}");
        }
    }
}
