//! Recalls of leases, sent to clients.
//!
//! A client always has one request here, which is answered when there is a recall for it; with the
//! next one it says that it has done so, or, where that takes a while, waits for more and says so
//! later: a further request takes the place of the one that is here.
//!
//! Such a request costs nothing while it waits, neither a thread nor a slot. It is answered with nothing after
//! [`RECALL_WAIT`], so that both sides notice when the other is gone.
//!
//! One answer is about leases or about grants: a client may let go of a grant long after it was told, when it has sent what it
//! did under it. (Were one answer about both, a client that waits for a lease's end would wait for all that this one has queued.)
//!
//! A client that loses the connection begins anew over another one. Its messages over the old one may be read after
//! that, when the network was slow to bring them: they are not heard any more. (Were they, the session would be taken to
//! have no leases of those that it was given since.)

use crate::limits::MAX_RECALLS_UNDER_WAY;
use pandofs_shard::Recall;
use pandofs_types::limits::{MAX_KEYS_PER_RECALL, RECALL_WAIT};
use pandofs_types::{LeaseKey, SessionId, ShardId, Steady};
use std::collections::{BTreeMap, VecDeque};

/// Of all sessions that take leases. `A` is where an answer goes.
#[derive(Debug)]
pub(crate) struct Recalls<A> {
    sessions: BTreeMap<SessionId, Session<A>>,
}

#[derive(Debug)]
struct Session<A> {
    /// When the connection was made over which it hears of recalls.
    connected: Steady,
    /// Where the answer to the request goes that waits, and since when it does.
    waiting: Option<(A, Steady)>,
    /// To be told.
    queue: VecDeque<(ShardId, u64, Vec<LeaseKey>)>,
    /// The number of the last answer.
    last: u64,
    /// Answers of which it has not said that it has let go of what they were about, and which recalls that were.
    under_way: BTreeMap<u64, Vec<(ShardId, u64)>>,
}

/// An answer to a request that waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer<A> {
    pub to: A,
    pub number: u64,
    pub keys: Vec<LeaseKey>,
}

/// Contents of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<A> {
    /// The session takes leases anew. The request is answered at once: what is asked from then on is asked of who
    /// knows that it does.
    Begins,
    /// The session has let go of what these were about, and waits for more.
    LetGo {
        recalls: Vec<(ShardId, u64)>,
        answer: Option<Answer<A>>,
    },
    /// It was given up for gone and is to begin anew, or has done so meanwhile.
    Late,
}

impl<A> Default for Recalls<A> {
    fn default() -> Recalls<A> {
        Recalls {
            sessions: BTreeMap::new(),
        }
    }
}

impl<A> Session<A> {
    /// The answer to the request that waits, if there is one and something to tell; with `even_nothing` there need
    /// not be.
    fn answer(&mut self, even_nothing: bool) -> Option<Answer<A>> {
        let may_tell = !self.queue.is_empty() && self.under_way.len() < MAX_RECALLS_UNDER_WAY;
        if !may_tell && !even_nothing {
            return None;
        }
        let (to, _) = self.waiting.take()?;
        let (mut keys, mut about) = (Vec::new(), Vec::new());
        while may_tell
            && let Some((_, _, next)) = self.queue.front()
            && (keys.is_empty() || goes_with(&keys, next))
            && let Some((shard, number, next)) = self.queue.pop_front()
        {
            keys.extend(next);
            about.push((shard, number));
        }
        self.last += 1;
        let number = self.last;
        if !about.is_empty() {
            self.under_way.insert(number, about);
        }
        Some(Answer { to, number, keys })
    }
}

/// Test that these keys may be told in the answer that tells of those, too.
fn goes_with(keys: &[LeaseKey], next: &[LeaseKey]) -> bool {
    let are_grants = |keys: &[LeaseKey]| matches!(keys.first(), Some(LeaseKey::Grant(_)));
    keys.len() + next.len() <= MAX_KEYS_PER_RECALL && are_grants(keys) == are_grants(next)
}

impl<A> Recalls<A> {
    /// A client waits for recalls over a connection that was made at that time. `done`: it has let go of what the answer
    /// of this number was about; without it takes leases anew.
    pub(crate) fn wait(
        &mut self,
        session: SessionId,
        connected: Steady,
        to: A,
        done: Option<u64>,
        now: Steady,
    ) -> Said<A> {
        let known = self.sessions.get_mut(&session);
        if known
            .as_ref()
            .is_some_and(|known| connected < known.connected)
        {
            return Said::Late;
        }
        let Some(done) = done else {
            let begun = Session {
                connected,
                waiting: None,
                queue: VecDeque::new(),
                last: 0,
                under_way: BTreeMap::new(),
            };
            self.sessions.insert(session, begun);
            return Said::Begins;
        };
        let Some(known) = known else {
            return Said::Late;
        };
        let recalls = known.under_way.remove(&done).unwrap_or_default();
        known.waiting = Some((to, now));
        let answer = known.answer(false);
        Said::LetGo { recalls, answer }
    }

