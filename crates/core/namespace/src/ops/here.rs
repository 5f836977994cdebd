//! Plan whose steps are all at hand, on one shard or on the images of several, performed at once.

use super::{Choices, Plan, answer, answer_same_file};
use crate::steps::{self, Given, Held, Prepared};
use crate::{Locks, PlanAnswer, Stop, Txn};
use pandofs_api::{Refusal, Reply, Step, StepResult};
use pandofs_types::limits::MAX_PARTICIPANTS;
use pandofs_types::{FsError, ShardId};
use std::collections::VecDeque;

/// Steps of a plan, those that follow from others among them, each with its shard, and what preparing it came to: nothing
/// where it is elsewhere.
pub type PreparedSteps = Vec<(ShardId, Step, Prepared)>;

/// Checks the steps of the shards that are here, and finds those that follow from them.
pub fn prepare(
    here: &mut [Txn<'_, '_>],
    locks: &Locks,
    planned: Vec<(ShardId, Step)>,
    choices: &Choices,
) -> Result<PreparedSteps, Stop> {
    let held = Held {
        locks,
        own: None,
        choices,
    };
    let mut done: PreparedSteps = Vec::new();
    let mut queue: VecDeque<_> = planned.into();
    while let Some((shard, step)) = queue.pop_front() {
        if done
            .iter()
            .any(|(at, other, _)| *at == shard && *other == step)
        {
            continue;
        }
        if done.len() == MAX_PARTICIPANTS {
            return Err(FsError::Invalid.into());
        }
        let prepared = match of_shard(here, shard) {
            Some(txn) => {
                let prepared = steps::prepare(txn, &held, &step)?;
                queue.extend(prepared.follow.iter().cloned());
                prepared
            }
            None => Prepared::default(),
        };
        done.push((shard, step, prepared));
    }
    Ok(done)
}

fn of_shard<'h, 't, 's>(
    here: &'h mut [Txn<'t, 's>],
    shard: ShardId,
) -> Option<&'h mut Txn<'t, 's>> {
    here.iter_mut().find(|txn| txn.shard == shard)
}

/// Performs steps that are all here and were prepared on the state as it is; the first of the shards plans.
pub fn execute(
    here: &mut [Txn<'_, '_>],
    prepared: &PreparedSteps,
    end: &PlanAnswer,
    choices: &Choices,
) -> Result<Reply, Stop> {
    let all: Vec<StepResult> = prepared.iter().map(|(_, _, p)| p.result.clone()).collect();
    for (shard, step, own) in prepared {
        let own = &own.result;
        let txn = of_shard(here, *shard)
            .ok_or_else(|| Stop::Broken(format!("a step of shard {shard} is not here")))?;
        let given = Given {
            own,
            all: &all,
            choices,
        };
        steps::of(step).execute(txn, &given)?;
    }
    let planner = here
        .first()
        .ok_or_else(|| Stop::Broken("a plan of no shard".to_string()))?;
    answer(&planner.view(), end, &all)
}

/// The refusal of a plan that could not be prepared, or its answer if there is nothing to do.
pub fn stopped(stop: Stop, end: &PlanAnswer) -> Result<Reply, Stop> {
    match stop {
        Stop::SameFile => answer_same_file(end),
        // `owned` in a step of the new name says `Misdirected`; the client must know which name.
        Stop::Refuse(Refusal::Misdirected(map))
            if matches!(
                end,
                PlanAnswer::Renamed { .. } | PlanAnswer::Exchanged { .. }
            ) =>
        {
            Err(Refusal::NewNameMisdirected(map).into())
        }
        stop => Err(stop),
    }
}

/// Prepares and performs a plan; `None`, and nothing is changed, if a step is elsewhere.
pub fn perform(
    here: &mut [Txn<'_, '_>],
    locks: &Locks,
    plan: Plan,
    choices: &Choices,
) -> Result<Option<Reply>, Stop> {
    match prepare(here, locks, plan.steps, choices) {
        Ok(prepared) => {
            let are_here = prepared
                .iter()
                .all(|(shard, ..)| here.iter().any(|txn| txn.shard == *shard));
            match are_here {
                true => execute(here, &prepared, &plan.answer, choices).map(Some),
                false => Ok(None),
            }
        }
        Err(stop) => stopped(stop, &plan.answer).map(Some),
    }
}
