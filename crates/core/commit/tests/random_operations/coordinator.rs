//! A shard's part in the operations that it coordinates.

use crate::faults::Fault;
use crate::locks::Conflict;
use crate::node::{Answer, Context, Node, Outgoing, Waiting};
use crate::oracle::{Decided, Violation};
use crate::plan::{identify, result_of};
use pandofs_api::{Age, CommitMessage, Refused, Step, StepNumber, StepResult};
use pandofs_commit::{Coordination, Decision, Progress, StepState};
use pandofs_types::{FsError, ShardId, TxId};
use std::collections::VecDeque;

impl Node {
    /// Prepares the operation's own steps and asks the others; when a lock is in the way, it waits or
    /// is started again later.
    pub(crate) fn coordinate(&mut self, plan: usize, age: Age, context: &mut Context<'_>) {
        let tx = TxId {
            coordinator: self.shard,
            sequence: self.stored.next_sequence,
        };
        let planned = &context.plans[plan];
        let mut steps: Vec<(ShardId, Step, StepResult)> = Vec::new();
        let mut found: VecDeque<(ShardId, Step)> = (0..planned.initial)
            .map(|number| planned.step(number))
            .collect();
        let mut refused = None;
        while let Some((shard, step)) = found.pop_front() {
            if steps
                .iter()
                .any(|(other, known, _)| *other == shard && *known == step)
            {
                continue;
            }
            let mut result = StepResult::default();
            if shard == self.shard {
                let number = StepNumber(steps.len() as u16);
                if let Err(conflict) = self.locks.lock(&step, tx, number, age) {
                    refused = Some(conflict);
                    break;
                }
                result = result_of(&step);
                found.extend(planned.follow(identify(&step).1));
            }
            steps.push((shard, step, result));
        }
        if let Some(conflict) = refused {
            for (number, (shard, step, _)) in (0..).zip(&steps) {
                if *shard == self.shard {
                    self.locks.unlock(step, tx, StepNumber(number));
                }
            }
            match conflict {
                Conflict::Wait => {
                    context.stats.waits += 1;
                    self.waiting.push(Waiting::Start { plan, age });
                }
                Conflict::Die => self.answered.push(Outgoing::Again { plan }),
            }
            return;
        }
        self.stored.next_sequence += 1;
        self.clients.insert(tx.sequence, plan);
        let mut coordination = Coordination::new(tx, age, self.shard, steps, context.protocol);
        let progress = coordination.start();
        self.carry_out(coordination, progress, context);
    }

    pub(crate) fn hear_participant(
        &mut self,
        from: ShardId,
        message: CommitMessage,
        context: &mut Context<'_>,
    ) {
        let (CommitMessage::Prepared { tx, number, .. }
        | CommitMessage::Committed { tx, number, .. }
        | CommitMessage::Refused { tx, number, .. }
        | CommitMessage::Finished { tx, number }
        | CommitMessage::PreCommitted { tx, number }
        | CommitMessage::InquireOutcome { tx, number }) = message
        else {
            panic!("not for a coordinator: {message:?}");
        };
        assert_eq!(tx.coordinator, self.shard);
        let Some(mut coordination) = self.stored.coordinations.remove(&tx.sequence) else {
            // It is gone: acknowledged if it was decided there, presumed aborted if it is prepared.
            match message {
                CommitMessage::Committed { .. } | CommitMessage::Refused { .. } => {
                    context.stats.answers_after_the_end += 1;
                    self.said.push((from, CommitMessage::Ack { tx, number }));
                }
                CommitMessage::Prepared { .. } | CommitMessage::InquireOutcome { .. } => {
                    context.stats.presumed_aborts += 1;
                    let commit = false;
                    self.said
                        .push((from, CommitMessage::Outcome { tx, number, commit }));
                }
                _ => {}
            }
            return;
        };
        let progress = coordination.receive(from, message);
        self.carry_out(coordination, progress, context);
    }

    pub(crate) fn tick_coordinations(&mut self, context: &mut Context<'_>) {
        let sequences: Vec<u64> = self.stored.coordinations.keys().copied().collect();
        for sequence in sequences {
            let coordination = &self.stored.coordinations[&sequence];
            let deciding = coordination.decision == Decision::Open && decides(coordination);
            if deciding && context.fault == Fault::AbortsWhileDeciding && context.random.percent(30)
            {
                self.give_up(sequence, context);
                continue;
            }
            let inquire = self.inquiring.contains(&sequence) && context.random.percent(50);
            self.said.extend(coordination.resend(inquire));
        }
    }

    pub(crate) fn recover_coordinations(&mut self, context: &mut Context<'_>) {
        let sequences: Vec<u64> = self.stored.coordinations.keys().copied().collect();
        for sequence in sequences {
            let coordination = &self.stored.coordinations[&sequence];
            if coordination.decision == Decision::Open && decides(coordination) {
                context.stats.recovered_undecided += 1;
                self.inquiring.insert(sequence);
                if context.fault == Fault::RecoversByAborting {
                    self.give_up(sequence, context);
                    continue;
                }
            }
            let mut coordination = self
                .stored
                .coordinations
                .remove(&sequence)
                .expect("its number was listed");
            let progress = coordination.recover();
            if progress.aborted.is_some() {
                context.stats.recovered_by_abort += 1;
            }
            if !progress.ended {
                self.said.extend(coordination.resend(true));
            }
            self.carry_out(coordination, progress, context);
        }
    }

