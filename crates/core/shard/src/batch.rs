//! Batches: operations that a session has executed under grants, one record for all of them.
//!
//! Each is executed as a request of its own would be, with what the session has chosen; the first that cannot be ends
//! the batch. None of them touches another shard: one whose plan does is refused with `TryAgain`, as is one that meets
//! an operation under way, and the session asks for it by itself.

use crate::grants::is_whole;
use crate::leases::{Cleared, keys_of};
use crate::plans::Ready;
use crate::port::{Environment, Input, Ticket};
use crate::record::Record;
use crate::shard::{Shard, view_of};
use crate::waiting::Until;
use pandofs_api::op::{self, Change, Early, EarlyOperation};
use pandofs_api::{BatchReply, GrantTerms, Refusal, Reply, Request, ShardRequest};
use pandofs_namespace::ops::Mutation;
use pandofs_namespace::records::{NumbersRecord, SlotRecord};
use pandofs_namespace::touches::{Touched, entry_key};
use pandofs_namespace::{Choices, Context, Plan, Stop, View, keys, ops};
use pandofs_storage::store::{KvRead, Overlay};
use pandofs_types::limits::{MAX_BATCH_OPERATIONS, MAX_GROUPS, MAX_TIME_AHEAD};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, SessionId, ShardId, Time};

/// Fault of a batch that no client makes.
fn fault(batch: &op::Batch, shard: ShardId) -> Option<&'static str> {
    if !(1..=MAX_BATCH_OPERATIONS).contains(&batch.early.len()) {
        return Some("a batch of too few or too many operations");
    }
    if batch.callers.iter().any(|of| of.groups.len() > MAX_GROUPS) {
        return Some("a caller has too many groups");
    }
    batch.early.iter().find_map(|early| {
        let makes = matches!(
            early.operation,
            EarlyOperation::Create(_) | EarlyOperation::Mkdir(_)
        );
        if usize::from(early.caller) >= batch.callers.len() {
            return Some("an operation of nobody");
        }
        if early.ino.is_some() != makes {
            return Some("an operation that makes an inode needs its number, and no other does");
        }
        if early.ino.is_some_and(|ino| ino.birth_shard() != shard) {
            return Some("an inode number of another shard");
        }
        matches!(&early.operation, EarlyOperation::Rename(rename) if rename.whiteout)
            .then_some("a white-out is not left early")
    })
}

/// The time, or the latest that is not too far ahead. The session went by this server's clock, which may have been set
/// back since: what it has answered is not refused for that.
pub(crate) fn brought_back(time: Time, now: Time) -> Time {
    time.min(Time(now.0.saturating_add(MAX_TIME_AHEAD.as_nanos() as i64)))
}

