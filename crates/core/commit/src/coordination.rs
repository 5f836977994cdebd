//! The coordinator's side of one operation.

use pandofs_api::{Age, Ask, CommitMessage, Refused, Step, StepNumber, StepResult};
use pandofs_types::limits::MAX_PARTICIPANTS;
use pandofs_types::{CommitProtocol, ShardId, TxId};
use serde::{Deserialize, Serialize};

/// One operation, as its coordinator stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordination {
    /// The operation.
    pub tx: TxId,
    /// Kept over restarts of the operation, so that it becomes the oldest at some time.
    pub age: Age,
    /// Decides which messages are sent; fixed when the operation begins.
    pub protocol: CommitProtocol,
    /// Steps in the order of their numbers; those that are found on the way stand at the end.
    pub steps: Vec<StepEntry>,
    /// Final once it is not `Open`.
    pub decision: Decision,
}

/// One step of a coordination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEntry {
    /// Where it is performed.
    pub shard: ShardId,
    /// The change to make there.
    pub step: Step,
    /// How far it is, as far as the coordinator has heard.
    pub state: StepState,
    /// Empty until its shard has told it.
    pub result: StepResult,
}

/// How far one step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepState {
    /// On the coordinator's own shard: checked and locked.
    Own,
    /// Not asked yet.
    Waiting,
    /// `Do` is out, to prepare.
    Asked,
    /// The participant is prepared and waits for the outcome.
    Prepared,
    /// `Do` is out, to decide.
    Deciding,
    /// Needs to hear no more: it decided, it refused, or it has the outcome on disk.
    Settled,
    /// `PreCommit` is out.
    PreCommitting,
    /// It knows that everybody is prepared, and waits for the outcome.
    PreCommitted,
}

impl StepState {
    /// Whether the participant may be prepared, so that it has to hear the outcome.
    fn is_to_be_told(self) -> bool {
        matches!(
            self,
            StepState::Asked
                | StepState::Prepared
                | StepState::PreCommitting
                | StepState::PreCommitted
        )
    }
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Neither committed nor aborted: locks are held.
    Open,
    /// The client may be answered, and all steps will be performed.
    Committed,
    /// Presumed: a coordination that is gone without having been committed was aborted.
    Aborted(Refused),
}

/// Commands that follow from an event. Messages go to the shard beside them once the record is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Shards and messages, in the order of sending.
    pub send: Vec<(ShardId, CommitMessage)>,
    /// Numbers of new steps that are the coordinator's own: they are to be prepared here and now, and
    /// [`Coordination::own_prepared`] to be called for each, until all are or
    /// [`Coordination::own_refused`] is called for one. A step that would have to wait for a lock is
    /// refused.
    pub prepare: Vec<StepNumber>,
    /// The operation has just been committed: execute the own steps, answer the client.
    pub committed: bool,
    /// The operation has just been aborted: let go of the locks, answer the client or start again.
    pub aborted: Option<Refused>,
    /// Nobody needs to hear any more: the coordination can be forgotten.
    pub ended: bool,
}

impl Coordination {
    /// A new operation with the steps its request makes; `me` is the coordinator's shard, whose own
    /// steps are prepared already with the results given. At least one step is elsewhere.
    ///
    /// # Panics
    /// When all steps are here, or too many: the caller has checked.
    pub fn new(
        tx: TxId,
        age: Age,
        me: ShardId,
        steps: Vec<(ShardId, Step, StepResult)>,
        protocol: CommitProtocol,
    ) -> Coordination {
        assert!(
            steps.len() <= MAX_PARTICIPANTS,
            "{} steps are too many",
            steps.len()
        );
        assert!(
            steps.iter().any(|(shard, ..)| *shard != me),
            "an ordinary operation"
        );
        assert!(tx.coordinator == me);
        let steps = steps
            .into_iter()
            .map(|(shard, step, result)| StepEntry {
                state: if shard == me {
                    StepState::Own
                } else {
                    StepState::Waiting
                },
                shard,
                step,
                result,
            })
            .collect();
        Coordination {
            tx,
            age,
            protocol,
            steps,
            decision: Decision::Open,
        }
    }

    /// The first messages, once the coordination is on disk.
    pub fn start(&mut self) -> Progress {
        let mut progress = Progress::default();
        self.ask(&mut progress);
        progress
    }

