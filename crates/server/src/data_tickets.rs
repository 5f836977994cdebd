//! Numbers under which this server asks for data objects, and what it remembers of others' asking.

use pandofs_api::DataReply;
use pandofs_types::limits::MAX_REMEMBERED_DATA_ANSWERS;
use pandofs_types::{ServerId, ShardId};
use std::collections::{HashMap, HashSet, VecDeque};

/// Shards number their data requests each for itself; on the wire a number has to tell which shard
/// asked.
#[derive(Debug)]
pub(crate) struct DataTickets {
    next: u64,
    asked: HashMap<u64, (ShardId, u64)>,
    numbers: HashMap<(ShardId, u64), u64>,
}

impl DataTickets {
    /// Counts from `first`, which is to be drawn at random: an answer to what an earlier process of this
    /// server asked must not be taken for one to what this process asks. (Removing inode 5 was number 1
    /// then; if removing inode 6 were number 1 now, the late answer would leave it there for ever.)
    pub fn new(first: u64) -> DataTickets {
        DataTickets {
            next: first,
            asked: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// The number for what `shard` asks under `ticket`, and whether it is new. What is asked again
    /// because no answer came has the number it had.
    pub fn number(&mut self, shard: ShardId, ticket: u64) -> (u64, bool) {
        if let Some(&number) = self.numbers.get(&(shard, ticket)) {
            return (number, false);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.numbers.insert((shard, ticket), number);
        self.asked.insert(number, (shard, ticket));
        (number, true)
    }

    /// Who asked under `number`; forgets it. `None` for an answer that came before.
    pub fn done(&mut self, number: u64) -> Option<(ShardId, u64)> {
        let asker = self.asked.remove(&number)?;
        self.numbers.remove(&asker);
        Some(asker)
    }
}

/// What to do with another server's data request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is new: carry it out.
    No,
    /// It is being carried out.
    UnderWay,
    /// It was carried out, and the answer was `Done`.
    Done,
}

/// Requests of other servers' shards, so that each is carried out once. (A cuts an object, the answer is
/// late, A asks again; the answer comes, a client writes behind the cut; were the second request
/// carried out now, it would take the client's data away.)
#[derive(Debug, Default)]
pub(crate) struct PeerRequests {
    under_way: HashSet<(ServerId, u64)>,
    done: HashSet<(ServerId, u64)>,
    /// The keys of `done`, oldest first.
    order: VecDeque<(ServerId, u64)>,
}

impl PeerRequests {
    /// Takes note of a request and says whether it came before.
    pub fn begin(&mut self, server: ServerId, ticket: u64) -> Again {
        if self.done.contains(&(server, ticket)) {
            return Again::Done;
        }
        if self.under_way.insert((server, ticket)) {
            Again::No
        } else {
            Again::UnderWay
        }
    }

    /// Takes note of a result. Only successes without data are remembered: what failed may be tried
    /// again, and what was read does no harm when it is read again.
    pub fn finish(&mut self, server: ServerId, ticket: u64, reply: &DataReply) {
        self.under_way.remove(&(server, ticket));
        if *reply != DataReply::Done {
            return;
        }
        if self.order.len() == MAX_REMEMBERED_DATA_ANSWERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.done.remove(&oldest);
        }
        self.order.push_back((server, ticket));
        self.done.insert((server, ticket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::FsError;

    #[test]
    fn a_repeated_request_keeps_its_number_until_it_is_answered() {
        let mut tickets = DataTickets::new(u64::MAX);
        assert_eq!(tickets.number(ShardId(1), 7), (u64::MAX, true));
        assert_eq!(tickets.number(ShardId(2), 7), (0, true));
        assert_eq!(tickets.number(ShardId(1), 7), (u64::MAX, false));
        assert_eq!(tickets.done(u64::MAX), Some((ShardId(1), 7)));
        assert_eq!(tickets.done(u64::MAX), None);
        assert_eq!(tickets.number(ShardId(1), 7), (1, true));
        assert_eq!(tickets.done(0), Some((ShardId(2), 7)));
    }

    #[test]
    fn a_request_is_carried_out_once() {
        let mut requests = PeerRequests::default();
        let (a, b) = (ServerId(1), ServerId(2));
        assert_eq!(requests.begin(a, 5), Again::No);
        assert_eq!(requests.begin(a, 5), Again::UnderWay);
        assert_eq!(requests.begin(b, 5), Again::No);
        requests.finish(a, 5, &DataReply::Done);
        assert_eq!(requests.begin(a, 5), Again::Done);
        requests.finish(b, 5, &DataReply::Failed(FsError::NoSpace));
        assert_eq!(requests.begin(b, 5), Again::No);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut requests = PeerRequests::default();
        for ticket in 0..=MAX_REMEMBERED_DATA_ANSWERS as u64 {
            assert_eq!(requests.begin(ServerId(1), ticket), Again::No);
            requests.finish(ServerId(1), ticket, &DataReply::Done);
        }
        assert_eq!(requests.done.len(), MAX_REMEMBERED_DATA_ANSWERS);
        assert_eq!(requests.begin(ServerId(1), 1), Again::Done);
        assert_eq!(requests.begin(ServerId(1), 0), Again::No);
    }
}
