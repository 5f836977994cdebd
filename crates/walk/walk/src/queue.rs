//! The items of one rank that no worker has yet.

use crate::algorithm::Split;
use crate::limits::GIVEN_ITEMS;
use crate::rng::Rng;
use std::collections::VecDeque;

/// Oldest in front. The rank's own workers take from the back, so the walk goes deep and the queue
/// stays short; others get the front, which is nearest to the root and has the most below it.
/// Spilled items are older than all that are in memory.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<T>,
    /// Number of items in each piece that the transport keeps, oldest in front.
    pieces: VecDeque<usize>,
    /// Items of these.
    spilled: u64,
    /// Items of the piece that is being brought back; 0 if none is.
    refilling: usize,
    spill_above: usize,
    spill_chunk: usize,
}

impl<T> Queue<T> {
    /// # Panics
    /// Unless 0 < `spill_chunk` <= `spill_above`.
    pub(crate) fn new(spill_above: usize, spill_chunk: usize) -> Queue<T> {
        assert!(0 < spill_chunk && spill_chunk <= spill_above);
        Queue {
            items: VecDeque::new(),
            pieces: VecDeque::new(),
            spilled: 0,
            refilling: 0,
            spill_above,
            spill_chunk,
        }
    }

    /// Items in memory.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Items in memory and outside of it.
    pub(crate) fn total(&self) -> u64 {
        self.spilled + (self.refilling + self.items.len()) as u64
    }

    pub(crate) fn push(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
    }

    pub(crate) fn pop_newest(&mut self) -> Option<T> {
        self.items.pop_back()
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// Returns whether the transport keeps a piece, which is to be given away then as it is: the
    /// oldest.
    pub(crate) fn give_spilled(&mut self) -> bool {
        let Some(items) = self.pieces.pop_front() else {
            return false;
        };
        self.spilled -= items as u64;
        true
    }

    /// The part for another rank, oldest first; empty when there is nothing to give. The rank that
    /// splits is left with what its workers have. For when nothing is
    /// [spilled](Self::give_spilled).
    pub(crate) fn split(&mut self, split: Split, rng: &mut Rng) -> Vec<T> {
        let len = self.items.len();
        if len == 0 {
            return Vec::new();
        }
        let part = match split {
            Split::Random => 1 + rng.below(len as u64) as usize,
            Split::Equal => len.div_ceil(2),
        };
        self.items.drain(..part.min(GIVEN_ITEMS)).collect()
    }

    /// The oldest items, when there are too many. The next to be worked on are the newest.
    pub(crate) fn spill(&mut self) -> Option<Vec<T>> {
        if self.items.len() <= self.spill_above {
            return None;
        }
        let items: Vec<T> = self.items.drain(..self.spill_chunk).collect();
        self.add_spilled(items.len());
        Some(items)
    }

    /// The transport keeps so many items as one piece, which are newer than those that it keeps.
    ///
    /// # Panics
    /// When there are none.
    pub(crate) fn add_spilled(&mut self, items: usize) {
        assert!(items > 0, "a piece has items");
        self.pieces.push_back(items);
        self.spilled += items as u64;
    }

    /// Returns whether spilled items have to be brought back now.
    pub(crate) fn wants_refill(&mut self) -> bool {
        if !self.items.is_empty() || self.refilling > 0 {
            return false;
        }
        self.refilling = self.pieces.pop_back().unwrap_or(0);
        self.spilled -= self.refilling as u64;
        self.refilling > 0
    }

    /// # Panics
    /// When another number of items comes than was asked for.
    pub(crate) fn refilled(&mut self, items: Vec<T>) {
        assert!(!items.is_empty() && items.len() == self.refilling);
        self.refilling = 0;
        // They are older than what has come meanwhile.
        for item in items.into_iter().rev() {
            self.items.push_front(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(items: std::ops::Range<u32>) -> Queue<u32> {
        let mut queue = Queue::new(8, 3);
        queue.push(items);
        queue
    }

    #[test]
    fn the_oldest_are_given_away_and_the_newest_worked_on() {
        let mut rng = Rng::new(1);
        let mut it = queue(0..5);
        assert_eq!(it.pop_newest(), Some(4));
        assert_eq!(it.split(Split::Equal, &mut rng), [0, 1]);
        assert_eq!(it.split(Split::Equal, &mut rng), [2]);
        assert_eq!(it.split(Split::Equal, &mut rng), [3]);
        assert_eq!(it.split(Split::Equal, &mut rng), [0; 0]);
    }

    #[test]
    fn a_random_part_is_anything_from_one_to_all() {
        let mut rng = Rng::new(7);
        let mut sizes = std::collections::BTreeSet::new();
        for _ in 0..200 {
            sizes.insert(queue(0..6).split(Split::Random, &mut rng).len());
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_oldest_piece_is_given_away_and_the_newest_comes_back() {
        let mut it = queue(0..9);
        assert_eq!(it.spill(), Some(vec![0, 1, 2]));
        it.push(9..12);
        assert_eq!(it.spill(), Some(vec![3, 4, 5]));
        it.add_spilled(7);
        assert!(it.give_spilled());
        assert_eq!((it.len(), it.total()), (6, 16));
        while it.pop_newest().is_some() {}
        assert!(it.wants_refill(), "of the last seven");
        assert_eq!(it.total(), 10);
        assert!(it.give_spilled(), "while the others come");
        assert!(!it.give_spilled());
        it.refilled((20..27).collect());
        assert_eq!((it.len(), it.total()), (7, 7));
        assert!(!it.give_spilled());
    }

    #[test]
    fn what_is_spilled_comes_back_in_its_place() {
        let mut it = queue(0..8);
        assert_eq!(it.spill(), None);
        it.push([8]);
        assert_eq!(it.spill(), Some(vec![0, 1, 2]));
        assert_eq!((it.len(), it.total()), (6, 9));
        assert!(!it.wants_refill());
        while it.pop_newest().is_some() {}
        assert!(it.wants_refill());
        assert!(!it.wants_refill(), "it is asked for once");
        it.push([10]);
        it.refilled(vec![0, 1, 2]);
        assert_eq!(it.total(), 4);
        assert_eq!(it.pop_newest(), Some(10));
        assert_eq!(it.pop_newest(), Some(2));
        assert_eq!(it.pop_oldest(), Some(0));
    }
}
