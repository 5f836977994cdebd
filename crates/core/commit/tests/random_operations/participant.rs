//! A shard's part in the steps of others' operations.

use crate::faults::Fault;
use crate::locks::Conflict;
use crate::node::{Context, Envelope, Node, Waiting};
use crate::oracle::Decided;
use crate::plan::{identify, result_of};
use pandofs_api::{Age, Ask, CommitMessage, Horizon, Refused, Step, StepNumber};
use pandofs_commit::{Participation, ParticipationState, learn};
use pandofs_types::{FsError, ShardId, TxId};

impl Node {
    pub(crate) fn participate(&mut self, envelope: Envelope, context: &mut Context<'_>) {
        match envelope.message.clone() {
            CommitMessage::Do {
                tx,
                number,
                step,
                ask,
                age,
            } => {
                self.be_asked(envelope, tx, number, step, ask, age, context);
            }
            CommitMessage::Inquire { tx, number } => {
                self.be_inquired(tx, number, context);
            }
            CommitMessage::Outcome { tx, number, commit } => {
                self.be_told(tx, number, commit, context);
            }
            CommitMessage::Ack { tx, number } => {
                if let Some(participation) = self.stored.participations.get_mut(&(tx, number)) {
                    self.changed |= participation.acknowledge();
                }
            }
            CommitMessage::Vote { tx, number } => {
                let known = self.stored.participations.get(&(tx, number));
                let answer = known.and_then(Participation::answer);
                let answer = answer.map(|answer| (tx.coordinator, answer));
                self.said.extend(answer);
            }
            CommitMessage::PreCommit { tx, number } => {
                if let Some(known) = self.stored.participations.get_mut(&(tx, number)) {
                    self.changed |= known.pre_commit();
                    if matches!(known.state, ParticipationState::Prepared { .. }) {
                        let answer = known.answer().map(|answer| (tx.coordinator, answer));
                        self.said.extend(answer);
                    }
                }
            }
            other => panic!("not for a participant: {other:?}"),
        }
    }

    pub(crate) fn has_passed(&self, tx: TxId) -> bool {
        let known = self.stored.horizons.get(&tx.coordinator);
        known.is_some_and(|known| known.has_passed(tx.sequence))
    }