    /// A shard whose answer is missing before this can be decided.
    pub fn awaited(&self) -> Option<ShardId> {
        let is_asked = |entry: &&StepEntry| {
            let state = entry.state;
            matches!(
                state,
                StepState::Asked | StepState::Deciding | StepState::PreCommitting
            )
        };
        match self.decision {
            Decision::Open => self.steps.iter().find(is_asked).map(|entry| entry.shard),
            _ => None,
        }
    }

    /// Results of all steps, for those that depend on others'.
    pub fn results(&self) -> Vec<StepResult> {
        self.steps
            .iter()
            .map(|entry| entry.result.clone())
            .collect()
    }

    /// A message from the shard `from`. One that does not fit the present state is an old one and
    /// changes nothing.
    pub fn receive(&mut self, from: ShardId, message: CommitMessage) -> Progress {
        let mut progress = Progress::default();
        match message {
            CommitMessage::Prepared {
                number,
                result,
                follow,
                ..
            } => {
                let open = self.decision == Decision::Open;
                // With `Deciding` the participant found that more shards are needed and left the
                // decision to the coordinator.
                if let Some(entry) = self.entry(number, from)
                    && matches!(entry.state, StepState::Asked | StepState::Deciding)
                    && open
                {
                    entry.state = StepState::Prepared;
                    entry.result = result;
                    self.follow(follow, &mut progress);
                    if progress.prepare.is_empty() && self.decision == Decision::Open {
                        self.ask(&mut progress);
                    }
                }
            }
            CommitMessage::Committed { number, result, .. } => {
                if let Some(entry) = self.entry(number, from)
                    && entry.state == StepState::Deciding
                {
                    entry.state = StepState::Settled;
                    entry.result = result;
                    self.commit(&mut progress);
                }
                self.acknowledge(from, number, &mut progress);
                self.finish(&mut progress);
            }
            CommitMessage::Refused { number, why, .. } => {
                if let Some(entry) = self.entry(number, from)
                    && matches!(entry.state, StepState::Asked | StepState::Deciding)
                {
                    entry.state = StepState::Settled;
                    if self.decision == Decision::Open {
                        self.abort(why, &mut progress);
                    }
                }
                self.acknowledge(from, number, &mut progress);
                self.finish(&mut progress);
            }
            CommitMessage::Finished { number, .. } => {
                let open = self.decision == Decision::Open;
                if let Some(entry) = self.entry(number, from)
                    && !open
                    && entry.state.is_to_be_told()
                {
                    entry.state = StepState::Settled;
                }
                self.finish(&mut progress);
            }
            CommitMessage::InquireOutcome { number, .. } => {
                if let Some(message) = self.outcome(number) {
                    progress.send.push((from, message));
                }
            }
            CommitMessage::PreCommitted { number, .. } => {
                if let Some(entry) = self.entry(number, from)
                    && entry.state == StepState::PreCommitting
                {
                    entry.state = StepState::PreCommitted;
                    if self.decision == Decision::Open
                        && self.in_state(StepState::PreCommitting).is_empty()
                    {
                        self.commit(&mut progress);
                    }
                }
            }
            CommitMessage::Do { .. }
            | CommitMessage::Vote { .. }
            | CommitMessage::PreCommit { .. }
            | CommitMessage::Ack { .. }
            | CommitMessage::Outcome { .. }
            | CommitMessage::Inquire { .. } => {}
        }
        progress
    }

    /// A step of [`Progress::prepare`] was prepared here. Nobody is asked anything before all of them
    /// are ([`Coordination::go_on`]): a participant that has decided cannot be called back. All this
    /// belongs to the record of the event that found the steps; no message is received in between.
    /// When the operation is aborted, no further step is to be prepared.
    ///
    /// # Panics
    /// When the operation is decided, or the step is not the coordinator's own.
    pub fn own_prepared(
        &mut self,
        number: StepNumber,
        result: StepResult,
        follow: Vec<(ShardId, Step)>,
    ) -> Progress {
        assert!(
            self.decision == Decision::Open,
            "operation {} is decided already",
            self.tx
        );
        let entry = &mut self.steps[usize::from(number.0)];
        assert!(entry.state == StepState::Own);
        entry.result = result;
        let mut progress = Progress::default();
        self.follow(follow, &mut progress);
        progress
    }

