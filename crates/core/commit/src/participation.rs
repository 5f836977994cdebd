//! A participant's side of one step.

use pandofs_api::{Age, CommitMessage, Refused, Step, StepNumber, StepResult};
use pandofs_types::{ShardId, TxId};
use serde::{Deserialize, Serialize};

/// One step of another shard's operation, as its participant stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participation {
    /// The operation.
    pub tx: TxId,
    /// The step among those of the operation.
    pub number: StepNumber,
    /// By it the step waits or gives way where it meets another operation's lock.
    pub age: Age,
    /// Final once it is `Ended`.
    pub state: ParticipationState,
}

/// Progress of a participant with its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParticipationState {
    /// Checked and locked; the outcome is the coordinator's to tell.
    Prepared {
        /// Performed if the operation is committed; its locks follow from it.
        step: Step,
        /// Told to the coordinator again if it asks again.
        result: StepResult,
        /// Further steps that were found, each with its shard.
        follow: Vec<(ShardId, Step)>,
        /// In three-phase commit: it has heard that everybody is prepared.
        pre_committed: bool,
    },
    /// Performed: this participant has decided, and the coordinator must hear of it.
    Committed {
        /// Told to the coordinator again until it acknowledges it.
        result: StepResult,
    },
    /// Not performed, never to be; the coordinator must hear of it.
    Refused {
        /// Told to the coordinator again until it acknowledges it.
        why: Refused,
    },
    /// Over. Kept so that a delayed `Do` is not taken for a new one.
    Ended,
}

impl Participation {
    /// The answer to `Do` and `Inquire` in this state.
    pub fn answer(&self) -> Option<CommitMessage> {
        let (tx, number) = (self.tx, self.number);
        match &self.state {
            ParticipationState::Prepared {
                pre_committed: true,
                ..
            } => Some(CommitMessage::PreCommitted { tx, number }),
            ParticipationState::Prepared { result, follow, .. } => Some(CommitMessage::Prepared {
                tx,
                number,
                result: result.clone(),
                follow: follow.clone(),
            }),
            ParticipationState::Committed { result } => Some(CommitMessage::Committed {
                tx,
                number,
                result: result.clone(),
            }),
            ParticipationState::Refused { why } => Some(CommitMessage::Refused {
                tx,
                number,
                why: why.clone(),
            }),
            ParticipationState::Ended => None,
        }
    }

    /// `Ack` has come; whether it changes anything.
    pub fn acknowledge(&mut self) -> bool {
        match self.state {
            ParticipationState::Committed { .. } | ParticipationState::Refused { .. } => {
                self.state = ParticipationState::Ended;
                true
            }
            ParticipationState::Prepared { .. } | ParticipationState::Ended => false,
        }
    }

    /// `PreCommit` has come; whether it changes anything.
    pub fn pre_commit(&mut self) -> bool {
        match &mut self.state {
            ParticipationState::Prepared { pre_committed, .. } => {
                !std::mem::replace(pre_committed, true)
            }
            _ => false,
        }
    }

    /// `Outcome` has come: the prepared step to perform or to forget, if it was not told before.
    pub fn settle(&mut self) -> Option<(Step, StepResult)> {
        match std::mem::replace(&mut self.state, ParticipationState::Ended) {
            ParticipationState::Prepared { step, result, .. } => Some((step, result)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Message that is due in the present state.
    pub fn resend(&self) -> Option<CommitMessage> {
        match self.state {
            ParticipationState::Prepared { .. } => Some(CommitMessage::InquireOutcome {
                tx: self.tx,
                number: self.number,
            }),
            ParticipationState::Committed { .. } | ParticipationState::Refused { .. } => {
                self.answer()
            }
            ParticipationState::Ended => None,
        }
    }
}
