//! Telling clients that leases end. A client always has one request here, which is answered when there is
//! something to tell; with the next one it says that it has done so.
//!
//! Such a request costs nothing while it waits, neither a thread nor a slot. It is answered with nothing after
//! [`RECALL_WAIT`], so that both sides notice when the other is gone.
//!
//! A client that loses the connection begins anew over another one. What it said over the old one may be read after
//! that, when the network was slow to bring it: it is not heard any more. (Were it, the session would be taken to
//! have no leases of those that it was given since.)

use pandofs_shard::Recall;
use pandofs_types::limits::{MAX_KEYS_PER_RECALL, RECALL_WAIT};
use pandofs_types::{LeaseKey, SessionId, ShardId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Of all sessions that take leases. `A` is where an answer goes.
#[derive(Debug)]
pub struct Recalls<A> {
    sessions: BTreeMap<SessionId, Session<A>>,
}

#[derive(Debug)]
struct Session<A> {
    /// When the connection was made over which it hears of recalls.
    connected: Instant,
    /// Where the answer to the request goes that waits, and since when it does.
    waiting: Option<(A, Instant)>,
    /// To be told.
    queue: VecDeque<(ShardId, u64, Vec<LeaseKey>)>,
    /// The number of the last answer, and which recalls it was about.
    told: (u64, Vec<(ShardId, u64)>),
}

/// An answer to a request that waited.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<A> {
    pub to: A,
    pub number: u64,
    pub keys: Vec<LeaseKey>,
}

/// What a request says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said<A> {
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
        if self.queue.is_empty() && !even_nothing {
            return None;
        }
        let (to, _) = self.waiting.take()?;
        let (mut keys, mut about) = (Vec::new(), Vec::new());
        while let Some((_, _, next)) = self.queue.front()
            && (keys.is_empty() || keys.len() + next.len() <= MAX_KEYS_PER_RECALL)
            && let Some((shard, number, next)) = self.queue.pop_front()
        {
            keys.extend(next);
            about.push((shard, number));
        }
        let number = self.told.0 + 1;
        self.told = (number, about);
        Some(Answer { to, number, keys })
    }
}

impl<A> Recalls<A> {
    /// A client waits for recalls over a connection that was made at that time. `done`: it has let go of what the answer
    /// of this number was about; without it takes leases anew.
    pub fn wait(
        &mut self,
        session: SessionId,
        connected: Instant,
        to: A,
        done: Option<u64>,
        now: Instant,
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
                told: (0, Vec::new()),
            };
            self.sessions.insert(session, begun);
            return Said::Begins;
        };
        let Some(known) = known else {
            return Said::Late;
        };
        let recalls = match done == known.told.0 {
            true => std::mem::take(&mut known.told.1),
            false => Vec::new(),
        };
        known.waiting = Some((to, now));
        let answer = known.answer(false);
        Said::LetGo { recalls, answer }
    }

    /// A shard has this told to a session. One that is not known has gone, and what it had goes by itself.
    pub fn tell(&mut self, shard: ShardId, recall: Recall) -> Option<Answer<A>> {
        let session = self.sessions.get_mut(&recall.session)?;
        session.queue.push_back((shard, recall.number, recall.keys));
        session.answer(false)
    }

    /// Answers to those who have waited for long.
    pub fn overdue(&mut self, now: Instant) -> Vec<Answer<A>> {
        let has_waited = |session: &&mut Session<A>| {
            let since = session.waiting.as_ref().map(|(_, since)| *since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= RECALL_WAIT)
        };
        let sessions = self.sessions.values_mut().filter(has_waited);
        sessions
            .filter_map(|session| session.answer(true))
            .collect()
    }

    /// The session is gone; who waits in its name is told that there is nothing more.
    pub fn forget(&mut self, session: SessionId) -> Option<Answer<A>> {
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
        let start = Instant::now();
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
    fn whoever_waits_for_long_is_told_nothing() {
        let mut recalls = Recalls::default();
        let start = Instant::now();
        recalls.wait(SESSION, start, 1, None, start);
        recalls.wait(SESSION, start, 2, Some(0), start);
        assert!(
            recalls
                .overdue(start + RECALL_WAIT - Duration::from_nanos(1))
                .is_empty()
        );
        assert_eq!(recalls.overdue(start + RECALL_WAIT), [answer(2, 1, &[])]);
        recalls.wait(SESSION, start, 3, Some(1), start);
        assert_eq!(recalls.forget(SESSION), Some(answer(3, 2, &[])));
        assert_eq!(recalls.forget(SESSION), None);
    }

    #[test]
    fn what_was_said_over_an_older_connection_is_not_heard() {
        let mut recalls = Recalls::default();
        let first = Instant::now();
        let second = first + Duration::from_millis(1);
        assert_eq!(recalls.wait(SESSION, second, 1, None, second), Said::Begins);
        recalls.wait(SESSION, second, 2, Some(0), second);
        assert_eq!(recalls.wait(SESSION, first, 3, None, second), Said::Late);
        assert_eq!(recalls.wait(SESSION, first, 4, Some(0), second), Said::Late);
        assert_eq!(recalls.tell(SHARD, recall(5)), Some(answer(2, 1, &[5])));
    }
}
