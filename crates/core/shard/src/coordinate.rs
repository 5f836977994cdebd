//! Operations that this shard coordinates.

use crate::notes::Note;
use crate::port::Input;
use crate::record::Record;
use crate::shard::{Shard, view_of};
use pandofs_api::{
    Adopt, Age, Cause, CommitMessage, Horizon, PeerMessage, Refusal, Refused, Reply, ShardRequest,
    SplitId, Step, StepNumber, StepResult, step,
};
use pandofs_commit::{Coordination, Decision, Progress, StepState};
use pandofs_namespace::ops::here::PreparedSteps;
use pandofs_namespace::records::encode;
use pandofs_namespace::steps::Prepared;
use pandofs_namespace::{Choices, PlanAnswer, Stop, keys, ops};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{MAX_RETRY_PAUSE, RESEND_INTERVAL};
use pandofs_types::{CommitProtocol, Ino, LeaseKey, ShardId, Steady, TxId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An operation, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinated {
    /// Its steps, and how far they are.
    pub coordination: Coordination,
    /// The one to tell of the end.
    pub origin: Origin,
    /// For the client, once the operation is committed.
    pub answer: PlanAnswer,
}

/// Origin of the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The request, kept to be answered and, after wait-die, to begin again.
    Client(Box<ShardRequest>),
    /// This shard itself, which moves entries.
    Split {
        /// The directory.
        dir: Ino,
        /// The attempt that ends with the operation.
        split: SplitId,
    },
}

impl Shard {
    pub(crate) fn coordinate(
        &mut self,
        overlay: &mut Overlay<'_>,
        prepared: PreparedSteps,
        origin: Origin,
        answer: PlanAnswer,
        choices: &Choices,
        age: Option<Age>,
    ) -> TxId {
        let me = self.config.shard;
        let tx = TxId {
            coordinator: me,
            sequence: self.txn(overlay).new_sequence(),
        };
        let age = age.unwrap_or(Age {
            time: choices.time,
            tx,
        });
        let mut entries = Vec::with_capacity(prepared.len());
        for (shard, step, own) in prepared {
            self.operations.locks.acquire(tx, &own.locks);
            entries.push((shard, step, own.result));
        }
        // The entries that splits and merges hand over are in the message that has it performed; nobody keeps them.
        let protocol = match origin {
            Origin::Client(_) => self.config.map.settings.commit_protocol,
            Origin::Split { .. } => CommitProtocol::S2pcMp,
        };
        let mut coordination = Coordination::new(tx, age, me, entries, protocol);
        let progress = coordination.start();
        let coordinated = Coordinated {
            coordination,
            origin,
            answer,
        };
        if let Origin::Client(request) = &coordinated.origin
            && let Some(ticket) = self.sessions.answers.ticket(request.key)
        {
            self.commands.notes.add(Note::Coordinates(ticket, tx));
        }
        self.note_awaited(&coordinated);
        self.store_coordination(overlay, &coordinated);
        self.operations
            .coordinations
            .insert(tx.sequence, coordinated);
        self.operations.sent.insert((tx, None), self.commands.now);
        self.send_commits(progress.send);
        tx
    }

    /// Begins the last step of a split. The changes since it was copied go along with the message and are not stored:
    /// after a restart the target is asked what it decided, not asked to decide again. Nor is stored in how many chunks
    /// more they were sent, or that the target is to refuse: this follows from memory, and the stored state from the
    /// record, which says how many `chunks` were copied.
    pub(crate) fn coordinate_split(
        &mut self,
        overlay: &mut Overlay<'_>,
        target: ShardId,
        adopt: Adopt,
        chunks: u32,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let (dir, split) = (adopt.part.dir, adopt.split);
        let give_up = Step::GiveUp(step::GiveUp { dir, split });
        let stored = Adopt {
            chunks,
            changed: Vec::new(),
            gone: Vec::new(),
            opens: Vec::new(),
            locks: Vec::new(),
            ..adopt.clone()
        };
        let planned = vec![
            (self.config.shard, give_up),
            (target, Step::Adopt(Box::new(stored))),
        ];
        let prepared = self.prepare_own(overlay, planned, choices)?;
        let tx_to_be = TxId {
            coordinator: self.config.shard,
            sequence: self.meta.next_sequence,
        };
        self.splits.hand(tx_to_be, adopt);
        let origin = Origin::Split { dir, split };
        let tx = self.coordinate(overlay, prepared, origin, PlanAnswer::Nobody, choices, None);
        assert!(tx == tx_to_be);
        Ok(())
    }