/// Keys that a batch may change, of those that somebody else may know.
///
/// An operation may find what others before it have made of a name, and be refused if it is looked at by itself. But
/// whatever inode it changes is given by its number in the batch, or is made by it, or is one that a name leads to now
/// which the batch gives, whichever names lead to it when its turn comes.
fn touched(view: &View<'_>, batch: &op::Batch) -> Result<Vec<Touched>, Stop> {
    let mut keys = Vec::new();
    for early in &batch.early {
        for change in early.operation.operation().changes() {
            match change {
                Change::Name(dir, name) => {
                    keys.extend([entry_key(view, dir, name), LeaseKey::Parts(dir)]);
                    let position = view.map.hash_key.position(name.as_bytes());
                    if let Some(entry) = view.entry(dir, position, name)? {
                        keys.push(LeaseKey::Inode(entry.ino));
                        if entry.kind == FileKind::Dir {
                            keys.push(LeaseKey::Parts(entry.ino));
                        }
                    }
                }
                Change::Inode(ino) => keys.push(LeaseKey::Inode(ino)),
                Change::Dir(ino) => keys.extend([LeaseKey::Inode(ino), LeaseKey::Parts(ino)]),
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let is_known = true;
    let known = |key| Touched { key, is_known };
    Ok(keys.into_iter().map(known).collect())
}

/// Names of the batch.
fn names<'a>(view: &View<'_>, batch: &'a op::Batch) -> impl Iterator<Item = LeaseKey> + use<'a> {
    let hash_key = view.map.hash_key;
    let changes = batch
        .early
        .iter()
        .flat_map(|early| early.operation.operation().changes());
    changes.filter_map(move |change| match change {
        Change::Name(dir, name) => {
            let position = hash_key.position(name.as_bytes());
            Some(LeaseKey::Entry { dir, position })
        }
        _ => None,
    })
}

/// Choices of the session for one of its operations; the rest is the record's.
fn choices_of(batch: &op::Batch, common: &Choices) -> Choices {
    Choices {
        placing: batch.placing,
        ..common.clone()
    }
}

fn choose_for(early: &Early, choices: &mut Choices) {
    choices.time = early.time;
    choices.random = early.random;
    choices.ino = early.ino;
}

impl Shard {
    /// Takes up a batch that is known to be new.
    pub(crate) fn submit_batch(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        ticket: Ticket,
        mut request: ShardRequest,
    ) -> Result<(), Stop> {
        if let Request::Batch(batch) = &mut request.request {
            for early in &mut batch.early {
                early.time = brought_back(early.time, env.now);
            }
        }
        let Request::Batch(batch) = &request.request else {
            return Err(Stop::Broken(format!("{request:?} is no batch")));
        };
        if let Some(fault) = fault(batch, self.config.shard) {
            let refusal = Refusal::Malformed(fault.to_string());
            self.answer_request(&request, Err(refusal));
            return Ok(());
        }
        if !self
            .leases
            .are_in_force(request.key.session, batch.incarnation)
        {
            let reply = Reply::Batch(Box::new(BatchReply {
                done: 0,
                refused: Some(FsError::Stale.into()),
                incarnation: None,
                terms: GrantTerms {
                    time: env.now,
                    placing: None,
                    is_low: false,
                },
            }));
            self.answer_request(&request, Ok(reply));
            return Ok(());
        }
        let config = self.config.clone();
        let view = view_of(&config, overlay, self.goes_by_memory());
        let (time, random) = (env.now, (env.random)());
        let looked_at =
            self.closed_by(&view, request.key.session, batch)
                .and_then(|(closed, slots)| {
                    let choices = Choices {
                        time,
                        random,
                        closed,
                        slots,
                        placing: self.placing_for(&view, batch, random)?,
                        ..Choices::default()
                    };
                    if self.leases.are_changing(names(&view, batch)) {
                        return Ok(None);
                    }
                    let touched = match self.leases.is_used() {
                        true => touched(&view, batch)?,
                        false => Vec::new(),
                    };
                    Ok(Some((choices, touched)))
                });
        match looked_at {
            Ok(None) => self.wait(Until::Applied, Input::Request { ticket, request }),
            Ok(Some((choices, touched))) => {
                let cleared = self.leases.clear_batch(&touched, request.key.session);
                if cleared != Cleared::Yes {
                    self.put_aside(&cleared, Input::Request { ticket, request });
                    return Ok(());
                }
                self.sessions.opens.will_close(&choices.closed);
                self.loads.adapts |= batch.placing.is_some();
                let record = Record::Request {
                    request: Box::new(request),
                    choices,
                    age: None,
                };
                self.propose_change(&record, keys_of(touched));
            }
            Err(stop) => return self.put_off_new(ticket, request, stop),
        }
        Ok(())
    }

    /// Inodes that the batch may take the last name of, if nobody has them open, and a slot array, should a directory need
    /// one. An operation that is refused as things are may need what one before it makes.
    fn closed_by(
        &self,
        view: &View<'_>,
        session: SessionId,
        batch: &op::Batch,
    ) -> Result<(Vec<Ino>, Vec<ShardId>), Stop> {
        let mut choices = choices_of(batch, &Choices::default());
        let (mut closed, mut slots) = (Vec::new(), Vec::new());
        for early in &batch.early {
            choose_for(early, &mut choices);
            let caller = &batch.callers[usize::from(early.caller)];
            let context = Context {
                locks: &self.operations.locks,
                session,
                caller,
                choices: &choices,
            };
            let request = Request::from(early.operation.clone());
            let plan = match ops::check(view, &context, &request) {
                Ok(checked) => checked.plan,
                Err(Stop::Refuse(_)) => None,
                Err(stop) => return Err(stop),
            };
            if let Some(plan) = plan {
                let mut chosen = Choices {
                    random: early.random,
                    ..Choices::default()
                };
                self.choose(view, &plan.steps, &mut chosen)?;
                closed.extend(chosen.closed);
                if !chosen.slots.is_empty() {
                    slots = chosen.slots;
                }
            }
            // Nobody else can open it before it is made.
            if let (EarlyOperation::Create(op::Create { open: false, .. }), Some(ino)) =
                (&early.operation, early.ino)
                && !self.may_be_open_unknown(ino)
            {
                closed.push(ino);
            }
        }
        closed.sort_unstable();
        closed.dedup();
        Ok((closed, slots))
    }

    /// Executes a batch, as far as it can be.
    pub(crate) fn apply_batch(
        &mut self,
        overlay: &mut Overlay<'_>,
        request: ShardRequest,
        common: &Choices,
    ) -> Result<(), Stop> {
        let Request::Batch(batch) = &request.request else {
            return Err(Stop::Broken(format!("{request:?} is no batch")));
        };
        let session = request.key.session;
        let mut choices = choices_of(batch, common);
        let (mut done, mut refused) = (0, None);
        for early in &batch.early {
            choose_for(early, &mut choices);
            match self.apply_early(overlay, session, batch, early, &choices) {
                Ok(()) => done += 1,
                Err(Stop::Refuse(refusal)) => refused = Some(refusal),
                Err(Stop::Locked(_)) => refused = Some(Refusal::TryAgain),
                Err(stop) => return Err(stop),
            }
            if refused.is_some() {
                break;
            }
        }
        // Not before: what comes after it in the batch may be about the same inode, and has no need of its data objects.
        for early in &batch.early[..done as usize] {
            self.keep_objects_unknown(overlay, &Request::from(early.operation.clone()))?;
        }
        // Facts of the moment are put in when it is answered.
        let reply = Reply::Batch(Box::new(BatchReply {
            done,
            refused,
            incarnation: None,
            terms: GrantTerms {
                time: common.time,
                placing: common.placing,
                is_low: false,
            },
        }));
        let kept = SlotRecord {
            sequence: request.key.sequence,
            result: Ok(reply.clone()),
        };
        self.txn(overlay).put_slot(session, request.key.slot, &kept);
        if self.commands.replaying {
            return Ok(());
        }
        self.remember_opened(session);
        self.leases.renew(session);
        // Also where they are not renewed: it acts as if it had these until they are over.
        if self.leases.are_in_force(session, batch.incarnation) {
            for early in &batch.early[..done as usize] {
                if let (EarlyOperation::Mkdir(_), Some(dir)) = (&early.operation, early.ino) {
                    let view = view_of(&self.config, overlay, false);
                    let parts = view.parts(dir)?;
                    // It may have been removed again.
                    if parts.is_some_and(|parts| is_whole(&view, dir, &parts)) {
                        self.leases.grant_made(session, dir);
                    }
                }
            }
        }
        self.answer_followed(overlay, request, reply)
    }

    /// Executes one operation, or leaves everything as it is.
    fn apply_early(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        batch: &op::Batch,
        early: &Early,
        choices: &Choices,
    ) -> Result<(), Stop> {
        let numbers = self.number_taken(overlay, session, early)?;
        let Some(caller) = batch.callers.get(usize::from(early.caller)) else {
            return Err(Stop::Broken("an operation of nobody".to_string()));
        };
        let request = Request::from(early.operation.clone());
        // Where an inode is made its directory counts that before it is seen whether all is here.
        let parent = early.ino.and_then(|_| request.operation().dir());
        let parent: Option<Vec<u8>> = parent.map(|dir| keys::parts(self.config.shard, dir));
        let before = match &parent {
            Some(key) => overlay.get(key)?,
            None => None,
        };
        let locks = std::mem::take(&mut self.operations.locks);
        let context = Context {
            locks: &locks,
            session,
            caller,
            choices,
        };
        let mutated = ops::mutate(&mut self.txn(overlay), &context, &request);
        self.operations.locks = locks;
        let done = match mutated {
            Ok(Mutation::Done(_)) => Ok(()),
            Ok(Mutation::Plan(plan)) => self.perform_here(overlay, plan, choices)?,
            Err(stop) => Err(stop),
        };
        match done {
            Ok(()) => {
                if let Some(numbers) = numbers {
                    self.txn(overlay).put_numbers(session, &numbers);
                }
                Ok(())
            }
            Err(stop) => {
                if let Some((key, before)) = parent.zip(before)
                    && overlay.get(&key)?.as_ref() != Some(&before)
                {
                    overlay.put(key, before);
                }
                Err(stop)
            }
        }
    }

    /// The session's numbers without the one that the operation uses.
    fn number_taken(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        early: &Early,
    ) -> Result<Option<NumbersRecord>, Stop> {
        let Some(ino) = early.ino else {
            return Ok(None);
        };
        let mut numbers = self
            .txn(overlay)
            .view()
            .numbers(session)?
            .unwrap_or_default();
        match numbers.take(ino.serial()) {
            true => Ok(Some(numbers)),
            false => {
                let text = format!("{ino} is not the session's to use");
                Err(Refusal::Malformed(text).into())
            }
        }
    }

    /// Performs a plan whose steps are all here. A refusal comes back within; a broken invariant does not.
    fn perform_here(
        &mut self,
        overlay: &mut Overlay<'_>,
        plan: Plan,
        choices: &Choices,
    ) -> Result<Result<(), Stop>, Stop> {
        Ok(
            match self.ready(overlay, plan.steps, &plan.answer, choices) {
                Ok(Ready::Answered(_)) => Ok(()),
                Ok(Ready::Here(prepared)) => {
                    self.execute_here(overlay, &prepared, &plan.answer, choices)?;
                    Ok(())
                }
                Ok(Ready::Elsewhere(_)) => Err(Refusal::TryAgain.into()),
                Err(stop) => Err(stop),
            },
        )
    }

    /// A batch's answer with what is so now: grants that the session has, which are renewed, and the room on the disk.
    pub(crate) fn with_grants(
        &mut self,
        session: SessionId,
        mut result: Result<Reply, Refusal>,
    ) -> Result<Reply, Refusal> {
        if let Ok(Reply::Batch(reply)) = &mut result {
            reply.incarnation = self.leases.renew(session);
            reply.terms.is_low = self.is_low();
        }
        result
    }
}

/// The time that its session has chosen for an operation of two shards which it has answered under grants, and the
/// incarnation of these; `None` if the request is none.
pub(crate) fn early_choice(request: &mut Request) -> Option<(&mut Time, u64)> {
    match request {
        Request::MkdirAway(away) => Some((&mut away.time, away.incarnation)),
        Request::RmdirAway(away) => Some((&mut away.time, away.incarnation)),
        _ => None,
    }
}
