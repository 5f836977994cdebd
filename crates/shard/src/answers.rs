//! Requests that are not answered yet, and sessions whose last answers are kept.

use hashbrown::HashMap;
use pandofs_api::RequestKey;
use pandofs_types::{SessionId, Time};

use crate::port::Ticket;

/// Where answers go, and whom they are remembered for.
#[derive(Debug, Default)]
pub struct Answers {
    /// Mutations under way. A client that lost its connection repeats the request, and its answer goes
    /// where the last repetition came from.
    in_flight: HashMap<RequestKey, Ticket>,
    sessions: HashMap<SessionId, Time>,
}

impl Answers {
    /// A mutation has come; whether it is new rather than a repetition of one under way.
    pub fn begin(&mut self, key: RequestKey, ticket: Ticket) -> bool {
        self.in_flight.insert(key, ticket).is_none()
    }

    /// Takes out where the answer goes; nowhere if the operation was begun before a restart.
    pub fn forget(&mut self, key: RequestKey) -> Option<Ticket> {
        self.in_flight.remove(&key)
    }

    pub fn saw(&mut self, session: SessionId, now: Time) {
        self.sessions.insert(session, now);
    }

    pub fn drop_session(&mut self, session: SessionId) -> bool {
        self.sessions.remove(&session).is_some()
    }

    /// Sessions last seen before `time`, in order.
    pub fn silent_since(&self, time: Time) -> Vec<SessionId> {
        let mut silent: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, seen)| **seen < time)
            .map(|(s, _)| *s)
            .collect();
        silent.sort();
        silent
    }
}
