//! One shard's server: what it has on disk, what it has appended and not synced, what waits to leave.
//!
//! Every input that changes what is stored makes one record. A message that follows a record, and
//! all later ones, leave when that record is synced and not before.

use crate::faults::Fault;
use crate::locks::Locks;
use crate::oracle::{Decided, Violation};
use crate::plan::Plan;
use crate::random::Random;
use crate::stats::Stats;
use pandofs_api::{Age, CommitMessage, Horizon, Step, StepNumber};
use pandofs_commit::{Coordination, Participation, horizon};
use pandofs_types::{CommitProtocol, ShardId, TxId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Operations begun after one that has not ended before that one is named as a straggler.
const STRAGGLES_AFTER: u64 = 2;

/// The state that the records of one shard lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub next_sequence: u64,
    pub coordinations: BTreeMap<u64, Coordination>,
    pub participations: BTreeMap<(TxId, StepNumber), Participation>,
    /// Of each coordinator: what has ended everywhere.
    pub horizons: BTreeMap<ShardId, Horizon>,
    pub performed: Vec<(TxId, Step)>,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub from: ShardId,
    pub to: ShardId,
    pub horizon: Horizon,
    pub message: CommitMessage,
}

/// Answer that a client gets to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Failed,
}

#[derive(Debug)]
pub(crate) enum Outgoing {
    Message(Box<Envelope>),
    Answer {
        plan: usize,
        answer: Answer,
    },
    /// The operation gave way to an older one and is to be started again.
    Again {
        plan: usize,
    },
}

/// Input that has its turn when a lock is let go.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Start { plan: usize, age: Age },
    Message(Box<Envelope>),
}

/// State that all nodes of one run share.
pub(crate) struct Context<'a> {
    pub plans: &'a [Plan],
    pub random: &'a mut Random,
    pub fault: Fault,
    pub protocol: CommitProtocol,
    /// Per cent of the steps that are refused for no reason.
    pub refuse: usize,
    pub stats: &'a mut Stats,
    /// Found while a node was at work.
    pub violations: &'a mut Vec<Violation>,
}

pub(crate) struct Node {
    pub shard: ShardId,
    pub stored: Stored,
    pub up: bool,
    pub locks: Locks,
    pub waiting: Vec<Waiting>,
    /// The plan of each operation whose client waits here.
    pub clients: BTreeMap<u64, usize>,
    /// Operations found undecided at the last restart.
    pub inquiring: BTreeSet<u64>,
    /// Set when a lock was let go.
    pub released: bool,
    /// Changes and messages of the present input.
    pub changed: bool,
    pub said: Vec<(ShardId, CommitMessage)>,
    pub answered: Vec<Outgoing>,
    pub decided: Vec<Decided>,
    on_disk: Stored,
    /// The state after each record that is not synced.
    tail: Vec<Stored>,
    /// Records ever appended, and synced.
    appended: u64,
    synced: u64,
    /// Decisions in records that are not synced.
    unsynced: VecDeque<(u64, Decided)>,
    /// Messages that may leave once as many records are synced.
    outbox: VecDeque<(u64, Outgoing)>,
}

