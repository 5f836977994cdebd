//! Requests that are not answered yet, and sessions whose last answers are kept.

use hashbrown::HashMap;
use pandofs_api::{Refusal, RequestKey};
use pandofs_types::{SessionId, SlotId, Steady};

use crate::port::Ticket;
use std::cmp::Ordering;

/// Where answers go, and whom they are remembered for.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Mutations under way. A client that lost its connection repeats the request, and its answer goes
    /// where the last repetition came from.
    in_flight: HashMap<RequestKey, Ticket>,
    sessions: HashMap<SessionId, Steady>,
    /// Each slot's last refusal that its client took for the end, and the request's sequence. A restart of the server
    /// ends the connections over which a copy of the request might still come, so these may be lost with it.
    refused: HashMap<SessionId, HashMap<SlotId, (u64, Refusal)>>,
}

impl Answers {
    /// A mutation has come. If it is a repetition of one under way, where that came from last: nothing is answered there any
    /// more.
    pub(crate) fn begin(&mut self, key: RequestKey, ticket: Ticket) -> Option<Ticket> {
        self.in_flight.insert(key, ticket)
    }

    /// Where the answer goes, if it is under way.
    pub(crate) fn ticket(&self, key: RequestKey) -> Option<Ticket> {
        self.in_flight.get(&key).copied()
    }

    /// Takes out where the answer goes; nowhere if the operation was begun before a restart.
    pub(crate) fn forget(&mut self, key: RequestKey) -> Option<Ticket> {
        self.in_flight.remove(&key)
    }

    /// A mutation was refused. If the client does not ask again, a copy of the request must not be executed later: one
    /// that was given up on with its connection may still be on its way. (An unlink is sent twice over two
    /// connections; one finds no such name; somebody creates the name; the other one would take it away.)
    pub(crate) fn refuse(&mut self, key: RequestKey, refusal: &Refusal) {
        let is_final = match refusal {
            Refusal::Fs(_)
            | Refusal::NotInline { .. }
            | Refusal::Malformed(_)
            | Refusal::ByPath(_) => true,
            Refusal::Misdirected(_)
            | Refusal::NewNameMisdirected(_)
            | Refusal::Moved { .. }
            | Refusal::WrongServer { .. }
            | Refusal::TryAgain
            | Refusal::NotYet
            | Refusal::StaleSequence => false,
        };
        if is_final {
            let slots = self.refused.entry(key.session).or_default();
            slots.insert(key.slot, (key.sequence, refusal.clone()));
        }
    }

    /// Refusal for a copy of a request that was refused.
    pub(crate) fn refusal(&self, key: RequestKey) -> Option<Refusal> {
        let (sequence, refusal) = self.refused.get(&key.session)?.get(&key.slot)?;
        match sequence.cmp(&key.sequence) {
            Ordering::Less => None,
            Ordering::Equal => Some(refusal.clone()),
            Ordering::Greater => Some(Refusal::StaleSequence),
        }
    }

    pub(crate) fn saw(&mut self, session: SessionId, now: Steady) {
        self.sessions.insert(session, now);
    }

    pub(crate) fn drop_session(&mut self, session: SessionId) -> bool {
        self.refused.remove(&session);
        self.sessions.remove(&session).is_some()
    }

    /// Sessions last seen before `time`, in order.
    pub(crate) fn silent_since(&self, time: Steady) -> Vec<SessionId> {
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
