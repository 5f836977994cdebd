//! Steps of operations that other shards coordinate, and the messages between shards.

use crate::coordinate::{refused, tx_of};
use crate::port::{Environment, Input};
use crate::record::Record;
use crate::shard::{Shard, view_of};
use crate::validate_reply::fits;
use pandofs_api::{Age, Ask, CommitMessage, Horizon, PeerMessage, Refused, Step, StepNumber, step};
use pandofs_commit::{Decision, Participation, ParticipationState};
use pandofs_namespace::{Admission, Choices, Stop, steps};
use pandofs_storage::store::Overlay;
use pandofs_types::{FsError, Ino, Position, ShardId, TxId};

impl Shard {
    /// A message of another server, or of another shard of this one.
    pub(crate) fn peer(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        message: PeerMessage,
    ) -> Result<(), Stop> {
        match message {
            PeerMessage::Commit {
                from,
                to,
                horizon,
                held,
                message,
            } => {
                if to == self.config.shard {
                    if let Some(held) = held {
                        self.loads.placer.learn(&self.config.map, from, held);
                    }
                    self.commit_message(overlay, env, from, horizon, message)?;
                }
            }
            PeerMessage::SplitChunk { from, chunk, .. } => {
                // A shard that sends another shard's split is wrong; nothing is kept of it.
                // On a disk without room the split waits: its source sends the chunk again.
                if chunk.split.source == from && !self.loads.disk_low {
                    self.splits.saw_staging(chunk.split, env.steady);
                    self.propose(&Record::SplitStage {
                        chunk: Box::new(chunk),
                    });
                }
            }
            PeerMessage::SplitChunkDone {
                split,
                number,
                accepted,
                ..
            } => {
                self.chunk_done(overlay, env, split, number, accepted)?;
            }
            PeerMessage::SplitAbandoned { from, split, .. } => {
                if split.source == from {
                    self.propose(&Record::SplitDrop { split });
                }
            }
            PeerMessage::MapNotice { from, dir, map, .. } => {
                self.map_notice(overlay, from, dir, map)?;
            }
            PeerMessage::MapNoticeDone { dir, map, .. } => {
                self.map_notice_done(overlay, dir, &map)?;
            }
            PeerMessage::SlotsAsk { from, dir, .. } => self.slots_asked(overlay, from, dir)?,
            PeerMessage::SlotsTold { dir, map, .. } => self.slots_told(overlay, dir, map)?,
            PeerMessage::MergeAsk { dir, child, .. } => self.merge_asked(overlay, dir, child)?,
            PeerMessage::MergeGo {
                dir,
                child,
                room,
                map,
                ..
            } => self.merge_may_go(overlay, dir, child, room, map)?,
            PeerMessage::Forwarded { inos, now_at, .. } => {
                self.propose(&Record::Forwarded { inos, now_at });
            }
            PeerMessage::ForgetForwarding { from, to, inos } => {
                self.forget_forwarding(overlay, from, to, inos)?;
            }
            PeerMessage::ForgetForwardingDone { from, inos, .. } => {
                for ino in inos {
                    self.reclaims
                        .forwarding_forgotten(&mut self.commands, ino, from);
                }
            }
            // The lane's.
            PeerMessage::Data { .. }
            | PeerMessage::DataDone { .. }
            | PeerMessage::Load { .. }
            | PeerMessage::Trace { .. } => {}
        }
        Ok(())
    }

    /// These inodes have died elsewhere.
    ///
    /// One that is still here is about to be given up: that this was decided is still on its way, or was lost with what a
    /// crash took away. Nothing is answered then, so that this is said again when the forwarding record is there.
    /// (Otherwise: the target adopts a file; its word of that is lost; the file is unlinked there; this shard has no
    /// record to forget and says that it has; it hears of the decision, and makes a record that nobody will remove.)
    fn forget_forwarding(
        &mut self,
        overlay: &Overlay<'_>,
        from: ShardId,
        to: ShardId,
        inos: Vec<Ino>,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        for ino in &inos {
            if view.stored_inode(*ino)?.is_some() {
                return Ok(());
            }
        }
        self.propose(&Record::ForgetForwarding { inos: inos.clone() });
        let done = PeerMessage::ForgetForwardingDone {
            from: to,
            to: from,
            inos,
        };
        self.send(from, done, true);
        Ok(())
    }