    /// Drops tombstones that no delayed `Do` can meet any more.
    pub(crate) fn raise_horizon(
        &mut self,
        coordinator: ShardId,
        told: &Horizon,
        context: &Context<'_>,
    ) {
        if context.fault == Fault::ForgetsAtOnce {
            self.stored
                .participations
                .retain(|_, it| it.state != ParticipationState::Ended);
        }
        let known = self.stored.horizons.entry(coordinator).or_default();
        if !learn(known, told) {
            return;
        }
        let known = known.clone();
        self.changed = true;
        if context.fault == Fault::KeepsTombstones {
            return;
        }
        self.stored.participations.retain(|(tx, _), it| {
            tx.coordinator != coordinator
                || !known.has_passed(tx.sequence)
                || it.state != ParticipationState::Ended
        });
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one message")]
    fn be_asked(
        &mut self,
        envelope: Envelope,
        tx: TxId,
        number: StepNumber,
        step: Step,
        ask: Ask,
        age: Age,
        context: &mut Context<'_>,
    ) {
        let coordinator = tx.coordinator;
        if let Some(known) = self.stored.participations.get(&(tx, number)) {
            context.stats.repeated_requests += 1;
            if known.state == ParticipationState::Ended {
                context.stats.requests_after_the_end += 1;
            }
            if context.fault != Fault::PerformsRepeated {
                if let Some(answer) = known.answer() {
                    self.said.push((coordinator, answer));
                }
                return;
            }
        } else if self.has_passed(tx) {
            context.stats.requests_below_the_horizon += 1;
            return;
        }
        let (plan, index) = identify(&step);
        assert_eq!(context.plans[plan].step(index), (self.shard, step.clone()));
        let follow = context.plans[plan].follow(index);
        let (refuse, of_ten) = (context.refuse, context.random.below(10));
        let refused = if context.random.percent(refuse) {
            Some(if of_ten < 5 {
                Refused::Busy
            } else {
                Refused::Fs(FsError::NotFound)
            })
        } else {
            match self.locks.check(&step, tx, age) {
                Ok(()) => None,
                Err(Conflict::Wait) => {
                    context.stats.waits += 1;
                    self.waiting.push(Waiting::Message(Box::new(envelope)));
                    return;
                }
                Err(Conflict::Die) => Some(Refused::Busy),
            }
        };
        let state = if let Some(why) = refused {
            self.decided.push(Decided {
                tx,
                commit: false,
                by: self.shard,
            });
            ParticipationState::Refused { why }
        } else if ask == Ask::Decide && follow.is_empty() {
            self.decided.push(Decided {
                tx,
                commit: true,
                by: self.shard,
            });
            self.stored.performed.push((tx, step.clone()));
            ParticipationState::Committed {
                result: result_of(&step),
            }
        } else {
            let free = self.locks.lock(&step, tx, number, age);
            assert_eq!(free, Ok(()));
            ParticipationState::Prepared {
                result: result_of(&step),
                step,
                follow,
                pre_committed: false,
            }
        };
        let is_silent =
            ask == Ask::PrepareSilently && matches!(state, ParticipationState::Prepared { .. });
        let said = self.said.len();
        self.record(Participation {
            tx,
            number,
            age,
            state,
        });
        if is_silent {
            self.said.truncate(said);
        }
    }

    fn be_inquired(&mut self, tx: TxId, number: StepNumber, context: &mut Context<'_>) {
        if let Some(known) = self.stored.participations.get(&(tx, number)) {
            if let Some(answer) = known.answer() {
                self.said.push((tx.coordinator, answer));
            }
            return;
        }
        if self.has_passed(tx) {
            return;
        }
        let why = Refused::Unknown;
        if context.fault == Fault::DeniesWithoutRecord {
            self.said
                .push((tx.coordinator, CommitMessage::Refused { tx, number, why }));
            return;
        }
        context.stats.denials += 1;
        self.decided.push(Decided {
            tx,
            commit: false,
            by: self.shard,
        });
        let state = ParticipationState::Refused { why };
        self.record(Participation {
            tx,
            number,
            age: no_age(tx),
            state,
        });
    }

    fn be_told(&mut self, tx: TxId, number: StepNumber, commit: bool, context: &mut Context<'_>) {
        let has_passed = self.has_passed(tx);
        match self.stored.participations.get_mut(&(tx, number)) {
            Some(known) => {
                if let Some((step, _)) = known.settle() {
                    self.changed = true;
                    self.decided.push(Decided {
                        tx,
                        commit,
                        by: self.shard,
                    });
                    if commit || context.fault != Fault::KeepsLocks {
                        self.locks.unlock(&step, tx, number);
                        self.released = true;
                    }
                    if commit {
                        self.stored.performed.push((tx, step));
                    }
                } else if known.state != ParticipationState::Ended {
                    // It decided or refused by itself, and is acknowledged, not told.
                    return;
                }
            }
            None if has_passed => {}
            None => {
                context.stats.outcomes_before_requests += 1;
                let state = ParticipationState::Ended;
                self.record(Participation {
                    tx,
                    number,
                    age: no_age(tx),
                    state,
                });
            }
        }
        self.said
            .push((tx.coordinator, CommitMessage::Finished { tx, number }));
    }

    /// Stores what became of a step, and answers.
    fn record(&mut self, participation: Participation) {
        self.changed = true;
        if let Some(answer) = participation.answer() {
            self.said.push((participation.tx.coordinator, answer));
        }
        self.stored
            .participations
            .insert((participation.tx, participation.number), participation);
    }
}

/// Of an operation that is known by its number only; it holds no lock that its age would guard.
fn no_age(tx: TxId) -> Age {
    Age {
        time: pandofs_types::Time(0),
        tx,
    }
}