    /// An event of an operation that is coordinated here.
    pub(crate) fn coordinator_event(
        &mut self,
        overlay: &mut Overlay<'_>,
        from: ShardId,
        message: CommitMessage,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let (tx, number) = tx_of(&message);
        let Some(mut coordinated) = self.operations.coordinations.remove(&tx.sequence) else {
            self.answer_for_forgotten(from, tx, number, &message);
            return Ok(());
        };
        let progress = coordinated.coordination.receive(from, message);
        self.progress(overlay, coordinated, progress, choices)
    }

    /// Answers a participant about an operation that has ended here: a committed one is only
    /// forgotten once every prepared participant has heard of it.
    pub(crate) fn answer_for_forgotten(
        &mut self,
        from: ShardId,
        tx: TxId,
        number: StepNumber,
        message: &CommitMessage,
    ) {
        let reply = match message {
            CommitMessage::Committed { .. } | CommitMessage::Refused { .. } => {
                CommitMessage::Ack { tx, number }
            }
            CommitMessage::Prepared { .. } | CommitMessage::InquireOutcome { .. } => {
                CommitMessage::Outcome {
                    tx,
                    number,
                    commit: false,
                }
            }
            _ => return,
        };
        self.send_commits(vec![(from, reply)]);
    }

    pub(crate) fn apply_recover(
        &mut self,
        overlay: &mut Overlay<'_>,
        tx: TxId,
    ) -> Result<(), Stop> {
        let Some(mut coordinated) = self.operations.coordinations.remove(&tx.sequence) else {
            return Ok(());
        };
        let progress = coordinated.coordination.recover();
        self.progress(overlay, coordinated, progress, &Choices::default())
    }

    fn progress(
        &mut self,
        overlay: &mut Overlay<'_>,
        mut coordinated: Coordinated,
        progress: Progress,
        choices: &Choices,
    ) -> Result<(), Stop> {
        if let Origin::Client(request) = &coordinated.origin {
            self.leases.written_by(request.key.session);
        }
        let coordination = &mut coordinated.coordination;
        let tx = coordination.tx;
        let mut total = Progress::default();
        let mut prepare: std::collections::VecDeque<StepNumber> =
            progress.prepare.iter().copied().collect();
        let found_own = !prepare.is_empty();
        merge(&mut total, progress);
        while let Some(number) = prepare.pop_front() {
            let step = coordination.steps[usize::from(number.0)].step.clone();
            match self.prepare_step(overlay, Some(tx), &step, choices) {
                Ok(Prepared {
                    result,
                    follow,
                    locks,
                }) => {
                    self.operations.locks.acquire(tx, &locks);
                    let more = coordination.own_prepared(number, result, follow);
                    prepare.extend(more.prepare.iter().copied());
                    let aborted = more.aborted.is_some();
                    merge(&mut total, more);
                    if aborted {
                        break;
                    }
                }
                Err(stop) => {
                    merge(&mut total, coordination.own_refused(refused(stop)?));
                    break;
                }
            }
        }
        if found_own && total.aborted.is_none() {
            merge(&mut total, coordination.go_on());
        }
        if total.committed {
            let results = coordination.results();
            let own: Vec<_> = coordination
                .steps
                .iter()
                .filter(|entry| entry.state == StepState::Own)
                .cloned()
                .collect();
            for entry in own {
                self.execute_step(overlay, &entry.step, &entry.result, &results, choices)?;
            }
            self.release(tx);
            self.committed(overlay, &coordinated, &results)?;
        }
        if let Some(why) = total.aborted {
            self.release(tx);
            self.aborted(overlay, &coordinated, why, choices)?;
        }
        if total.ended {
            self.count_finished(&coordinated.coordination.decision);
            overlay.delete(keys::transaction(
                self.config.shard,
                keys::Role::Coordinator,
                tx,
                0,
            ));
            self.operations.sent.remove(&(tx, None));
            self.operations.inherited.remove(&tx);
            self.splits.handed(tx);
        } else {
            self.note_awaited(&coordinated);
            self.store_coordination(overlay, &coordinated);
            self.operations
                .coordinations
                .insert(tx.sequence, coordinated);
        }
        // Now that the operation is where it belongs: while it is not, the horizon that goes with the
        // messages says that it has ended, and a participant that has not heard of it ignores it.
        self.send_commits(total.send);
        Ok(())
    }