    /// Answers from memory what changes nothing; the rest becomes a record.
    fn commit_message(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        from: ShardId,
        horizon: Horizon,
        message: CommitMessage,
    ) -> Result<(), Stop> {
        let (tx, number) = tx_of(&message);
        let to_coordinator = message.is_to_coordinator();
        let coordinator = if to_coordinator {
            self.config.shard
        } else {
            from
        };
        if tx.coordinator != coordinator {
            return Ok(());
        }
        let mut choices = Choices {
            time: env.now,
            random: (env.random)(),
            ..Choices::default()
        };
        let config = self.config.clone();
        let view = view_of(&config, overlay, self.goes_by_memory());
        if to_coordinator {
            match self.operations.coordinations.get(&tx.sequence) {
                None => {
                    self.answer_for_forgotten(from, tx, number, &message);
                    return Ok(());
                }
                Some(coordinated) => {
                    if !fits(
                        &self.config.map,
                        &coordinated.coordination,
                        from,
                        number,
                        &message,
                    ) {
                        return Ok(());
                    }
                    // Nothing is decided, so there is nothing to tell. Shards ask again and again for each step, and
                    // of an operation of thousands of steps that would leave no time for the rest of it.
                    let is_inquiry = matches!(message, CommitMessage::InquireOutcome { .. });
                    if is_inquiry && coordinated.coordination.decision == Decision::Open {
                        return Ok(());
                    }
                    let own: Vec<_> = coordinated
                        .coordination
                        .steps
                        .iter()
                        .map(|entry| (entry.shard, entry.step.clone()))
                        .chain(followers(&message))
                        .collect();
                    match self.choose(&view, &own, &mut choices) {
                        Ok(()) => {}
                        Err(Stop::Cold(key)) => {
                            self.warm_commit(key, from, horizon, message);
                            return Ok(());
                        }
                        Err(stop) => return Err(stop),
                    }
                }
            }
            let followers = followers(&message);
            let here = steps_here(&followers, config.shard);
            let Some(keys) = self.clear_steps(&view, here, from, &horizon, &message) else {
                return Ok(());
            };
            self.sessions.opens.will_close(&choices.closed);
            self.propose_commit(from, horizon, message, choices, keys);
            return Ok(());
        }
        let mut keys = Vec::new();
        let known = self.operations.participations.get(&(tx, number));
        match &message {
            CommitMessage::Do { step, .. } => {
                // One that waits here is not looked at again before what it waits for has ended.
                let is_waiting = self.commands.waiting.has_message(from, &message);
                if is_waiting || known.is_none() && self.operations.has_passed(tx) {
                    return Ok(());
                }
                if let Some(known) = known {
                    let answer = known.answer();
                    self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
                    return Ok(());
                }
                let own = [(self.config.shard, step.clone())];
                if self.gate_of(&own).is_some() {
                    choices.admission = Admission::Busy;
                } else if self.loads.disk_low && steps::of(step).needs_space() {
                    choices.admission = Admission::Full;
                }
                match self.choose(&view, &own, &mut choices) {
                    Ok(()) => {}
                    Err(Stop::Cold(key)) => {
                        self.warm_commit(key, from, horizon, message);
                        return Ok(());
                    }
                    Err(stop) => return Err(stop),
                }
                let here = steps_here(&own, config.shard);
                match self.clear_steps(&view, here, from, &horizon, &message) {
                    Some(touched) => keys = touched,
                    None => return Ok(()),
                }
            }
            CommitMessage::Inquire { .. } => {
                if let Some(known) = known {
                    let answer = known.answer();
                    self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
                    return Ok(());
                }
            }
            CommitMessage::Vote { .. } => {
                if known.is_none() && !self.operations.has_passed(tx) {
                    self.operations.early_votes.keep(tx, number);
                }
                let answer = known.and_then(Participation::answer);
                self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
                return Ok(());
            }
            CommitMessage::Outcome { .. } => {
                if let Some(Participation {
                    state: ParticipationState::Prepared { step, .. },
                    ..
                }) = known
                {
                    let own = [(self.config.shard, step.clone())];
                    match self.choose(&view, &own, &mut choices) {
                        Ok(()) => {}
                        Err(Stop::Cold(key)) => {
                            self.warm_commit(key, from, horizon, message);
                            return Ok(());
                        }
                        Err(stop) => return Err(stop),
                    }
                }
            }
            _ => {}
        }
        self.sessions.opens.will_close(&choices.closed);
        self.propose_commit(from, horizon, message, choices, keys);
        Ok(())
    }