    /// Does what the coordination says, own steps that it found included, and stores it. An event that
    /// changes nothing makes a record all the same: one more place to crash.
    fn carry_out(
        &mut self,
        mut coordination: Coordination,
        progress: Progress,
        context: &mut Context<'_>,
    ) {
        self.changed = true;
        let mut own: VecDeque<StepNumber> = progress.prepare.iter().copied().collect();
        let found_own = !own.is_empty();
        let mut all = vec![progress];
        while let Some(number) = own.pop_front() {
            context.stats.own_steps_found += 1;
            let progress = match self.prepare_own(&coordination, number, context) {
                Ok((result, follow)) => coordination.own_prepared(number, result, follow),
                Err(why) => coordination.own_refused(why),
            };
            own.extend(progress.prepare.iter().copied());
            let aborted = progress.aborted.is_some();
            all.push(progress);
            if aborted {
                own.clear();
            }
        }
        if found_own {
            all.push(coordination.go_on());
        }
        let mut ended = false;
        for progress in all {
            self.said.extend(progress.send);
            if progress.committed {
                self.commit(&coordination, context);
            }
            if let Some(why) = progress.aborted {
                self.abort(&coordination, &why, context);
            }
            ended |= progress.ended;
        }
        self.answer_early(&coordination, context);
        let forgets = context.fault == Fault::ForgetsCommitted
            && coordination.decision == Decision::Committed;
        if !ended && !forgets {
            self.stored
                .coordinations
                .insert(coordination.tx.sequence, coordination);
        }
    }

    fn prepare_own(
        &mut self,
        coordination: &Coordination,
        number: StepNumber,
        context: &mut Context<'_>,
    ) -> Result<(StepResult, Vec<(ShardId, Step)>), Refused> {
        let step = &coordination.steps[usize::from(number.0)].step;
        if context.random.percent(context.refuse) {
            return Err(Refused::Fs(FsError::NotFound));
        }
        // It cannot wait: others are prepared.
        if self
            .locks
            .lock(step, coordination.tx, number, coordination.age)
            .is_err()
        {
            return Err(Refused::Busy);
        }
        let (plan, index) = identify(step);
        Ok((result_of(step), context.plans[plan].follow(index)))
    }

    fn commit(&mut self, coordination: &Coordination, context: &mut Context<'_>) {
        let tx = coordination.tx;
        context.stats.commits += 1;
        if coordination
            .steps
            .iter()
            .all(|entry| entry.state != StepState::Settled)
        {
            context.stats.commits_by_the_coordinator += 1;
        }
        self.decided.push(Decided {
            tx,
            commit: true,
            by: self.shard,
        });
        let results = coordination.results();
        for (entry, result) in coordination.steps.iter().zip(results) {
            if result != result_of(&entry.step) {
                context.violations.push(Violation::ResultMissing { tx });
            }
        }
        for entry in &coordination.steps {
            if entry.state == StepState::Own {
                self.stored.performed.push((tx, entry.step.clone()));
            }
        }
        self.release(coordination);
        if let Some(plan) = self.clients.remove(&tx.sequence) {
            self.answered.push(Outgoing::Answer {
                plan,
                answer: Answer::Done,
            });
        }
    }

    fn abort(&mut self, coordination: &Coordination, why: &Refused, context: &mut Context<'_>) {
        let tx = coordination.tx;
        context.stats.aborts += 1;
        self.decided.push(Decided {
            tx,
            commit: false,
            by: self.shard,
        });
        if context.fault != Fault::KeepsLocks {
            self.release(coordination);
        }
        if let Some(plan) = self.clients.remove(&tx.sequence) {
            self.answered.push(match why {
                Refused::Busy => Outgoing::Again { plan },
                _ => Outgoing::Answer {
                    plan,
                    answer: Answer::Failed,
                },
            });
        }
    }

    fn release(&mut self, coordination: &Coordination) {
        for (number, entry) in (0..).zip(&coordination.steps) {
            if entry.state == StepState::Own {
                self.locks
                    .unlock(&entry.step, coordination.tx, StepNumber(number));
            }
        }
        self.released = true;
    }

    /// A bug: aborts though a participant was asked to decide.
    fn give_up(&mut self, sequence: u64, context: &mut Context<'_>) {
        let mut coordination = self
            .stored
            .coordinations
            .remove(&sequence)
            .expect("its number was listed");
        let why = Refused::Busy;
        coordination.decision = Decision::Aborted(why.clone());
        for entry in &mut coordination.steps {
            if entry.state == StepState::Deciding {
                entry.state = StepState::Asked;
            }
        }
        let send = coordination.resend(false);
        let progress = Progress {
            send,
            aborted: Some(why),
            ..Progress::default()
        };
        self.carry_out(coordination, progress, context);
    }

    /// A bug: the client hears of success before the operation is decided.
    fn answer_early(&mut self, coordination: &Coordination, context: &Context<'_>) {
        if context.fault == Fault::AnswersEarly
            && decides(coordination)
            && let Some(plan) = self.clients.remove(&coordination.tx.sequence)
        {
            self.answered.push(Outgoing::Answer {
                plan,
                answer: Answer::Done,
            });
        }
    }
}

fn decides(coordination: &Coordination) -> bool {
    coordination
        .steps
        .iter()
        .any(|entry| entry.state == StepState::Deciding)
}