impl Node {
    pub(crate) fn new(shard: ShardId) -> Node {
        Node {
            shard,
            stored: Stored::default(),
            up: true,
            locks: Locks::default(),
            waiting: vec![],
            clients: BTreeMap::new(),
            inquiring: BTreeSet::new(),
            released: false,
            changed: false,
            said: vec![],
            answered: vec![],
            decided: vec![],
            on_disk: Stored::default(),
            tail: vec![],
            appended: 0,
            synced: 0,
            unsynced: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Starts an operation for a client.
    pub(crate) fn start(&mut self, plan: usize, age: Age, context: &mut Context<'_>) {
        self.coordinate(plan, age, context);
        self.end_input(context);
    }

    pub(crate) fn receive(&mut self, envelope: Envelope, context: &mut Context<'_>) {
        self.handle(envelope, context);
        self.end_input(context);
    }

    /// Some time has passed.
    pub(crate) fn tick(&mut self, context: &mut Context<'_>) {
        if context.fault == Fault::NeverResends {
            return;
        }
        self.tick_coordinations(context);
        for participation in self.stored.participations.values() {
            if let Some(message) = participation.resend() {
                self.said.push((participation.tx.coordinator, message));
            }
        }
        self.end_input(context);
    }

    /// The tail of the records is on disk now; gives the decisions in it.
    pub(crate) fn sync(&mut self) -> Vec<Decided> {
        self.tail.clear();
        self.on_disk = self.stored.clone();
        self.synced = self.appended;
        self.unsynced
            .drain(..)
            .map(|(_, decided)| decided)
            .collect()
    }

    /// The first of what may leave.
    pub(crate) fn leave(&mut self) -> Option<Outgoing> {
        let (needs, _) = self.outbox.front()?;
        if *needs > self.synced {
            return None;
        }
        self.outbox.pop_front().map(|(_, outgoing)| outgoing)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.tail.is_empty()
    }

    /// Stops at once. Of the records that were not synced the first few may be on disk all the same;
    /// gives the decisions in those.
    pub(crate) fn crash(&mut self, context: &mut Context<'_>) -> Vec<Decided> {
        let kept = if context.random.percent(30) {
            self.tail.len()
        } else {
            context.random.below(self.tail.len() + 1)
        };
        context.stats.crashes += 1;
        if kept < self.tail.len() {
            context.stats.tails_lost += 1;
        }
        if kept > 0 {
            self.on_disk = self.tail.swap_remove(kept - 1);
        }
        let last = self.synced + kept as u64;
        let written = self
            .unsynced
            .drain(..)
            .filter(|(record, _)| *record <= last)
            .map(|(_, decided)| decided)
            .collect();
        let bytes = postcard::to_stdvec(&self.on_disk).expect("it is encodable");
        let stored = postcard::from_bytes(&bytes).expect("it was encoded");
        *self = Node {
            stored,
            up: false,
            appended: last,
            synced: last,
            ..Node::new(self.shard)
        };
        self.on_disk = self.stored.clone();
        written
    }

    /// Reads what is on disk, and finds out what came of the operations that are undecided.
    pub(crate) fn restart(&mut self, context: &mut Context<'_>) {
        assert!(!self.up);
        self.up = true;
        if context.fault == Fault::HorizonNotStored {
            self.stored.horizons.clear();
        }
        if context.fault != Fault::LosesLocks {
            self.locks = Locks::rebuild(&self.stored);
        }
        self.recover_coordinations(context);
        for participation in self.stored.participations.values() {
            if let Some(message) = participation.resend() {
                self.said.push((participation.tx.coordinator, message));
            }
        }
        self.end_input(context);
    }

    /// The operations coordinated by this shard that have ended everywhere.
    fn horizon(&self) -> Horizon {
        let open = self.stored.coordinations.keys().copied();
        horizon(open, self.stored.next_sequence, STRAGGLES_AFTER)
    }

    fn handle(&mut self, envelope: Envelope, context: &mut Context<'_>) {
        let (from, horizon) = (envelope.from, envelope.horizon.clone());
        match envelope.message {
            CommitMessage::Do { .. }
            | CommitMessage::Vote { .. }
            | CommitMessage::PreCommit { .. }
            | CommitMessage::Ack { .. }
            | CommitMessage::Outcome { .. }
            | CommitMessage::Inquire { .. } => {
                self.participate(envelope, context);
                self.raise_horizon(from, &horizon, context);
            }
            CommitMessage::Prepared { .. }
            | CommitMessage::Committed { .. }
            | CommitMessage::Refused { .. }
            | CommitMessage::Finished { .. }
            | CommitMessage::PreCommitted { .. }
            | CommitMessage::InquireOutcome { .. } => {
                self.hear_participant(from, envelope.message, context);
            }
        }
    }

    fn end_input(&mut self, context: &mut Context<'_>) {
        self.write_record(context);
        // Waiting inputs have their turn; each makes a record of its own.
        while std::mem::take(&mut self.released) {
            for waiting in std::mem::take(&mut self.waiting) {
                match waiting {
                    Waiting::Start { plan, age } => self.coordinate(plan, age, context),
                    Waiting::Message(envelope) => self.handle(*envelope, context),
                }
                self.write_record(context);
            }
        }
    }

    fn write_record(&mut self, context: &Context<'_>) {
        if std::mem::take(&mut self.changed) {
            self.appended += 1;
            self.tail.push(self.stored.clone());
        }
        let needs = match context.fault {
            Fault::SendsBeforeSyncing => 0,
            _ => self.appended,
        };
        let (from, horizon) = (self.shard, self.horizon());
        for (to, message) in self.said.drain(..) {
            let envelope = Envelope {
                from,
                to,
                horizon: horizon.clone(),
                message,
            };
            self.outbox
                .push_back((needs, Outgoing::Message(Box::new(envelope))));
        }
        for answer in self.answered.drain(..) {
            self.outbox.push_back((needs, answer));
        }
        for decided in self.decided.drain(..) {
            self.unsynced.push_back((self.appended, decided));
        }
    }
}