    fn warm_commit(
        &mut self,
        key: Vec<u8>,
        from: ShardId,
        horizon: Horizon,
        message: CommitMessage,
    ) {
        let to = self.config.shard;
        let input = Input::Peer(PeerMessage::Commit {
            from,
            to,
            horizon,
            held: None,
            message,
        });
        self.warm(key, input);
    }

    pub(crate) fn apply_commit(
        &mut self,
        overlay: &mut Overlay<'_>,
        from: ShardId,
        horizon: Horizon,
        message: CommitMessage,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let (tx, number) = tx_of(&message);
        match message {
            CommitMessage::Prepared { .. }
            | CommitMessage::Committed { .. }
            | CommitMessage::Refused { .. }
            | CommitMessage::Finished { .. }
            | CommitMessage::PreCommitted { .. }
            | CommitMessage::InquireOutcome { .. } => {
                return self.coordinator_event(overlay, from, message, choices);
            }
            CommitMessage::Do { .. } => {
                if let Some(known) = self.operations.participations.get(&(tx, number)) {
                    let answer = known.answer();
                    self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
                } else if !self.operations.has_passed(tx) {
                    self.take_part(overlay, from, &horizon, &message, choices)?;
                }
            }
            CommitMessage::Ack { .. } => {
                if let Some(known) = self.operations.participations.get_mut(&(tx, number))
                    && known.acknowledge()
                {
                    let known = known.clone();
                    self.store_participation(overlay, &known);
                }
            }
            // A vote changes nothing, and makes no record.
            CommitMessage::Vote { .. } => {}
            CommitMessage::PreCommit { .. } => {
                if let Some(known) = self.operations.participations.get_mut(&(tx, number)) {
                    let changed = known.pre_commit();
                    let known = known.clone();
                    if changed {
                        self.store_participation(overlay, &known);
                    }
                    if matches!(known.state, ParticipationState::Prepared { .. }) {
                        self.send_commits(
                            known
                                .answer()
                                .map(|answer| (from, answer))
                                .into_iter()
                                .collect(),
                        );
                    }
                }
            }
            CommitMessage::Outcome { commit, .. } => {
                self.settle(overlay, from, tx, number, commit, choices)?;
            }
            CommitMessage::Inquire { .. } => {
                if !self.operations.participations.contains_key(&(tx, number))
                    && !self.operations.has_passed(tx)
                {
                    let state = ParticipationState::Refused {
                        why: Refused::Unknown,
                    };
                    self.put_without_step(overlay, (tx, number), choices.time, state);
                }
                let answer = self
                    .operations
                    .participations
                    .get(&(tx, number))
                    .and_then(|p| p.answer());
                self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
            }
        }
        self.raise_horizon(overlay, from, &horizon, (tx, number));
        Ok(())
    }

