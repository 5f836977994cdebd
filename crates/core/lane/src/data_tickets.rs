//! Numbers under which this server asks others for data objects.

use pandofs_types::ShardId;
use std::collections::HashMap;

/// Shards number their data requests each for itself; on the wire a number has to tell which shard
/// asked.
#[derive(Debug)]
pub(crate) struct DataTickets {
    next: u64,
    asked: HashMap<u64, (ShardId, u64)>,
    /// Of what has been asked for and not been done.
    numbers: HashMap<(ShardId, u64), Number>,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    number: u64,
    /// It waits for the disk no more.
    sent: bool,
}

/// How often a shard has asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Never, or it failed.
    First,
    /// It is asked for again, and has not been sent yet.
    Unsent,
    /// It is asked for again, because no answer came.
    Again,
}

impl DataTickets {
    /// Counts from `first`, which is to be drawn at random: an answer to what an earlier process of this
    /// server asked must not be taken for one to what this process asks. (Removing inode 5 was number 1
    /// then; if removing inode 6 were number 1 now, the late answer would leave it there for ever.)
    pub(crate) fn new(first: u64) -> DataTickets {
        DataTickets {
            next: first,
            asked: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// Takes note that `shard` asks for something under `ticket`.
    ///
    /// A request other than [`Asked::First`] must not be kept until the disk has something: the
    /// answer may come meanwhile, and then it would be sent under a new number and carried out once
    /// more. (A truncates an object, the answer is late, A asks again, and that waits for the disk; the
    /// answer comes, a client writes behind the truncation; what has waited goes out now and takes the
    /// client's data away.)
    pub(crate) fn ask(&mut self, shard: ShardId, ticket: u64) -> Asked {
        match self.numbers.get(&(shard, ticket)) {
            Some(Number { sent: true, .. }) => Asked::Again,
            Some(Number { sent: false, .. }) => Asked::Unsent,
            None => {
                let number = self.next;
                self.next = self.next.wrapping_add(1);
                let sent = false;
                self.numbers
                    .insert((shard, ticket), Number { number, sent });
                self.asked.insert(number, (shard, ticket));
                Asked::First
            }
        }
    }

    /// The number under which it is sent now, and whether it is for the first time.
    ///
    /// # Panics
    /// When it was not asked for, or is done.
    pub(crate) fn send(&mut self, shard: ShardId, ticket: u64) -> (u64, bool) {
        let Some(found) = self.numbers.get_mut(&(shard, ticket)) else {
            panic!("shard {shard} did not ask for anything under ticket {ticket}");
        };
        let is_first = !found.sent;
        found.sent = true;
        (found.number, is_first)
    }

    /// It cannot be sent; the shard asks again.
    pub(crate) fn forget(&mut self, shard: ShardId, ticket: u64) {
        if let Some(found) = self.numbers.remove(&(shard, ticket)) {
            self.asked.remove(&found.number);
        }
    }

    /// Returns the requester of `number`, and forgets it. `None` for an answer that came before, or
    /// to a request that was not sent.
    pub(crate) fn done(&mut self, number: u64) -> Option<(ShardId, u64)> {
        let asker = *self.asked.get(&number)?;
        if !self.numbers.get(&asker).is_some_and(|found| found.sent) {
            return None;
        }
        self.asked.remove(&number);
        self.numbers.remove(&asker);
        Some(asker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_keeps_its_number_until_it_is_answered() {
        let mut tickets = DataTickets::new(u64::MAX);
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::First);
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::Unsent);
        assert_eq!(tickets.done(u64::MAX), None);
        assert_eq!(tickets.send(ShardId(1), 7), (u64::MAX, true));
        assert_eq!(tickets.ask(ShardId(2), 7), Asked::First);
        assert_eq!(tickets.send(ShardId(2), 7), (0, true));
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::Again);
        assert_eq!(tickets.send(ShardId(1), 7), (u64::MAX, false));
        assert_eq!(tickets.done(u64::MAX), Some((ShardId(1), 7)));
        assert_eq!(tickets.done(u64::MAX), None);
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::First);
        assert_eq!(tickets.send(ShardId(1), 7), (1, true));
        assert_eq!(tickets.done(0), Some((ShardId(2), 7)));
    }

    #[test]
    fn what_could_not_be_sent_is_asked_for_anew() {
        let mut tickets = DataTickets::new(5);
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::First);
        tickets.forget(ShardId(1), 7);
        assert_eq!(tickets.done(5), None);
        assert_eq!(tickets.ask(ShardId(1), 7), Asked::First);
        assert_eq!(tickets.send(ShardId(1), 7), (6, true));
    }
}
