//! Records change the state here, and nowhere else.

use crate::port::{Environment, Output};
use crate::record::Record;
use crate::shard::{Shard, ShardError, broken, view_of};
use crate::waiting::Until;
use pandofs_api::op::{self, Operation};
use pandofs_api::{Age, Cause, Refusal, Reply, Request, ShardRequest};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::ops::Mutation;
use pandofs_namespace::records::{ReclaimRecord, SlotRecord};
use pandofs_namespace::{
    Choices, Context, Effect, Stop, Txn, View, keys, merge, ops, split, steps,
};
use pandofs_storage::store::Overlay;
use pandofs_types::{Ino, SessionId};
use std::ops::ControlFlow;

impl Shard {
    /// Applies a record that is in the log. Afterwards there may be proposals and outputs.
    ///
    /// # Errors
    /// When the state or the record is broken, or the record is not the next one; the process must
    /// stop.
    pub fn apply(
        &mut self,
        overlay: &mut Overlay<'_>,
        env: &mut Environment<'_>,
        index: u64,
        payload: &[u8],
    ) -> Result<(), ShardError> {
        let shard = self.config.shard;
        let expected = self.meta.applied + 1;
        if index != expected {
            return Err(ShardError::OutOfOrder {
                shard,
                found: index,
                expected,
            });
        }
        let record = Record::decode(payload)?;
        let mark = overlay.mark();
        self.meta.applied = index;
        self.commands.now = env.steady;
        self.leases.time(env.steady);
        self.leases.begin(index);
        let is_change = matches!(record, Record::Request { .. } | Record::Commit { .. });
        let done = self.apply_record(overlay, record).and_then(|()| {
            if !self.commands.replaying {
                if is_change {
                    self.leases.check(shard, overlay, mark)?;
                }
                self.track_writes(overlay, mark)?;
                self.effects(overlay)?;
                if self.commands.proposals.is_empty() && self.meta.applied == self.commands.proposed
                {
                    self.sessions.opens.all_applied();
                    self.commands.waiting.release(Until::Applied);
                }
                self.submit_ready(overlay, env)?;
            }
            self.txn(overlay).put_meta();
            Ok(())
        });
        done.map_err(|stop| broken(shard, stop))
    }

    pub(crate) fn txn<'t, 's>(&'t mut self, overlay: &'t mut Overlay<'s>) -> Txn<'t, 's> {
        Txn {
            overlay,
            shard: self.config.shard,
            map: &self.config.map,
            meta: &mut self.meta,
            effects: &mut self.commands.effects,
        }
    }

    fn apply_record(&mut self, overlay: &mut Overlay<'_>, record: Record) -> Result<(), Stop> {
        match record {
            Record::Request {
                request,
                choices,
                age,
            } => self.apply_request(overlay, *request, &choices, age),
            Record::Commit {
                from,
                horizon,
                message,
                choices,
            } => self.apply_commit(overlay, from, horizon, *message, &choices),
            Record::Recover { tx } => self.apply_recover(overlay, tx),
            Record::SplitBegin { dir, .. } | Record::MergeBegin { dir, .. }
                if self.operations.locks.holds_dir(dir) =>
            {
                // Since this was proposed the removal of the directory was prepared here. Begun now it would
                // still be under way when the partitions go.
                self.does_not_begin(dir);
                Ok(())
            }
            Record::SplitBegin { dir, index, slots } => {
                split::begin(&mut self.txn(overlay), dir, index, &slots)?;
                self.after_begin(overlay, dir)
            }
            Record::SplitHand {
                dir,
                split,
                chunks,
                choices,
            } => self.apply_hand(overlay, dir, split, chunks, &choices),
            Record::SplitAbandon { dir, split } => {
                split::abandon(&mut self.txn(overlay), dir, split)?;
                self.after_abandon(dir, split)
            }
            Record::SplitStage { chunk } => {
                let accepted = split::stage(&mut self.txn(overlay), &chunk)?;
                self.after_stage(&chunk, accepted);
                Ok(())
            }
            Record::SplitDrop { split } => {
                self.splits.forget_staging(split);
                split::drop_staged(&mut self.txn(overlay), split)
            }
            Record::LearnMap { dir, map } => self.apply_learn(overlay, dir, &map),
            Record::Forwarded { inos, now_at } => {
                let mut txn = self.txn(overlay);
                for ino in inos {
                    if now_at != txn.shard && txn.view().forwarding(ino)?.is_some() {
                        txn.put_forwarding(ino, now_at);
                    }
                }
                Ok(())
            }
            Record::ForgetForwarding { inos } => {
                let mut txn = self.txn(overlay);
                for ino in inos {
                    txn.delete_forwarding(ino);
                }
                Ok(())
            }
            Record::Reclaim { ino } => {
                if self
                    .operations
                    .locks
                    .check(&Lock::Inode(ino), None)
                    .is_err()
                {
                    // Since this was proposed another shard's operation has begun to give it a name.
                    self.reclaims.set_proposed(ino, false);
                    return Ok(());
                }
                let mut txn = self.txn(overlay);
                if matches!(txn.view().reclaim(ino)?, Some(ReclaimRecord::Orphan)) {
                    let inode = txn.view().inode(ino)?;
                    steps::forget_inode(&mut txn, ino, inode)?;
                }
                if self.txn(overlay).view().reclaim(ino)?.is_none() {
                    self.reclaims.done(ino);
                }
                Ok(())
            }
            Record::Reclaimed { ino, done } => self.apply_reclaimed(overlay, ino, &done),
            Record::ExpireSession { session } => self.apply_expire(overlay, session),
            Record::LockHolder { session, has } => {
                self.apply_lock_holder(overlay, session, has);
                Ok(())
            }
            Record::Leaseholder { session, has } => {
                self.apply_leaseholder(overlay, session, has);
                Ok(())
            }
            Record::Grantholder {
                session,
                incarnation,
            } => {
                self.apply_grantholder(overlay, session, incarnation);
                Ok(())
            }
            Record::SkipSerials { next } => {
                self.meta.next_serial = next.max(self.meta.next_serial);
                Ok(())
            }
            Record::MergeBegin { dir, child, map } => {
                merge::begin(&mut self.txn(overlay), dir, child, &map)?;
                self.after_begin(overlay, dir)
            }
            Record::ForgetParts { dir } => {
                let mut txn = self.txn(overlay);
                // A partition may have come back meanwhile.
                if txn
                    .view()
                    .parts(dir)?
                    .is_some_and(|parts| parts.parts.is_empty())
                {
                    txn.delete_parts(dir);
                }
                Ok(())
            }
        }
    }

