//! Plans of operations as they are applied: performed at once if all steps are here.

use crate::coordinate::Origin;
use crate::shard::Shard;
use pandofs_api::{Age, Refusal, Reply, ShardRequest, Step, StepResult};
use pandofs_namespace::ops::here::{self, PreparedSteps};
use pandofs_namespace::steps::{Given, Held, Prepared};
use pandofs_namespace::{Choices, Plan, PlanAnswer, Stop, steps};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::MAX_UNDECIDED;
use pandofs_types::{ShardId, TxId};

/// A plan whose steps here were checked.
pub(crate) enum Ready {
    /// All steps are here.
    Here(PreparedSteps),
    Elsewhere(PreparedSteps),
    /// There is nothing to do.
    Answered(Reply),
}

impl Shard {
    /// Performs a plan whose steps are all here, or begins a distributed operation.
    pub(crate) fn apply_plan(
        &mut self,
        overlay: &mut Overlay<'_>,
        request: ShardRequest,
        plan: Plan,
        choices: &Choices,
        age: Option<Age>,
    ) -> Result<(), Stop> {
        match self.ready(overlay, plan.steps, &plan.answer, choices) {
            Ok(Ready::Answered(reply)) => self.conclude(overlay, request, Ok(reply)),
            Ok(Ready::Here(prepared)) => {
                let reply = self.execute_here(overlay, &prepared, &plan.answer, choices)?;
                self.conclude(overlay, request, Ok(reply))
            }
            Ok(Ready::Elsewhere(prepared)) => {
                if self.operations.coordinations.len() >= MAX_UNDECIDED {
                    self.answer_request(&request, Err(Refusal::TryAgain));
                    return Ok(());
                }
                let origin = Origin::Client(Box::new(request));
                self.coordinate(overlay, prepared, origin, plan.answer, choices, age);
                Ok(())
            }
            Err(stop) => self.conclude(overlay, request, Err(stop)),
        }
    }

    /// Checks the steps of a plan that are here.
    pub(crate) fn ready(
        &mut self,
        overlay: &mut Overlay<'_>,
        steps: Vec<(ShardId, Step)>,
        answer: &PlanAnswer,
        choices: &Choices,
    ) -> Result<Ready, Stop> {
        match self.prepare_own(overlay, steps, choices) {
            Ok(prepared) => {
                let me = self.config.shard;
                let is_here = prepared.iter().all(|(shard, ..)| *shard == me);
                Ok(match is_here {
                    true => Ready::Here(prepared),
                    false => Ready::Elsewhere(prepared),
                })
            }
            Err(stop) => here::stopped(stop, answer).map(Ready::Answered),
        }
    }

    /// Performs the steps of a plan, which are all here.
    pub(crate) fn execute_here(
        &mut self,
        overlay: &mut Overlay<'_>,
        prepared: &PreparedSteps,
        answer: &PlanAnswer,
        choices: &Choices,
    ) -> Result<Reply, Stop> {
        here::execute(&mut [self.txn(overlay)], prepared, answer, choices)
    }

    /// Checks a step that is here, of the operation `own` if that has begun.
    pub(crate) fn prepare_step(
        &mut self,
        overlay: &mut Overlay<'_>,
        own: Option<TxId>,
        step: &Step,
        choices: &Choices,
    ) -> Result<Prepared, Stop> {
        let locks = std::mem::take(&mut self.operations.locks);
        let held = Held {
            locks: &locks,
            own,
            choices,
        };
        let prepared = steps::prepare(&mut self.txn(overlay), &held, step);
        self.operations.locks = locks;
        prepared
    }

    /// Performs a step that is here.
    pub(crate) fn execute_step(
        &mut self,
        overlay: &mut Overlay<'_>,
        step: &Step,
        own: &StepResult,
        all: &[StepResult],
        choices: &Choices,
    ) -> Result<(), Stop> {
        if let Some(holder) = step.holder() {
            self.leases.written_by(holder.session);
        }
        let given = Given { own, all, choices };
        steps::of(step).execute(&mut self.txn(overlay), &given)
    }

    /// Checks the steps that are here, and those that follow from them.
    pub(crate) fn prepare_own(
        &mut self,
        overlay: &mut Overlay<'_>,
        planned: Vec<(ShardId, Step)>,
        choices: &Choices,
    ) -> Result<PreparedSteps, Stop> {
        let locks = std::mem::take(&mut self.operations.locks);
        let prepared = here::prepare(&mut [self.txn(overlay)], &locks, planned, choices);
        self.operations.locks = locks;
        prepared
    }
}
