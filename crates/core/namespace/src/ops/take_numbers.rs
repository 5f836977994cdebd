//! Take_numbers: a block of inode numbers for one session.

use super::{Checked, Execute, Mutation};
use crate::records::NumbersRecord;
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::Ino;
use pandofs_types::limits::{MAX_BLOCKS_PER_SESSION, MAX_NUMBERS_PER_BLOCK};

impl Execute for op::TakeNumbers {
    fn check(&self, _view: &View<'_>, _cx: &Context<'_>) -> Result<Checked, Stop> {
        match self.count {
            1..=MAX_NUMBERS_PER_BLOCK => Ok(Checked::HERE),
            count => Err(Refusal::Malformed(format!("{count} inode numbers")).into()),
        }
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        self.check(&txn.view(), cx)?;
        let taken = txn.view().numbers(cx.session)?;
        let mut numbers = taken.unwrap_or_default();
        let next = txn.meta.next_serial;
        let end = next + u64::from(self.count);
        txn.meta.next_serial = end;
        numbers.add(next, end);
        txn.put_numbers(cx.session, &numbers);
        Ok(Mutation::Done(Reply::Numbers {
            first: Ino::new(txn.shard, next),
            count: self.count,
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
    fn the_oldest_block_gives_way() {
        let mut numbers = NumbersRecord::default();
        for block in 0..=MAX_BLOCKS_PER_SESSION as u64 {
            numbers.add(10 * block, 10 * block + 3);
        }
        assert!(!numbers.take(0) && numbers.take(10));
    }
}