    /// A step of [`Progress::prepare`] cannot be prepared: the operation is aborted, and the rest of
    /// them need not be tried.
    ///
    /// # Panics
    /// When the operation is decided, or a participant was asked to decide it.
    pub fn own_refused(&mut self, why: Refused) -> Progress {
        let mut progress = Progress::default();
        self.abort(why, &mut progress);
        self.finish(&mut progress);
        progress
    }

    /// Asks the shards that are next, when every own step is prepared.
    pub fn go_on(&mut self) -> Progress {
        let mut progress = Progress::default();
        if self.decision == Decision::Open {
            self.ask(&mut progress);
        }
        progress
    }

    /// The coordinator restarted. An operation that nobody was asked to decide is aborted (section
    /// 4.4.1: its participants never handled the deciding request); one that may have been decided is
    /// asked for.
    pub fn recover(&mut self) -> Progress {
        let mut progress = Progress::default();
        if self.decision == Decision::Open
            && !self
                .steps
                .iter()
                .any(|entry| entry.state == StepState::Deciding)
        {
            self.abort(Refused::Unknown, &mut progress);
            self.finish(&mut progress);
        }
        progress
    }

    /// The messages whose answers are missing. After a restart a deciding participant is asked what it
    /// decided (`inquire`), since what it was asked to do may have to be made anew.
    pub fn resend(&self, inquire: bool) -> Vec<(ShardId, CommitMessage)> {
        self.steps
            .iter()
            .enumerate()
            .flat_map(|(index, entry)| {
                let number = number(index);
                let tx = self.tx;
                let messages = match (entry.state, &self.decision) {
                    (StepState::Deciding, Decision::Open) if inquire => {
                        vec![CommitMessage::Inquire { tx, number }]
                    }
                    (StepState::Deciding, Decision::Open) => vec![self.request(index, Ask::Decide)],
                    (StepState::Asked, Decision::Open) => self.to_prepare(index),
                    (StepState::PreCommitting, Decision::Open) => {
                        vec![CommitMessage::PreCommit { tx, number }]
                    }
                    // Asked before the operation was aborted: whatever it comes to, it ends so.
                    (state, _) if state.is_to_be_told() => {
                        self.outcome(number).into_iter().collect()
                    }
                    _ => Vec::new(),
                };
                messages.into_iter().map(|message| (entry.shard, message))
            })
            .collect()
    }

    fn request(&self, index: usize, ask: Ask) -> CommitMessage {
        CommitMessage::Do {
            tx: self.tx,
            number: number(index),
            step: self.steps[index].step.clone(),
            ask,
            age: self.age,
        }
    }

    /// Request that has a participant prepare a step and say so.
    fn to_prepare(&self, index: usize) -> Vec<CommitMessage> {
        let (tx, number) = (self.tx, number(index));
        match self.protocol {
            CommitProtocol::S2pcMp | CommitProtocol::ThreePhase => {
                vec![self.request(index, Ask::Prepare)]
            }
            CommitProtocol::TwoPhase => vec![
                self.request(index, Ask::PrepareSilently),
                CommitMessage::Vote { tx, number },
            ],
        }
    }

    fn outcome(&self, number: StepNumber) -> Option<CommitMessage> {
        let commit = match self.decision {
            Decision::Open => return None,
            Decision::Committed => true,
            Decision::Aborted(_) => false,
        };
        Some(CommitMessage::Outcome {
            tx: self.tx,
            number,
            commit,
        })
    }

    fn entry(&mut self, number: StepNumber, from: ShardId) -> Option<&mut StepEntry> {
        self.steps
            .get_mut(usize::from(number.0))
            .filter(|entry| entry.shard == from)
    }

    /// Adds steps that are not there yet.
    fn follow(&mut self, follow: Vec<(ShardId, Step)>, progress: &mut Progress) {
        for (shard, step) in follow {
            if self
                .steps
                .iter()
                .any(|entry| entry.shard == shard && entry.step == step)
            {
                continue;
            }
            if self.steps.len() == MAX_PARTICIPANTS {
                self.abort(Refused::Fs(pandofs_types::FsError::Invalid), progress);
                return;
            }
            let own = shard == self.tx.coordinator;
            if own {
                progress.prepare.push(number(self.steps.len()));
            }
            let state = if own {
                StepState::Own
            } else {
                StepState::Waiting
            };
            self.steps.push(StepEntry {
                shard,
                step,
                state,
                result: StepResult::default(),
            });
        }
    }

