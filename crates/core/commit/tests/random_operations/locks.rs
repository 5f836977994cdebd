//! The locks of one shard. They are in memory; what is stored says which there must be.

use crate::node::Stored;
use crate::plan::identify;
use pandofs_api::{Age, Step, StepNumber, step};
use pandofs_commit::{Decision, ParticipationState, StepState};
use pandofs_types::{Ino, TxId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Locks(BTreeMap<u64, Held>);

struct Held {
    tx: TxId,
    age: Age,
    steps: BTreeSet<StepNumber>,
}

/// One step's hold on its key.
pub(crate) type Hold = (u64, TxId, StepNumber);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Conflict {
    /// The holder is younger: the one that asks may wait (wait-die).
    Wait,
    /// The holder is older: the one that asks must start again.
    Die,
}

impl Locks {
    pub(crate) fn lock(
        &mut self,
        step: &Step,
        tx: TxId,
        number: StepNumber,
        age: Age,
    ) -> Result<(), Conflict> {
        self.check(step, tx, age)?;
        let held = self.0.entry(key(step)).or_insert(Held {
            tx,
            age,
            steps: BTreeSet::new(),
        });
        held.steps.insert(number);
        Ok(())
    }

    pub(crate) fn check(&self, step: &Step, tx: TxId, age: Age) -> Result<(), Conflict> {
        match self.0.get(&key(step)) {
            Some(held) if held.tx == tx => Ok(()),
            Some(held) if age < held.age => Err(Conflict::Wait),
            Some(_) => Err(Conflict::Die),
            None => Ok(()),
        }
    }

    pub(crate) fn unlock(&mut self, step: &Step, tx: TxId, number: StepNumber) {
        if let Some(held) = self.0.get_mut(&key(step))
            && held.tx == tx
        {
            held.steps.remove(&number);
            if held.steps.is_empty() {
                self.0.remove(&key(step));
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn holds(&self) -> BTreeSet<Hold> {
        self.0
            .iter()
            .flat_map(|(&key, held)| held.steps.iter().map(move |&number| (key, held.tx, number)))
            .collect()
    }

    /// The locks after a restart: those of the steps that are prepared and undecided.
    pub(crate) fn rebuild(stored: &Stored) -> Locks {
        let mut locks = Locks::default();
        for (step, tx, number, age) in undecided(stored) {
            let conflict = locks.lock(step, tx, number, age);
            assert!(
                conflict.is_ok(),
                "{tx} holds key {} that another one holds",
                key(step)
            );
        }
        locks
    }
}

/// The locks that must be held by what is stored.
pub(crate) fn due(stored: &Stored) -> BTreeSet<Hold> {
    undecided(stored)
        .map(|(step, tx, number, _)| (key(step), tx, number))
        .collect()
}

fn undecided(stored: &Stored) -> impl Iterator<Item = (&Step, TxId, StepNumber, Age)> {
    let participations = stored
        .participations
        .values()
        .filter_map(|it| match &it.state {
            ParticipationState::Prepared { step, .. } => Some((step, it.tx, it.number, it.age)),
            _ => None,
        });
    let coordinations = stored
        .coordinations
        .values()
        .filter(|it| it.decision == Decision::Open)
        .flat_map(|it| {
            (0..).zip(&it.steps).filter_map(move |(number, entry)| {
                (entry.state == StepState::Own).then_some((
                    &entry.step,
                    it.tx,
                    StepNumber(number),
                    it.age,
                ))
            })
        });
    participations.chain(coordinations)
}

fn key(step: &Step) -> u64 {
    let Step::HoldAncestors(step::HoldAncestors { from: Ino(key), .. }) = step else {
        panic!("not a step of a plan: {:?}", identify(step));
    };
    *key
}
