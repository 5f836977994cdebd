//! Telling clients that leases end. A client always has one request here, which is answered when there is
//! something to tell; with the next one it says that it has done so.
//!
//! Such a request costs nothing while it waits, neither a thread nor a slot. It is answered with nothing after
//! [`RECALL_WAIT`], so that both sides notice when the other is gone.

use super::Lane;
use crate::slots::SlotKey;
use pandofs_shard::{Input, Recall};
use pandofs_types::limits::{MAX_KEYS_PER_RECALL, RECALL_WAIT};
use pandofs_types::{LeaseKey, SessionId, ShardId};
use pandofs_wire::message::AnswerBody;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Of all sessions that take leases.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// The request that waits: connection, its number there, and since when.
    waiting: Option<(SlotKey, u64, Instant)>,
    /// To be told.
    queue: VecDeque<(ShardId, u64, Vec<LeaseKey>)>,
    /// The number of the last answer, and which recalls it was about.
    told: (u64, Vec<(ShardId, u64)>),
}

/// An answer to a request that waited.
struct Answer {
    connection: SlotKey,
    id: u64,
    number: u64,
    keys: Vec<LeaseKey>,
}

impl Session {
    /// The answer to the request that waits, if there is one and something to tell; without `keys` there need
    /// not be.
    fn answer(&mut self, even_nothing: bool) -> Option<Answer> {
        if self.queue.is_empty() && !even_nothing {
            return None;
        }
        let (connection, id, _) = self.waiting.take()?;
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
        Some(Answer {
            connection,
            id,
            number,
            keys,
        })
    }
}

impl Lane {
    /// A client waits for recalls. `done`: it has let go of what the answer of this number was about; without
    /// it takes leases anew.
    pub(super) fn await_recalls(
        &mut self,
        connection: SlotKey,
        id: u64,
        session: SessionId,
        done: Option<u64>,
        now: Instant,
    ) {
        let Some(done) = done else {
            self.recalls.sessions.insert(session, Session::default());
            self.tell_all_shards(|| Input::TakesLeases { session });
            // At once: what is asked from then on is asked of who knows that the session takes leases.
            let (number, keys) = (0, Vec::new());
            return self.answer(connection, id, AnswerBody::Recalls { number, keys });
        };
        let Some(known) = self.recalls.sessions.get_mut(&session) else {
            // It was given up for gone, and is to begin anew.
            return self.answer(connection, id, AnswerBody::Done);
        };
        if done == known.told.0 {
            for (shard, number) in std::mem::take(&mut known.told.1) {
                self.inbox
                    .push((shard, Input::Recalled { session, number }));
            }
        }
        known.waiting = Some((connection, id, now));
        let answer = known.answer(false);
        self.tell_recalls(answer);
    }

    pub(super) fn recall(&mut self, shard: ShardId, recall: Recall) {
        let Some(session) = self.recalls.sessions.get_mut(&recall.session) else {
            // It has gone, and what it had goes by itself.
            return;
        };
        session.queue.push_back((shard, recall.number, recall.keys));
        let answer = session.answer(false);
        self.tell_recalls(answer);
    }

    fn tell_recalls(&mut self, answer: Option<Answer>) {
        if let Some(answer) = answer {
            let (number, keys) = (answer.number, answer.keys);
            self.answer(
                answer.connection,
                answer.id,
                AnswerBody::Recalls { number, keys },
            );
        }
    }

    /// Answers those who have waited for long.
    pub(super) fn answer_waiting(&mut self, now: Instant) {
        let has_waited = |session: &&mut Session| {
            let since = session.waiting.map(|(_, _, since)| since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= RECALL_WAIT)
        };
        let sessions = self.recalls.sessions.values_mut().filter(has_waited);
        let answers: Vec<_> = sessions
            .filter_map(|session| session.answer(true))
            .collect();
        for answer in answers {
            self.tell_recalls(Some(answer));
        }
    }

    /// The session is gone; who waits in its name is told that there is nothing more.
    pub(super) fn forget_recalls(&mut self, session: SessionId) {
        if let Some(mut session) = self.recalls.sessions.remove(&session) {
            session.queue.clear();
            let answer = session.answer(true);
            self.tell_recalls(answer);
        }
    }
}