    fn apply_request(
        &mut self,
        overlay: &mut Overlay<'_>,
        request: ShardRequest,
        choices: &Choices,
        age: Option<Age>,
    ) -> Result<(), Stop> {
        let key = request.key;
        self.leases.written_by(key.session);
        if let Some(kept) = self.txn(overlay).view().slot(key.session, key.slot)?
            && kept.sequence >= key.sequence
        {
            let same = kept.sequence == key.sequence;
            let result = if same {
                self.with_grants(key.session, kept.result)
            } else {
                Err(Refusal::StaleSequence)
            };
            self.answer_request(&request, result);
            return Ok(());
        }
        if matches!(request.request, Request::Batch(_)) {
            return self.apply_batch(overlay, request, choices);
        }
        let locks = std::mem::take(&mut self.operations.locks);
        let context = Context {
            locks: &locks,
            session: key.session,
            caller: &request.caller,
            choices,
        };
        let done = ops::mutate(&mut self.txn(overlay), &context, &request.request);
        self.operations.locks = locks;
        let done = match done {
            Ok(Mutation::Done(reply)) => Ok(reply),
            Ok(Mutation::Plan(plan)) => {
                return self.apply_plan(overlay, request, plan, choices, age);
            }
            Err(stop) => Err(stop),
        };
        self.conclude(overlay, request, done)
    }

