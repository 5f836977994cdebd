//! S2PC-MP: how an operation over several shards is decided (Xiong et al., section 4), as two step
//! machines that know nothing of what the steps do.
//!
//! Two shards, as in the paper:
//!
//! ```text
//! coordinator                                participant
//!   step 1 checked and locked
//!   record 1: Start       --- Do(decide) -->   step 2 performed: decided
//!                                              record 2: Committed (or Refused)
//!   record 3: Commit      <-- Committed ----
//!   answers the client    --- Ack --------->   record 4: End
//! ```
//!
//! `Do` is the coordinator's yes vote. More shards: every step but one is *prepared* first (checked and
//! locked, one record each); when all are, the coordinator logs whom it asks to decide and asks it. The
//! decision is thus one participant's, and after it there is no way back. Only when the one that was
//! asked to decide finds that further steps are needed, and these are all prepared by then, nobody is
//! left to ask, and the coordinator decides.
//!
//! Two other protocols are there to be compared with, per file system ([`pandofs_types::CommitProtocol`]). In both
//! every step elsewhere is prepared and the coordinator decides. Two-phase commit, figure 3(b), performs the step
//! first and takes the vote after that; three-phase commit, of FPFS, has everybody hear that all are prepared
//! before anybody commits:
//!
//! ```text
//! 2pc  Do  Vote                        3pc  Do
//!               <-- Prepared                    <-- Prepared
//!      Outcome                              PreCommit
//!               <-- Finished                    <-- PreCommitted
//!                                           Outcome
//!                                               <-- Finished
//! ```
//!
//! The purpose of three-phase commit, going on without a coordinator that is gone for good, is not served: a
//! participant that concluded by a time-out that all have committed would be wrong when the network is cut in
//! two. Here a server comes back with its disk, and participants ask it.
//!
//! Invariant: an operation has one decision, which is on its decider's disk before anybody else knows
//! it and is kept there until everybody who needs it has it on disk as well.
//!
//! Each machine is a value that is stored with the shard's state. It changes only when a record is
//! applied, and says what is to be sent then; everything it says depends on that record being on disk.
//! [`Coordination::resend`] and [`Participation::resend`] give the messages that are due in the present
//! state, for time-outs and after a restart.
//!
//! Why it is right:
//! - A coordinator that has asked a participant to decide never aborts by itself. It asks only after
//!   `Deciding` is on its disk, so after a crash it knows that it may have been decided, and inquires.
//! - A participant that was asked keeps its answer until it is acknowledged, and gives the same answer
//!   to a repeated `Do`. One that knows nothing of an operation and is asked what it decided records a
//!   refusal first, so that a `Do` that was delayed on the way finds it refused.
//! - After the end a participant keeps a tombstone until the coordinator has said that the operation has ended
//!   everywhere (the [`horizon()`] in each message), so that a delayed `Do` is never taken for a new one.
//! - A coordinator forgets a committed operation only when every prepared participant has it on disk. A
//!   prepared participant that asks and finds the operation forgotten may conclude that it was aborted;
//!   a deciding participant that finds it forgotten may conclude that it is acknowledged.

mod coordination;
mod horizon;
mod participation;

pub use coordination::{Coordination, Decision, Progress, StepEntry, StepState};
pub use horizon::{horizon, learn};
pub use participation::{Participation, ParticipationState};
