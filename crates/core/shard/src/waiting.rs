//! Waiting room of a shard: inputs that go on when what they wait for has come.

use crate::coordinate::tx_of;
use crate::port::Input;
use pandofs_api::{CommitMessage, PeerMessage, StepNumber};
use pandofs_leases::WaitId;
use pandofs_types::limits::MAX_WAITING_REQUESTS;
use pandofs_types::{Ino, SessionId, ShardId, TxId};
use std::collections::{BTreeMap, HashSet};

/// The event that an input waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Until {
    /// The end of an operation that holds a key.
    Operation(TxId),
    /// All that is proposed is applied.
    Applied,
    /// A split of this directory has got its locks, or given up.
    Gate(Ino),
    /// It is on disk that the session may have locks of files here.
    LockHolder(SessionId),
    /// It is on disk that the session may have grants here.
    Grantholder(SessionId),
    /// All sessions that may have leases, or grants, of before the restart have said so, or are gone.
    Leaseholders,
    /// Nobody has leases any more of what the input changes.
    Clear(WaitId),
}

/// A message of a distributed operation: sender, operation, step, direction.
type Message = (ShardId, TxId, StepNumber, bool);

/// Inputs that wait, at most [`MAX_WAITING_REQUESTS`].
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    waiting: BTreeMap<Until, Vec<Input>>,
    count: usize,
    /// Messages among them, none of them twice: they are sent again and again.
    messages: HashSet<Message>,
    ready: Vec<Input>,
}

impl WaitingRoom {
    /// Puts an input aside, and gives it back if the room is full. One that came again is dropped.
    #[must_use]
    pub(crate) fn wait(&mut self, until: Until, input: Input) -> Option<Input> {
        if self.count >= MAX_WAITING_REQUESTS {
            return Some(input);
        }
        if let Some(message) = message_of(&input)
            && !self.messages.insert(message)
        {
            return None;
        }
        self.count += 1;
        self.waiting.entry(until).or_default().push(input);
        None
    }

    /// The event has come: what waited for it is ready.
    pub(crate) fn release(&mut self, until: Until) {
        let inputs = self.take(until);
        self.ready.extend(inputs);
    }

    /// Takes out what waits for an event that is not to come.
    pub(crate) fn take(&mut self, until: Until) -> Vec<Input> {
        let inputs = self.waiting.remove(&until).unwrap_or_default();
        assert!(inputs.len() <= self.count, "more inputs leave than wait");
        self.count -= inputs.len();
        for message in inputs.iter().filter_map(message_of) {
            self.messages.remove(&message);
        }
        inputs
    }

    /// Inputs that are ready, in the order in which they became so.
    pub(crate) fn take_ready(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.ready)
    }

    /// Whether this message waits already.
    pub(crate) fn has_message(&self, from: ShardId, message: &CommitMessage) -> bool {
        self.messages.contains(&key_of(from, message))
    }

    /// Inputs that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

fn message_of(input: &Input) -> Option<Message> {
    match input {
        Input::Peer(PeerMessage::Commit { from, message, .. }) => Some(key_of(*from, message)),
        _ => None,
    }
}

fn key_of(from: ShardId, message: &CommitMessage) -> Message {
    let (tx, number) = tx_of(message);
    (from, tx, number, message.is_to_coordinator())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(7);

    fn gone(session: u64) -> Input {
        Input::SessionGone {
            session: SessionId(session),
            ended: false,
        }
    }

    fn tx(sequence: u64) -> TxId {
        TxId {
            coordinator: ShardId(2),
            sequence,
        }
    }

    fn vote(number: u16) -> Input {
        let message = CommitMessage::Vote {
            tx: tx(1),
            number: StepNumber(number),
        };
        Input::Peer(PeerMessage::Commit {
            from: ShardId(2),
            to: ShardId(0),
            horizon: pandofs_api::Horizon::default(),
            held: None,
            message,
        })
    }

    #[test]
    fn an_event_releases_what_waits_for_it_in_order_and_nothing_else() {
        let mut room = WaitingRoom::default();
        let operation = Until::Operation(tx(1));
        assert_eq!(room.wait(operation, gone(1)), None);
        assert_eq!(room.wait(Until::Applied, gone(2)), None);
        assert_eq!(room.wait(operation, gone(3)), None);
        assert_eq!(room.len(), 3);
        assert_eq!(room.take(Until::Leaseholders), []);
        room.release(operation);
        room.release(Until::Operation(tx(2)));
        assert_eq!(room.take_ready(), [gone(1), gone(3)]);
        assert_eq!(room.take_ready(), []);
        assert_eq!(room.len(), 1);
    }

    #[test]
    fn what_is_taken_out_is_not_ready() {
        let mut room = WaitingRoom::default();
        assert_eq!(room.wait(Until::LockHolder(SESSION), gone(1)), None);
        assert_eq!(room.take(Until::LockHolder(SESSION)), [gone(1)]);
        assert_eq!(room.take_ready(), []);
        assert_eq!(room.len(), 0);
    }

    #[test]
    fn a_message_waits_once_until_it_is_released() {
        let mut room = WaitingRoom::default();
        let (first, second) = (Until::Leaseholders, Until::Operation(tx(1)));
        assert_eq!(room.wait(first, vote(1)), None);
        assert_eq!(room.wait(second, vote(1)), None);
        assert_eq!(room.wait(second, vote(2)), None);
        assert_eq!(room.len(), 2);
        room.release(first);
        assert_eq!(room.take_ready(), [vote(1)]);
        assert_eq!(room.wait(second, vote(1)), None);
        assert_eq!(room.take(second), [vote(2), vote(1)]);
    }

    #[test]
    fn a_full_room_gives_the_input_back() {
        let mut room = WaitingRoom::default();
        for session in 0..MAX_WAITING_REQUESTS as u64 {
            assert_eq!(room.wait(Until::Applied, gone(session)), None);
        }
        assert_eq!(room.wait(Until::Leaseholders, gone(1)), Some(gone(1)));
        assert_eq!(room.len(), MAX_WAITING_REQUESTS);
        room.release(Until::Applied);
        assert_eq!(room.wait(Until::Leaseholders, gone(1)), None);
    }
}
