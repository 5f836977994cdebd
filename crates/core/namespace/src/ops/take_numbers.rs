//! Take_numbers: inode numbers for one session.

use super::{Checked, Execute, Mutation};
use crate::records::NumbersRecord;
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::Ino;
use pandofs_types::limits::{
    MAX_BLOCKS_PER_SESSION, MAX_NUMBERS_PER_BLOCK, MAX_UNORDERED_NUMBERS, MAX_UNORDERED_PER_SESSION,
};

impl Execute for op::TakeNumbers {
    fn check(&self, _view: &View<'_>, _cx: &Context<'_>) -> Result<Checked, Stop> {
        let fits = self.count <= MAX_NUMBERS_PER_BLOCK && self.unordered <= MAX_UNORDERED_NUMBERS;
        if fits && self.count + self.unordered > 0 {
            return Ok(Checked::HERE);
        }
        let text = format!("{} and {} inode numbers", self.count, self.unordered);
        Err(Refusal::Malformed(text).into())
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        self.check(&txn.view(), cx)?;
        let taken = txn.view().numbers(cx.session)?;
        let mut numbers = taken.unwrap_or_default();
        let next = txn.meta.next_serial;
        let end = next + u64::from(self.count);
        if self.count > 0 {
            numbers.add(next, end);
        }
        let last = end + u64::from(self.unordered);
        txn.meta.next_serial = last;
        numbers.add_unordered(end..last);
        txn.put_numbers(cx.session, &numbers);
        Ok(Mutation::Done(Reply::Numbers {
            first: Ino::new(txn.shard, next),
            count: self.count,
            unordered: self.unordered,
        }))
    }
}

impl NumbersRecord {
    /// Adds a block of numbers that are larger than all that the session has.
    fn add(&mut self, next: u64, end: u64) {
        if self.blocks.len() == MAX_BLOCKS_PER_SESSION {
            self.blocks.remove(0);
        }
        self.blocks.push((next, end));
    }

    /// Adds numbers that are larger than all that the session has.
    fn add_unordered(&mut self, serials: std::ops::Range<u64>) {
        self.unordered.extend(serials);
        let surplus = self
            .unordered
            .len()
            .saturating_sub(MAX_UNORDERED_PER_SESSION);
        self.unordered.drain(..surplus);
    }

    /// Whether the session may use the number whatever others it has used.
    pub fn has_unordered(&self, serial: u64) -> bool {
        self.unordered.contains(&serial)
    }

    /// Takes out a number that was to be used in any order.
    pub fn take_unordered(&mut self, serial: u64) {
        self.unordered.retain(|has| *has != serial);
    }

    /// Takes the number out, and with it all before it. False if the session does not have it.
    pub fn take(&mut self, serial: u64) -> bool {
        let has = |&(next, end): &(u64, u64)| next <= serial && serial < end;
        let Some(place) = self.blocks.iter().position(has) else {
            return false;
        };
        self.blocks.drain(..place);
        self.blocks[0].0 = serial + 1;
        if self.blocks[0].0 == self.blocks[0].1 {
            self.blocks.remove(0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_and_none_before_it_afterwards() {
        let mut numbers = NumbersRecord::default();
        numbers.add(5, 8);
        numbers.add(10, 12);
        assert!(!numbers.take(4) && !numbers.take(8) && !numbers.take(12));
        assert!(numbers.take(6) && !numbers.take(6) && !numbers.take(5));
        assert!(numbers.take(10) && !numbers.take(7));
        assert!(numbers.take(11));
        assert_eq!(numbers, NumbersRecord::default());
    }

    #[test]
    fn unordered_numbers_are_used_in_any_order_and_the_oldest_give_way() {
        let mut numbers = NumbersRecord::default();
        numbers.add_unordered(5..8);
        numbers.take_unordered(7);
        assert!(numbers.has_unordered(5) && numbers.has_unordered(6) && !numbers.has_unordered(7));
        assert!(!numbers.take(5));
        let last = 10 + MAX_UNORDERED_PER_SESSION as u64;
        numbers.add_unordered(11..last);
        assert!(!numbers.has_unordered(5) && numbers.has_unordered(6));
    }

    #[test]
    fn the_oldest_block_gives_way() {
        let mut numbers = NumbersRecord::default();
        for block in 0..=MAX_BLOCKS_PER_SESSION as u64 {
            numbers.add(10 * block, 10 * block + 3);
        }
        assert!(!numbers.take(0) && numbers.take(10));
    }
}