    /// Performs the step of a [`CommitMessage::Do`], or prepares it, or refuses.
    fn take_part(
        &mut self,
        overlay: &mut Overlay<'_>,
        from: ShardId,
        horizon: &Horizon,
        message: &CommitMessage,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let CommitMessage::Do {
            tx,
            number,
            step,
            ask,
            age,
        } = message.clone()
        else {
            return Err(Stop::Broken(format!("{message:?} asks for no step")));
        };
        let prepared = if choices.admission == Admission::Full {
            Err(FsError::NoSpace.into())
        } else if choices.admission == Admission::Busy || self.would_change_time_again(&step, age) {
            Err(Stop::Refuse(pandofs_api::Refusal::TryAgain))
        } else {
            self.prepare_step(overlay, Some(tx), &step, choices)
        };
        let state = match prepared {
            Ok(prepared) if ask == Ask::Decide && prepared.follow.is_empty() => {
                let result = prepared.result;
                let all = std::slice::from_ref(&result);
                self.execute_step(overlay, &step, &result, all, choices)?;
                self.performed(&step, &result);
                self.adopt_locks(overlay, &step);
                ParticipationState::Committed { result }
            }
            Ok(prepared) => {
                self.operations.locks.acquire(tx, &prepared.locks);
                let (result, follow) = (prepared.result, prepared.follow);
                ParticipationState::Prepared {
                    step,
                    result,
                    follow,
                    pre_committed: false,
                }
            }
            Err(Stop::Locked(holder)) if self.age_of(holder).is_none_or(|other| age < other) => {
                // Older operations wait, younger ones give way: no circle of waiting can close. Nor can it
                // through a file that is moving to its data objects, which has no age: it waits for no lock.
                let to = self.config.shard;
                let message = PeerMessage::Commit {
                    from,
                    to,
                    horizon: horizon.clone(),
                    held: None,
                    message: message.clone(),
                };
                if !self.commands.replaying {
                    self.wait_for(holder, Input::Peer(message));
                }
                return Ok(());
            }
            Err(stop) => ParticipationState::Refused {
                why: refused(stop)?,
            },
        };
        let part = Participation {
            tx,
            number,
            age,
            state,
        };
        let has_voted = self.operations.early_votes.take(tx, number);
        let is_silent = ask == Ask::PrepareSilently
            && !has_voted
            && matches!(part.state, ParticipationState::Prepared { .. });
        let answer = part.answer().filter(|_| !is_silent);
        self.operations
            .sent
            .insert((tx, Some(number)), self.commands.now);
        self.put_participation(overlay, part);
        self.send_commits(answer.map(|answer| (from, answer)).into_iter().collect());
        Ok(())
    }

    /// Whether an older operation that brings or takes a name of a directory, and may have been answered,
    /// is still to be performed here, so that it would change the modification time that the step sets.
    /// The step gives way to it and comes again. Younger ones change the time as they should.
    fn would_change_time_again(&self, step: &Step, age: Age) -> bool {
        let Step::SetDir(step::SetDir { dir, set, .. }) = step else {
            return false;
        };
        if set.mtime.is_none() {
            return false;
        }
        let me = self.config.shard;
        let mut unseen = self
            .operations
            .locks
            .unseen(*dir, Position::FIRST, me)
            .into_iter();
        unseen.any(|tx| self.age_of(tx).is_some_and(|other| other < age))
    }

    fn age_of(&self, tx: TxId) -> Option<Age> {
        if tx.coordinator == self.config.shard {
            return self
                .operations
                .coordinations
                .get(&tx.sequence)
                .map(|c| c.coordination.age);
        }
        self.operations
            .participations
            .range((tx, StepNumber(0))..=(tx, StepNumber(u16::MAX)))
            .next()
            .map(|(_, part)| part.age)
    }
}

/// Of these steps those of this shard.
fn steps_here(steps: &[(ShardId, Step)], here: ShardId) -> impl Iterator<Item = &Step> {
    let of_here = steps.iter().filter(move |(shard, _)| *shard == here);
    of_here.map(|(_, step)| step)
}

/// Steps that a message may bring to the coordinator.
fn followers(message: &CommitMessage) -> Vec<(ShardId, Step)> {
    match message {
        CommitMessage::Prepared { follow, .. } => follow.clone(),
        _ => Vec::new(),
    }
}