    /// A shard has a recall sent to a session. One that is not known has gone, and its leases go by
    /// themselves.
    pub(crate) fn tell(&mut self, shard: ShardId, recall: Recall) -> Option<Answer<A>> {
        let session = self.sessions.get_mut(&recall.session)?;
        session.queue.push_back((shard, recall.number, recall.keys));
        session.answer(false)
    }

    /// Answers to those who have waited for long.
    pub(crate) fn overdue(&mut self, now: Steady) -> Vec<Answer<A>> {
        let has_waited = |session: &&mut Session<A>| {
            let since = session.waiting.as_ref().map(|(_, since)| *since);
            since.is_some_and(|since| now.since(since) >= RECALL_WAIT)
        };
        let sessions = self.sessions.values_mut().filter(has_waited);
        sessions
            .filter_map(|session| session.answer(true))
            .collect()
    }

    /// The session is gone; requests that wait in its name are answered with nothing more.
    pub(crate) fn forget(&mut self, session: SessionId) -> Option<Answer<A>> {
        let mut session = self.sessions.remove(&session)?;
        session.queue.clear();
        session.answer(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::Ino;
    use std::time::Duration;

    const SESSION: SessionId = SessionId(7);
    const SHARD: ShardId = ShardId(3);

    fn recall(number: u64) -> Recall {
        Recall {
            session: SESSION,
            number,
            keys: vec![LeaseKey::Inode(Ino(number))],
        }
    }

    fn answer(to: u8, number: u64, keys: &[u64]) -> Answer<u8> {
        let keys = keys.iter().map(|&ino| LeaseKey::Inode(Ino(ino))).collect();
        Answer { to, number, keys }
    }

    #[test]
    fn what_is_to_be_told_waits_for_a_request_and_is_let_go_with_the_next() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        assert_eq!(recalls.tell(SHARD, recall(1)), None, "nobody is there");
        let mut wait = |to, done| recalls.wait(SESSION, start, to, done, start);
        assert_eq!(wait(1, Some(0)), Said::Late);
        assert_eq!(wait(1, None), Said::Begins);
        let nothing = Said::LetGo {
            recalls: Vec::new(),
            answer: None,
        };
        assert_eq!(wait(2, Some(0)), nothing);
        assert_eq!(recalls.tell(SHARD, recall(5)), Some(answer(2, 1, &[5])));
        assert_eq!(recalls.tell(SHARD, recall(6)), None, "it is busy");
        let done = Said::LetGo {
            recalls: vec![(SHARD, 5)],
            answer: Some(answer(3, 2, &[6])),
        };
        assert_eq!(recalls.wait(SESSION, start, 3, Some(1), start), done);
    }

    #[test]
    fn what_takes_a_while_to_let_go_of_holds_up_nothing_else() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        recalls.wait(SESSION, start, 1, None, start);
        recalls.wait(SESSION, start, 2, Some(0), start);
        assert_eq!(recalls.tell(SHARD, recall(5)), Some(answer(2, 1, &[5])));
        let let_go = |number: &[u64], answer| Said::LetGo {
            recalls: number.iter().map(|&number| (SHARD, number)).collect(),
            answer,
        };
        let mut wait = |to, done| recalls.wait(SESSION, start, to, Some(done), start);
        // Not of the first yet.
        assert_eq!(wait(3, 0), let_go(&[], None));
        assert_eq!(recalls.tell(SHARD, recall(6)), Some(answer(3, 2, &[6])));
        let mut wait = |to, done| recalls.wait(SESSION, start, to, Some(done), start);
        assert_eq!(wait(4, 2), let_go(&[6], None));
        assert_eq!(wait(5, 1), let_go(&[5], None));
        assert_eq!(wait(6, 1), let_go(&[], None), "it was said before");
        assert_eq!(recalls.tell(SHARD, recall(7)), Some(answer(6, 3, &[7])));
    }