    /// Asks every waiting step to prepare but the last, and that one to decide when the others have. In the
    /// other protocols nobody else decides, and all are asked to prepare.
    fn ask(&mut self, progress: &mut Progress) {
        let waiting: Vec<usize> = self.in_state(StepState::Waiting);
        if self.protocol != CommitProtocol::S2pcMp {
            for &index in &waiting {
                self.ask_to_prepare(index, progress);
            }
            if self.in_state(StepState::Asked).is_empty() {
                self.all_prepared(progress);
            }
            return;
        }
        let Some((&last, others)) = waiting.split_last() else {
            if self.in_state(StepState::Asked).is_empty()
                && self.in_state(StepState::Deciding).is_empty()
            {
                // The one that was to decide found further shards, and those are prepared by now, or
                // were this one's own: everybody is ready, and the decision falls to the coordinator.
                // It is not the end: they are prepared and have to hear of it.
                self.commit(progress);
            }
            return;
        };
        for &index in others {
            self.ask_to_prepare(index, progress);
        }
        if self.in_state(StepState::Asked).is_empty()
            && self.in_state(StepState::Deciding).is_empty()
        {
            self.steps[last].state = StepState::Deciding;
            progress
                .send
                .push((self.steps[last].shard, self.request(last, Ask::Decide)));
        }
    }

    fn ask_to_prepare(&mut self, index: usize, progress: &mut Progress) {
        self.steps[index].state = StepState::Asked;
        let shard = self.steps[index].shard;
        let messages = self.to_prepare(index).into_iter();
        progress
            .send
            .extend(messages.map(|message| (shard, message)));
    }

    /// Where the coordinator decides: it does so, or tells the others first that it is about to.
    fn all_prepared(&mut self, progress: &mut Progress) {
        let prepared = self.in_state(StepState::Prepared);
        if self.protocol != CommitProtocol::ThreePhase || prepared.is_empty() {
            self.commit(progress);
            return;
        }
        for index in prepared {
            let (tx, number) = (self.tx, number(index));
            self.steps[index].state = StepState::PreCommitting;
            progress.send.push((
                self.steps[index].shard,
                CommitMessage::PreCommit { tx, number },
            ));
        }
    }

    fn in_state(&self, state: StepState) -> Vec<usize> {
        (0..self.steps.len())
            .filter(|&index| self.steps[index].state == state)
            .collect()
    }

    fn commit(&mut self, progress: &mut Progress) {
        assert!(
            self.decision == Decision::Open,
            "operation {} is decided twice",
            self.tx
        );
        self.decision = Decision::Committed;
        progress.committed = true;
        self.tell_prepared(progress);
    }

    fn abort(&mut self, why: Refused, progress: &mut Progress) {
        assert!(
            self.decision == Decision::Open,
            "operation {} is decided twice",
            self.tx
        );
        // The one that is asked to decide may have committed.
        assert!(
            self.in_state(StepState::Deciding).is_empty(),
            "operation {} is aborted while a participant decides",
            self.tx
        );
        self.decision = Decision::Aborted(why.clone());
        progress.aborted = Some(why);
        // Participants not asked yet never will be.
        for entry in &mut self.steps {
            if entry.state == StepState::Waiting {
                entry.state = StepState::Settled;
            }
        }
        progress.prepare.clear();
        self.tell_prepared(progress);
    }

    /// An `Ack` says that the outcome is on this disk: while there is none, a participant that claims
    /// to have decided without being asked gets no answer.
    fn acknowledge(&self, to: ShardId, number: StepNumber, progress: &mut Progress) {
        if self.decision != Decision::Open {
            progress.send.push((
                to,
                CommitMessage::Ack {
                    tx: self.tx,
                    number,
                },
            ));
        }
    }

    fn tell_prepared(&self, progress: &mut Progress) {
        for (index, entry) in self.steps.iter().enumerate() {
            if entry.state.is_to_be_told()
                && let Some(message) = self.outcome(number(index))
            {
                progress.send.push((entry.shard, message));
            }
        }
    }

    /// The end, when nobody has to hear any more.
    fn finish(&mut self, progress: &mut Progress) {
        progress.ended = self.decision != Decision::Open
            && self
                .steps
                .iter()
                .all(|entry| matches!(entry.state, StepState::Own | StepState::Settled));
    }
}

fn number(index: usize) -> StepNumber {
    StepNumber(u16::try_from(index).expect("MAX_PARTICIPANTS fits 16 bits"))
}
