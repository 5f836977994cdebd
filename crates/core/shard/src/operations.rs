//! Operations of several shards that are under way here, coordinated or taken part in, and the locks that they hold.

use crate::coordinate::{Coordinated, Origin};
use crate::early_votes::EarlyVotes;
use crate::port::{Input, Ticket};
use hashbrown::HashMap;
use pandofs_api::{Age, Horizon, RequestKey, StepNumber};
use pandofs_commit::{Decision, Participation, ParticipationState};
use pandofs_namespace::Locks;
use pandofs_types::limits::STRAGGLES_AFTER;
use pandofs_types::{ShardId, Steady, TxId};
use std::collections::{BTreeMap, BTreeSet};

/// Distributed operations that a shard coordinated and that have ended, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Operations that took effect on all their shards.
    pub committed: u64,
    /// Operations that changed nothing, those that began again included.
    pub aborted: u64,
}

/// Their steps, locks, and what is to be sent again.
#[derive(Debug)]
pub(crate) struct Operations {
    // Stored as well; changed by records alone.
    pub locks: Locks,
    pub coordinations: BTreeMap<u64, Coordinated>,
    pub participations: BTreeMap<(TxId, StepNumber), Participation>,
    /// Those of them that have not ended.
    pub active: BTreeSet<(TxId, StepNumber)>,
    pub horizons: BTreeMap<ShardId, Horizon>,
    // May be lost.
    /// `STRAGGLES_AFTER`, but where a test has fewer operations.
    pub straggles_after: u64,
    /// Operations that readers of directories wait for.
    pub unseen: HashMap<Ticket, BTreeSet<TxId>>,
    /// Operations that gave way to older ones, and when they start again.
    pub retries: BTreeMap<(Steady, u64), (Input, Age)>,
    pub sequence_of_retry: u64,
    /// The age of an operation that is about to start again.
    pub ages: HashMap<RequestKey, Age>,
    pub early_votes: EarlyVotes,
    /// When the messages of an operation were last sent.
    pub sent: BTreeMap<(TxId, Option<StepNumber>), Steady>,
    /// Operations that were under way before this process started.
    pub inherited: BTreeSet<TxId>,
    pub finished: Finished,
}

impl Default for Operations {
    fn default() -> Operations {
        Operations {
            locks: Locks::default(),
            coordinations: BTreeMap::new(),
            participations: BTreeMap::new(),
            active: BTreeSet::new(),
            horizons: BTreeMap::new(),
            straggles_after: STRAGGLES_AFTER,
            unseen: HashMap::new(),
            retries: BTreeMap::new(),
            sequence_of_retry: 0,
            ages: HashMap::new(),
            early_votes: EarlyVotes::default(),
            sent: BTreeMap::new(),
            inherited: BTreeSet::new(),
            finished: Finished::default(),
        }
    }
}

impl Operations {
    /// Whether the operation has ended everywhere, as far as this shard has heard.
    pub(crate) fn has_passed(&self, tx: TxId) -> bool {
        let horizon = self.horizons.get(&tx.coordinator);
        horizon.is_some_and(|horizon| horizon.has_passed(tx.sequence))
    }

    pub(crate) fn keep(&mut self, part: Participation) {
        self.note_active(&part);
        self.participations.insert((part.tx, part.number), part);
    }

    /// Ticks look at what has not ended, and at nothing else.
    pub(crate) fn note_active(&mut self, part: &Participation) {
        let key = (part.tx, part.number);
        if matches!(part.state, ParticipationState::Ended) {
            self.active.remove(&key);
            self.sent.remove(&(part.tx, Some(part.number)));
        } else {
            self.active.insert(key);
        }
    }

    /// Whether the request has begun an operation that was under way before this process started.
    pub(crate) fn are_inherited_from(&self, key: RequestKey) -> bool {
        let mut inherited = self.inherited.iter();
        inherited.any(|tx| {
            let coordinated = self.coordinations.get(&tx.sequence);
            coordinated.is_some_and(|coordinated| match &coordinated.origin {
                Origin::Client(request) => {
                    request.key == key && coordinated.coordination.decision == Decision::Open
                }
                Origin::Split { .. } => false,
            })
        })
    }

    /// Whether the decision is open, or a step here is prepared.
    pub(crate) fn await_outcome(&self, tx: TxId) -> bool {
        let is_open = self.coordinations.get(&tx.sequence).is_some_and(|known| {
            known.coordination.tx == tx && known.coordination.decision == Decision::Open
        });
        let steps = (tx, StepNumber(0))..=(tx, StepNumber(u16::MAX));
        let is_prepared =
            |part: &Participation| matches!(part.state, ParticipationState::Prepared { .. });
        is_open
            || self
                .participations
                .range(steps)
                .any(|(_, part)| is_prepared(part))
    }

    /// Number of those that are undecided, or prepared here for somebody else.
    pub(crate) fn undecided(&self) -> usize {
        let open = self
            .coordinations
            .values()
            .filter(|c| c.coordination.decision == Decision::Open)
            .count();
        open + self.active.len()
    }
}