    /// Notes for which shard the operation's client waits now.
    fn note_awaited(&mut self, coordinated: &Coordinated) {
        if let Origin::Client(request) = &coordinated.origin
            && let Some(shard) = coordinated.coordination.awaited()
            && let Some(ticket) = self.sessions.answers.ticket(request.key)
        {
            let server = self.config.map.server_of(shard);
            self.commands.waits(ticket, Cause::Server { server, shard });
        }
    }

    fn count_finished(&mut self, decision: &Decision) {
        if self.commands.replaying {
            return;
        }
        match decision {
            Decision::Committed => self.operations.finished.committed += 1,
            Decision::Aborted(_) => self.operations.finished.aborted += 1,
            Decision::Open => panic!("an operation ends undecided"),
        }
    }

    fn committed(
        &mut self,
        overlay: &mut Overlay<'_>,
        coordinated: &Coordinated,
        results: &[StepResult],
    ) -> Result<(), Stop> {
        match &coordinated.origin {
            Origin::Client(request) => {
                let view = view_of(&self.config, overlay, false);
                let reply = ops::answer(&view, &coordinated.answer, results)?;
                self.conclude_durable(overlay, (**request).clone(), reply)
            }
            Origin::Split { dir, split } => {
                self.splits.end(*dir, *split);
                self.lift_gate(*dir);
                Ok(())
            }
        }
    }

    /// The commit record is on disk before the client is answered (figure 3(a)).
    fn conclude_durable(
        &mut self,
        overlay: &mut Overlay<'_>,
        request: ShardRequest,
        reply: Reply,
    ) -> Result<(), Stop> {
        let kept = pandofs_namespace::records::SlotRecord {
            sequence: request.key.sequence,
            result: Ok(reply.clone()),
        };
        self.txn(overlay)
            .put_slot(request.key.session, request.key.slot, &kept);
        if !self.commands.replaying {
            self.answer_current(&request, Ok(reply), true);
        }
        Ok(())
    }

    fn aborted(
        &mut self,
        overlay: &mut Overlay<'_>,
        coordinated: &Coordinated,
        why: Refused,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let request = match &coordinated.origin {
            Origin::Client(request) => (**request).clone(),
            Origin::Split { dir, split } => {
                return self.hand_aborted(overlay, *dir, *split);
            }
        };
        let refusal = match why {
            Refused::Fs(error) => Refusal::Fs(error),
            Refused::Misdirected(map) => Refusal::NewNameMisdirected(map),
            Refused::Moved { ino, shard } => Refusal::Moved { ino, shard },
            Refused::SameFile => {
                let reply = ops::answer_same_file(&coordinated.answer)?;
                return self.conclude(overlay, request, Ok(reply));
            }
            Refused::Busy => {
                self.start_again(request, coordinated.coordination.age, choices);
                return Ok(());
            }
            Refused::Unknown => Refusal::TryAgain,
        };
        self.answer_request(&request, Err(refusal));
        Ok(())
    }

    /// After a random pause, as what it gave way to may take as long again.
    fn start_again(&mut self, request: ShardRequest, age: Age, choices: &Choices) {
        let Some(ticket) = self.sessions.answers.forget(request.key) else {
            return;
        };
        self.sessions.answers.begin(request.key, ticket);
        self.commands.waits(ticket, Cause::Pause);
        let longest = MAX_RETRY_PAUSE.as_nanos() as u64;
        let due = self
            .commands
            .now
            .after(Duration::from_nanos(choices.random % longest));
        self.operations.sequence_of_retry += 1;
        let at = (due, self.operations.sequence_of_retry);
        self.operations
            .retries
            .insert(at, (Input::Request { ticket, request }, age));
    }

    fn store_coordination(&mut self, overlay: &mut Overlay<'_>, coordinated: &Coordinated) {
        let tx = coordinated.coordination.tx;
        let key = keys::transaction(self.config.shard, keys::Role::Coordinator, tx, 0);
        overlay.put(key, encode(coordinated));
    }

