//! Commands that come of an input or a record: records to append, outputs for the lane, inputs that wait.

use crate::notes::{Note, Notes};
use crate::port::{Input, Output, Proposal, Ticket};
use crate::record::Record;
use crate::waiting::{Until, WaitingRoom};
use pandofs_api::{Cause, PeerMessage, Refusal, Reply};
use pandofs_namespace::Effect;
use pandofs_types::{ShardId, Steady};

/// The machines of a shard (splits, reclaim, locks of files, leases) put into it what is to be done, so that a test can
/// compare all of it.
#[derive(Debug)]
pub(crate) struct Commands {
    pub shard: ShardId,
    /// Of the input or record at hand; 0 while records are replayed.
    pub now: Steady,
    pub replaying: bool,
    /// Index of the last record proposed.
    pub proposed: u64,
    pub proposals: Vec<Proposal>,
    pub outputs: Vec<Output>,
    /// Of the record at hand, not looked at yet.
    pub effects: Vec<Effect>,
    pub waiting: WaitingRoom,
    pub notes: Notes,
    /// Keys that were read for the input at hand, each as it was found not to be in memory.
    pub warmed: Vec<Vec<u8>>,
}

impl Commands {
    /// None, after the record with the index `applied`.
    pub(crate) fn after(shard: ShardId, applied: u64) -> Commands {
        Commands {
            shard,
            now: Steady(0),
            replaying: false,
            proposed: applied,
            proposals: Vec::new(),
            outputs: Vec::new(),
            effects: Vec::new(),
            waiting: WaitingRoom::default(),
            notes: Notes::default(),
            warmed: Vec::new(),
        }
    }

    /// Appends a record to the log; returns its index.
    pub(crate) fn propose(&mut self, record: &Record) -> u64 {
        self.proposed += 1;
        self.proposals.push(Proposal {
            index: self.proposed,
            payload: record.encode(),
        });
        self.proposed
    }

    pub(crate) fn send(&mut self, to: ShardId, message: PeerMessage, durable: bool) {
        self.outputs.push(Output::Send {
            to,
            message,
            durable,
        });
    }

    /// Answers without leases.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<Reply, Refusal>, durable: bool) {
        self.outputs.push(Output::Answer {
            ticket,
            result,
            leased: Vec::new(),
            durable,
        });
    }

    /// Has the lane hand this back once everything that is applied is synced.
    pub(crate) fn when_durable(&mut self, input: Input) {
        let shard = self.shard;
        self.outputs.push(Output::WhenDurable { shard, input });
    }

    /// Notes that a request waits for this from here on.
    pub(crate) fn waits(&mut self, ticket: Ticket, cause: Cause) {
        self.notes.add(Note::Waits(ticket, cause));
    }

    /// Notes that it waits no longer.
    pub(crate) fn goes_on(&mut self, ticket: Ticket) {
        self.notes.add(Note::GoesOn(ticket));
    }

    /// Has inputs that wait for this go on.
    pub(crate) fn release(&mut self, until: Until) {
        self.waiting.release(until);
    }
}