    #[test]
    fn a_grant_that_is_let_go_of_late_holds_up_no_lease() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        recalls.wait(SESSION, start, 1, None, start);
        for number in [5, 6, 7] {
            assert_eq!(recalls.tell(SHARD, recall(number)), None, "it is busy");
            let grant = Recall {
                keys: vec![LeaseKey::Grant(Ino(number))],
                ..recall(number + 10)
            };
            if number > 5 {
                assert_eq!(recalls.tell(SHARD, grant), None);
            }
        }
        let mut told = Vec::new();
        for to in 2..6 {
            let Said::LetGo { answer, .. } = recalls.wait(SESSION, start, to, Some(0), start)
            else {
                panic!("it is known");
            };
            told.push(answer.expect("there is more").keys);
        }
        let leases = |of: &[u64]| -> Vec<_> {
            let of = of.iter();
            of.map(|&ino| LeaseKey::Inode(Ino(ino))).collect()
        };
        let grants = |of: u64| vec![LeaseKey::Grant(Ino(of))];
        assert_eq!(told, [leases(&[5, 6]), grants(6), leases(&[7]), grants(7)]);
    }

    #[test]
    fn only_so_much_is_told_to_who_lets_go_of_nothing() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        recalls.wait(SESSION, start, 0, None, start);
        for number in 1..=MAX_RECALLS_UNDER_WAY as u64 {
            recalls.wait(SESSION, start, 1, Some(0), start);
            assert!(recalls.tell(SHARD, recall(number)).is_some());
        }
        recalls.wait(SESSION, start, 2, Some(0), start);
        assert_eq!(recalls.tell(SHARD, recall(500)), None);
        assert_eq!(recalls.overdue(start.after(RECALL_WAIT)).len(), 1);
        let Said::LetGo { recalls, answer } = recalls.wait(SESSION, start, 3, Some(7), start)
        else {
            panic!("it is known");
        };
        assert_eq!(recalls, [(SHARD, 7)]);
        let keys = answer.map(|answer| answer.keys);
        assert_eq!(keys, Some(vec![LeaseKey::Inode(Ino(500))]));
    }

    #[test]
    fn whoever_waits_for_long_is_told_nothing() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        recalls.wait(SESSION, start, 1, None, start);
        recalls.wait(SESSION, start, 2, Some(0), start);
        assert!(
            recalls
                .overdue(start.after(RECALL_WAIT - Duration::from_nanos(1)))
                .is_empty()
        );
        assert_eq!(
            recalls.overdue(start.after(RECALL_WAIT)),
            [answer(2, 1, &[])]
        );
        recalls.wait(SESSION, start, 3, Some(1), start);
        assert_eq!(recalls.forget(SESSION), Some(answer(3, 2, &[])));
        assert_eq!(recalls.forget(SESSION), None);
    }

    #[test]
    fn what_was_said_over_an_older_connection_is_not_heard() {
        let mut recalls = Recalls::default();
        let first = Steady(5);
        let second = first.after(Duration::from_millis(1));
        assert_eq!(recalls.wait(SESSION, second, 1, None, second), Said::Begins);
        recalls.wait(SESSION, second, 2, Some(0), second);
        assert_eq!(recalls.wait(SESSION, first, 3, None, second), Said::Late);
        assert_eq!(recalls.wait(SESSION, first, 4, Some(0), second), Said::Late);
        assert_eq!(recalls.tell(SHARD, recall(5)), Some(answer(2, 1, &[5])));
    }

    /// The session has lost what it had.
    #[test]
    fn who_begins_anew_or_is_gone_is_told_nothing_of_before() {
        let mut recalls = Recalls::default();
        let start = Steady(5);
        assert_eq!(recalls.wait(SESSION, start, 1, None, start), Said::Begins);
        assert_eq!(recalls.tell(SHARD, recall(5)), None);
        assert_eq!(recalls.wait(SESSION, start, 2, None, start), Said::Begins);
        let nothing = || Said::LetGo {
            recalls: Vec::new(),
            answer: None,
        };
        assert_eq!(recalls.wait(SESSION, start, 3, Some(0), start), nothing());
        assert_eq!(recalls.tell(SHARD, recall(6)), Some(answer(3, 1, &[6])));
        assert_eq!(recalls.tell(SHARD, recall(7)), None);
        assert_eq!(recalls.forget(SESSION), None, "no request of it waits");
        assert_eq!(recalls.wait(SESSION, start, 4, Some(1), start), Said::Late);
        // With a request that waits, what was still to be told is not.
        recalls.wait(SESSION, start, 5, None, start);
        for number in 1..=MAX_RECALLS_UNDER_WAY as u64 {
            recalls.wait(SESSION, start, 6, Some(0), start);
            assert!(recalls.tell(SHARD, recall(number)).is_some());
        }
        recalls.wait(SESSION, start, 7, Some(0), start);
        assert_eq!(recalls.tell(SHARD, recall(500)), None);
        let last = MAX_RECALLS_UNDER_WAY as u64 + 1;
        assert_eq!(recalls.forget(SESSION), Some(answer(7, last, &[])));
    }

    #[test]
    fn one_answer_has_as_many_keys_as_the_limit_says() {
        let keys = |count: usize| vec![LeaseKey::Inode(Ino(9)); count];
        let told = |first: usize, second: usize| {
            let mut recalls = Recalls::default();
            let start = Steady(5);
            recalls.wait(SESSION, start, 1, None, start);
            for (number, count) in [(1, first), (2, second)] {
                let keys = keys(count);
                let told = recalls.tell(
                    SHARD,
                    Recall {
                        keys,
                        ..recall(number)
                    },
                );
                assert_eq!(told, None);
            }
            let said = recalls.wait(SESSION, start, 2, Some(0), start);
            let Said::LetGo { answer, .. } = said else {
                panic!("{said:?}");
            };
            answer.expect("there is something").keys.len()
        };
        let most = MAX_KEYS_PER_RECALL;
        assert_eq!(told(most - 1, 1), most);
        assert_eq!(told(most, 1), most);
        assert_eq!(told(most - 1, 2), most - 1);
        assert_eq!(told(1, most), 1);
    }
}