    /// Sends messages of distributed operations, each once what it depends on is on disk.
    pub(crate) fn send_commits(&mut self, messages: Vec<(ShardId, CommitMessage)>) {
        if self.commands.replaying {
            return;
        }
        let from = self.config.shard;
        if messages.is_empty() {
            return;
        }
        let open = self.operations.coordinations.keys().copied();
        let horizon = pandofs_commit::horizon(
            open,
            self.meta.next_sequence,
            self.operations.straggles_after,
        );
        for (to, message) in messages {
            let message = self.splits.complete(message);
            let horizon = horizon.clone();
            self.send(
                to,
                PeerMessage::Commit {
                    from,
                    to,
                    horizon,
                    held: Some(self.loads.placer.held()),
                    message,
                },
                true,
            );
        }
    }

    /// Sends again what went unanswered for too long; `all`: whatever is unanswered.
    pub(crate) fn resend_commits(&mut self, now: Steady, all: bool) {
        let since = now.before(RESEND_INTERVAL);
        let mut due = Vec::new();
        for coordinated in self.operations.coordinations.values() {
            let tx = coordinated.coordination.tx;
            let sent = self.operations.sent.entry((tx, None)).or_insert(now);
            if all || *sent < since {
                *sent = now;
                due.extend(
                    coordinated
                        .coordination
                        .resend(self.operations.inherited.contains(&tx)),
                );
            }
        }
        for key @ (tx, number) in &self.operations.active {
            if let Some(message) = self.operations.participations[key].resend() {
                let sent = self
                    .operations
                    .sent
                    .entry((*tx, Some(*number)))
                    .or_insert(now);
                if all || *sent < since {
                    *sent = now;
                    due.push((tx.coordinator, message));
                }
            }
        }
        self.send_commits(due);
    }

    /// A message of an operation that is coordinated here. Its changes touch `keys`.
    pub(crate) fn propose_commit(
        &mut self,
        from: ShardId,
        horizon: Horizon,
        message: CommitMessage,
        choices: Choices,
        keys: Vec<LeaseKey>,
    ) {
        let message = Box::new(message);
        let record = Record::Commit {
            from,
            horizon,
            message,
            choices,
        };
        self.propose_change(&record, keys);
    }
}

/// Why a step is not performed, as the coordinator is told.
pub(crate) fn refused(stop: Stop) -> Result<Refused, Stop> {
    Ok(match stop {
        Stop::Refuse(Refusal::Fs(error)) => Refused::Fs(error),
        Stop::Refuse(Refusal::Misdirected(map)) => Refused::Misdirected(map),
        Stop::Refuse(Refusal::Moved { ino, shard }) => Refused::Moved { ino, shard },
        Stop::Refuse(Refusal::TryAgain) | Stop::Locked(_) => Refused::Busy,
        Stop::SameFile => Refused::SameFile,
        Stop::Refuse(other) => return Err(Stop::Broken(format!("a step is refused: {other:?}"))),
        Stop::Cold(key) => return Err(Stop::Broken(format!("a record waits for key {key:02x?}"))),
        stop @ (Stop::Store(_) | Stop::Broken(_)) => return Err(stop),
    })
}

pub(crate) fn tx_of(message: &CommitMessage) -> (TxId, StepNumber) {
    match message {
        CommitMessage::Do { tx, number, .. }
        | CommitMessage::Prepared { tx, number, .. }
        | CommitMessage::Committed { tx, number, .. }
        | CommitMessage::Refused { tx, number, .. }
        | CommitMessage::Ack { tx, number }
        | CommitMessage::Outcome { tx, number, .. }
        | CommitMessage::Finished { tx, number }
        | CommitMessage::Vote { tx, number }
        | CommitMessage::PreCommit { tx, number }
        | CommitMessage::PreCommitted { tx, number }
        | CommitMessage::Inquire { tx, number }
        | CommitMessage::InquireOutcome { tx, number } => (*tx, *number),
    }
}

fn merge(total: &mut Progress, more: Progress) {
    total.send.extend(more.send);
    total.committed |= more.committed;
    total.aborted = total.aborted.take().or(more.aborted);
    total.ended |= more.ended;
}
