//! Requests by which clients wait for recalls of leases.
//!
//! The state machine is in `crate::recalls`; here it meets connections and shards.

use super::Lane;
use crate::connection::ConnectionKey;
use crate::recalls::{Answer, Said};
use pandofs_shard::{Input, Recall};
use pandofs_types::{SessionId, ShardId};
use pandofs_wire::message::AnswerBody;
use std::time::Instant;

/// Where an answer goes: a connection, and the number of the request there.
pub(super) type Waiter = (ConnectionKey, u64);

impl Lane {
    /// A client waits for recalls.
    pub(super) fn await_recalls(
        &mut self,
        (connection, id): Waiter,
        session: SessionId,
        done: Option<u64>,
        now: Instant,
    ) {
        let Some(known) = self.connections.get_mut(connection) else {
            return;
        };
        known.hears_recalls = true;
        let connected = known.since;
        match self
            .recalls
            .wait(session, connected, (connection, id), done, now)
        {
            Said::Begins => {
                self.tell_all_shards(|| Input::TakesLeases { session });
                let (number, keys) = (0, Vec::new());
                self.answer(connection, id, AnswerBody::Recalls { number, keys });
            }
            Said::LetGo { recalls, answer } => {
                for (shard, number) in recalls {
                    self.inbox
                        .push((shard, Input::Recalled { session, number }));
                }
                self.tell_recalls(answer);
            }
            Said::Late => self.answer(connection, id, AnswerBody::Done),
        }
    }

    pub(super) fn recall(&mut self, shard: ShardId, recall: Recall) {
        let answer = self.recalls.tell(shard, recall);
        self.tell_recalls(answer);
    }

    fn tell_recalls(&mut self, answer: Option<Answer<Waiter>>) {
        if let Some(Answer { to, number, keys }) = answer {
            let (connection, id) = to;
            self.answer(connection, id, AnswerBody::Recalls { number, keys });
        }
    }

    /// Answers those who have waited for long.
    pub(super) fn answer_waiting(&mut self, now: Instant) {
        for answer in self.recalls.overdue(now) {
            self.tell_recalls(Some(answer));
        }
    }

    /// The session is gone; requests that wait in its name are answered with nothing more.
    pub(super) fn forget_recalls(&mut self, session: SessionId) {
        let answer = self.recalls.forget(session);
        self.tell_recalls(answer);
    }
}