    /// Answers a request that was applied, or could not be.
    pub(crate) fn conclude(
        &mut self,
        overlay: &mut Overlay<'_>,
        request: ShardRequest,
        done: Result<Reply, Stop>,
    ) -> Result<(), Stop> {
        match done {
            Ok(reply) => {
                let session = request.key.session;
                let kept = SlotRecord {
                    sequence: request.key.sequence,
                    result: Ok(reply.clone()),
                };
                self.txn(overlay).put_slot(session, request.key.slot, &kept);
                self.keep_objects_unknown(overlay, &request.request)?;
                if self.commands.replaying {
                    return Ok(());
                }
                self.remember_opened(session);
                self.answer_followed(overlay, request, reply)?;
            }
            Err(Stop::Refuse(refusal)) => self.answer_request(&request, Err(refusal)),
            Err(Stop::Locked(tx)) => {
                if !self.commands.replaying
                    && let Some(ticket) = self.sessions.answers.forget(request.key)
                {
                    self.sessions.answers.begin(request.key, ticket);
                    self.wait_for(tx, crate::port::Input::Request { ticket, request });
                }
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// Locks the inode of a file that was striped until its first data object has what it held. Where it held nothing
    /// answers that tell of its data objects wait for the disk.
    pub(crate) fn keep_objects_unknown(
        &mut self,
        overlay: &Overlay<'_>,
        request: &Request,
    ) -> Result<(), Stop> {
        let (Request::Stripe(op::Stripe { ino }) | Request::WriteNew(op::WriteNew { ino, .. })) =
            *request
        else {
            return Ok(());
        };
        let reclaim = view_of(&self.config, overlay, false).reclaim(ino)?;
        if let Some(ReclaimRecord::Fill { tx, .. }) = reclaim {
            self.operations.locks.acquire(tx, &[Lock::Inode(ino)]);
        } else if matches!(request, Request::Stripe(_)) && !self.commands.replaying {
            let record = self.meta.applied;
            self.stripings.begin(&mut self.commands, ino, record);
        }
        Ok(())
    }

    /// Answers a request that was applied once the data objects have followed that it changes.
    pub(crate) fn answer_followed(
        &mut self,
        overlay: &Overlay<'_>,
        request: ShardRequest,
        reply: Reply,
    ) -> Result<(), Stop> {
        let view = view_of(&self.config, overlay, false);
        if let Some(ino) = left_to_follow(&view, &request.request)? {
            if let Some(ticket) = self.sessions.answers.ticket(request.key) {
                self.commands.waits(ticket, Cause::Objects);
            }
            self.reclaims.wait_for_objects(ino, request, reply);
            return Ok(());
        }
        let operation = request.request.operation();
        let durable = self.config.sync_every_batch || operation.answers_when_synced();
        self.answer_current(&request, Ok(reply), durable);
        Ok(())
    }

    /// The request's session has open what the request opened.
    pub(crate) fn remember_opened(&mut self, session: SessionId) {
        let effects = std::mem::take(&mut self.commands.effects);
        for effect in effects {
            match effect {
                Effect::Opened { ino } => self.sessions.opens.add(ino, session, 1),
                other => self.commands.effects.push(other),
            }
        }
    }

    fn effects(&mut self, overlay: &Overlay<'_>) -> Result<(), Stop> {
        for effect in std::mem::take(&mut self.commands.effects) {
            match effect {
                Effect::Grew { dir, index } => self.consider_split(overlay, dir, index)?,
                Effect::Settings { dir } => {
                    self.consider_all_splits(overlay, dir)?;
                    self.consider_all_merges(overlay, dir)?;
                }
                Effect::Reclaim { ino } => self.consider_reclaim(overlay, ino, false)?,
                Effect::MadeAway { dir, session } => self.leases.grant_made(session, dir),
                // Of an operation that nobody waits for any more.
                Effect::Opened { .. } => {}
                Effect::Shrank { dir, index } => self.consider_merge(overlay, dir, index)?,
                Effect::MapChanged { dir } => {
                    self.notify_home(overlay, dir)?;
                    // While it was under way others of the directory were not taken up.
                    self.splits.look_again_later(dir);
                }
                // The shard that they came from has been told who has them open, or has made them since its start.
                Effect::MovedHere { inos } if !self.sessions.grace.is_over() => {
                    self.reclaims.moved_here.extend(inos);
                }
                Effect::MovedHere { .. } => {}
                Effect::MovedAway { inos, trails, to } => self.moved_away(&inos, &trails, to),
            }
        }
        Ok(())
    }

    fn apply_expire(&mut self, overlay: &mut Overlay<'_>, session: SessionId) -> Result<(), Stop> {
        let prefix = keys::slots(self.config.shard, session);
        let mut slots = Vec::new();
        self.txn(overlay)
            .view()
            .scan_prefix(&prefix, &mut |key, _| {
                slots.push(key.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
        for key in slots {
            overlay.delete(key);
        }
        // The numbers left of them are lost: none is given out again.
        overlay.delete(keys::numbers(self.config.shard, session));
        Ok(())
    }

    /// Sessions that have answers here count as seen now.
    pub(crate) fn recover_sessions(
        &mut self,
        overlay: &Overlay<'_>,
        now: pandofs_types::Steady,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let prefix = keys::prefix(keys::Kind::Slot, config.shard);
        let answers = &mut self.sessions.answers;
        view_of(&config, overlay, false).scan_prefix(&prefix, &mut |key, _| {
            if let Some(session) = keys::parse_ino(key) {
                answers.saw(SessionId(session.0), now);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    pub(crate) fn push_output(&mut self, output: Output) {
        self.commands.outputs.push(output);
    }
}

/// An inode whose data objects are still to follow before the request is answered.
pub(crate) fn left_to_follow(view: &View<'_>, request: &Request) -> Result<Option<Ino>, Stop> {
    let operations: Vec<&dyn Operation> = match request {
        Request::Batch(batch) => {
            let operations = batch.early.iter().map(|early| early.operation.operation());
            operations.collect()
        }
        other => vec![other.operation()],
    };
    for ino in operations
        .into_iter()
        .filter_map(Operation::changes_objects)
    {
        if let Some(ReclaimRecord::Truncate { .. } | ReclaimRecord::Fill { .. }) =
            view.reclaim(ino)?
        {
            return Ok(Some(ino));
        }
    }
    Ok(None)
}
