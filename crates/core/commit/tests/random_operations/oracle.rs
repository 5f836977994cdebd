//! Rules that hold of what nodes have on disk and of what clients were answered.

use crate::locks::due;
use crate::node::{Answer, Node};
use crate::plan::{Plan, identify};
use pandofs_types::{ShardId, TxId};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// One shard has on disk that the operation is committed, another one that it is aborted.
    TwoDecisions {
        tx: TxId,
        by: ShardId,
    },
    /// Some steps were performed and others were not, or on the wrong shard.
    HalfDone {
        tx: TxId,
    },
    PerformedTwice {
        tx: TxId,
        step: usize,
    },
    /// An operation was started again though it was committed.
    CommittedTwice {
        plan: usize,
    },
    /// The client heard of success or failure, and the opposite happened.
    WrongAnswer {
        plan: usize,
        answer: Answer,
    },
    /// Two undecided operations have prepared steps on one key.
    SharedLock {
        shard: ShardId,
        key: u64,
    },
    /// A lock without an undecided operation.
    LockLeft {
        shard: ShardId,
    },
    /// The coordinator commits without the result of a step.
    ResultMissing {
        tx: TxId,
    },
    /// After healing something is still undecided or waits.
    NotEnded {
        shard: Option<ShardId>,
    },
    /// After healing and two further operations a participant remembers one that ended.
    NotForgotten {
        shard: ShardId,
        tx: TxId,
    },
}

/// The kinds of violations, to say which a planted bug must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Atomicity,
    Answer,
    Locks,
    Results,
    Liveness,
    Forgetting,
}

impl Violation {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Violation::TwoDecisions { .. }
            | Violation::HalfDone { .. }
            | Violation::PerformedTwice { .. }
            | Violation::CommittedTwice { .. } => Kind::Atomicity,
            Violation::WrongAnswer { .. } => Kind::Answer,
            Violation::SharedLock { .. } | Violation::LockLeft { .. } => Kind::Locks,
            Violation::ResultMissing { .. } => Kind::Results,
            Violation::NotEnded { .. } => Kind::Liveness,
            Violation::NotForgotten { .. } => Kind::Forgetting,
        }
    }
}

/// A decision in a record that `by` has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub tx: TxId,
    pub commit: bool,
    pub by: ShardId,
}

/// The decisions that are on some disk, and what clients heard.
#[derive(Default)]
pub(crate) struct Ledger {
    decided: BTreeMap<TxId, bool>,
    answers: BTreeMap<usize, Answer>,
}

impl Ledger {
    /// The record with this decision is synced now.
    pub(crate) fn decide(&mut self, fact: Decided) -> Result<(), Violation> {
        let Decided { tx, commit, by } = fact;
        if *self.decided.entry(tx).or_insert(commit) == commit {
            Ok(())
        } else {
            Err(Violation::TwoDecisions { tx, by })
        }
    }

    pub(crate) fn answer(&mut self, plan: usize, answer: Answer) {
        let before = self.answers.insert(plan, answer);
        assert!(
            before.is_none(),
            "the client of plan {plan} is answered twice"
        );
    }

    /// Everything has ended: what was performed, as all nodes store it, is compared with what was
    /// decided and answered.
    pub(crate) fn check_end(&self, plans: &[Plan], nodes: &[Node]) -> Result<(), Violation> {
        let mut performed: BTreeMap<TxId, BTreeSet<(ShardId, usize)>> = BTreeMap::new();
        let mut plan_of: BTreeMap<TxId, usize> = BTreeMap::new();
        for node in nodes {
            for (tx, step) in &node.stored.performed {
                let (plan, step) = identify(step);
                plan_of.insert(*tx, plan);
                if !performed.entry(*tx).or_default().insert((node.shard, step)) {
                    return Err(Violation::PerformedTwice { tx: *tx, step });
                }
            }
        }
        let mut committed: BTreeSet<usize> = BTreeSet::new();
        for (tx, steps) in &performed {
            let plan = &plans[plan_of[tx]];
            let all: BTreeSet<_> = plan
                .steps
                .iter()
                .enumerate()
                .map(|(n, step)| (step.shard, n))
                .collect();
            if *steps != all || self.decided.get(tx) != Some(&true) {
                return Err(Violation::HalfDone { tx: *tx });
            }
            if !committed.insert(plan.index) {
                return Err(Violation::CommittedTwice { plan: plan.index });
            }
        }
        for (tx, commit) in &self.decided {
            if *commit && !performed.contains_key(tx) {
                return Err(Violation::HalfDone { tx: *tx });
            }
        }
        for (&plan, &answer) in &self.answers {
            if (answer == Answer::Done) != committed.contains(&plan) {
                return Err(Violation::WrongAnswer { plan, answer });
            }
        }
        Ok(())
    }
}

/// At any time: no key has two undecided operations, no lock is held without one.
pub(crate) fn check_locks(node: &Node) -> Result<(), Violation> {
    let due = due(&node.stored);
    let mut owners: BTreeMap<u64, TxId> = BTreeMap::new();
    for &(key, tx, _) in &due {
        if *owners.entry(key).or_insert(tx) != tx {
            return Err(Violation::SharedLock {
                shard: node.shard,
                key,
            });
        }
    }
    if !node.locks.holds().is_subset(&due) {
        return Err(Violation::LockLeft { shard: node.shard });
    }
    Ok(())
}
