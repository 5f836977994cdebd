//! Intake of a shard: reads are answered, mutations proposed, messages dispatched.

use crate::apply::left_to_follow;
use crate::batch::{brought_back, early_choice};
use crate::by_path::{knowing, opened_by, told};
use crate::leases::{Cleared, keys_of};
use crate::notes::Note;
use crate::port::{Environment, Input, Output, Ticket};
use crate::record::Record;
use crate::shard::{Shard, ShardError, broken, view_of};
use crate::waiting::Until;
use pandofs_api::{Cause, NewDir, Refusal, Reply, Request, RequestKey, ShardRequest, Step, op};
use pandofs_namespace::{Choices, Context, Stop, View, ops, split, steps};
use pandofs_placement::slot_array;
use pandofs_storage::store::Overlay;
use pandofs_types::limits::MAX_GROUPS;
use pandofs_types::{FsError, ShardId, TxId};

impl Shard {
    /// Takes something in. Afterwards there may be proposals and outputs.
    ///
    /// # Errors
    /// When the stored state cannot be read or is broken; the process must stop.
    pub fn submit(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        input: Input,
    ) -> Result<(), ShardError> {
        let shard = self.config.shard;
        self.commands.now = env.steady;
        self.leases.time(env.steady);
        self.loads.placer.holds(env.held);
        let done = match input {
            Input::Warmed { input, keys } => self.submit_warmed(overlay, env, *input, keys),
            Input::Request { ticket, request } => self.request(overlay, env, ticket, request),
            Input::Peer(message) => self.peer(overlay, env, message),
            Input::DataDone { ticket, reply } => {
                self.reclaims.data_done(&mut self.commands, ticket, &reply);
                Ok(())
            }
            Input::SessionGone { session, ended } => {
                self.session_gone(session, ended);
                Ok(())
            }
            Input::Space { low } => {
                self.loads.disk_low = low;
                Ok(())
            }
            Input::TakesLeases { session } => {
                self.leases.takes(&mut self.commands, session);
                Ok(())
            }
            Input::Recalled { session, number } => {
                self.leases.answered(session, number);
                Ok(())
            }
            Input::Loads(told) => {
                self.loads.placer.hear(&self.config.map, &told);
                Ok(())
            }
            Input::LockHolderKept { session, record } => {
                let commands = &mut self.commands;
                self.file_locks
                    .holder_reached_disk(commands, session, record);
                Ok(())
            }
            Input::LeaseholderKept { session, record } => {
                let commands = &mut self.commands;
                self.leases.holder_reached_disk(commands, session, record);
                Ok(())
            }
            Input::GrantholderKept { session, record } => {
                let commands = &mut self.commands;
                self.leases
                    .grantholder_reached_disk(commands, session, record);
                Ok(())
            }
            Input::GrantsOver { session } => {
                self.leases.grants_are_over(session);
                Ok(())
            }
            Input::StripingKept { ino, record } => {
                self.stripings.reached_disk(ino, record);
                Ok(())
            }
            Input::Tick => self.tick(overlay, env),
        };
        done.and_then(|()| self.submit_ready(overlay, env))
            .map_err(|stop| broken(shard, stop))
    }

    /// Submits again what waited and may go on.
    pub(crate) fn submit_ready(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
    ) -> Result<(), Stop> {
        self.leases.events(&mut self.commands);
        for input in self.commands.waiting.take_ready() {
            match input {
                Input::Request { ticket, request } => {
                    self.note_goes_on(ticket, request.key);
                    self.request_again(overlay, env, ticket, request)?;
                }
                Input::Peer(message) => self.peer(overlay, env, message)?,
                other => unreachable!("{other:?} does not wait"),
            }
        }
        self.leases.events(&mut self.commands);
        Ok(())
    }

    pub(crate) fn request(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        if request.shard != self.config.shard {
            let text = format!("shard {} asked for {}", self.config.shard, request.shard);
            self.answer(ticket, Err(Refusal::Malformed(text)), false);
            return Ok(());
        }
        if request.caller.groups.len() > MAX_GROUPS {
            let text = format!("a caller has {MAX_GROUPS} groups at most");
            self.answer(ticket, Err(Refusal::Malformed(text)), false);
            return Ok(());
        }
        let session = request.key.session;
        match &request.request {
            Request::Sync(op::Sync) => {
                self.answer(ticket, Ok(Reply::Done), true);
                return Ok(());
            }
            Request::Release(op::Release { inos }) => {
                let left = self.close(overlay, session, inos)?;
                let reply = match left.is_empty() {
                    true => Reply::Done,
                    false => Reply::NotClosed(left),
                };
                self.answer(ticket, Ok(reply), false);
                return Ok(());
            }
            Request::Reopen(_) => return self.reopen(overlay, ticket, request),
            &Request::Spread(op::Spread {
                dir,
                entries_per_second,
            }) => {
                self.spread(ticket, dir, entries_per_second, env.steady);
                return Ok(());
            }
            _ => {}
        }
        if !request.request.is_mutation() {
            return self.read(overlay, env, ticket, request);
        }
        self.sessions.answers.saw(session, env.steady);
        if let Some(refusal) = self.sessions.answers.refusal(request.key) {
            // The first answer may wait for the disk still, and never come as its connection broke.
            let result = Err(refusal);
            let durable = self.stripings.are_told(&request.request, &result);
            self.answer(ticket, result, durable);
            return Ok(());
        }
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        let kept = match view.slot(session, request.key.slot) {
            Ok(kept) => kept,
            Err(stop) => return self.put_off(ticket, request, stop),
        };
        if let Some(kept) = kept {
            if kept.sequence == request.key.sequence {
                let view = view_of(&self.config, overlay, false);
                if let Some(ino) = left_to_follow(&view, &request.request)?
                    && let Ok(reply) = kept.result
                {
                    // It was applied before a restart and the data objects are still to follow: after
                    // an answer the client would write to them, and they be truncated or filled then.
                    if self.is_first(request.key, ticket) {
                        self.commands.waits(ticket, Cause::Objects);
                        self.reclaims.wait_for_objects(ino, request, reply);
                    }
                    return Ok(());
                }
                // Its effect may not be on disk yet, and a distributed operation may have promised it with
                // its first answer.
                let result = self.with_grants(session, kept.result);
                self.answer(ticket, result, true);
                return Ok(());
            }
            if kept.sequence > request.key.sequence {
                self.answer(ticket, Err(Refusal::StaleSequence), false);
                return Ok(());
            }
        }
        if !self.is_first(request.key, ticket) {
            return Ok(());
        }
        if self.operations.are_inherited_from(request.key) {
            // It waits for the end of the operation that it began before the restart. Were it submitted
            // again, the old one's end could be answered with "try again" while the new one goes on.
            return Ok(());
        }
        self.request_again(overlay, env, ticket, request)
    }

    /// Notes that a request waits no longer, which may have come again since it began to.
    fn note_goes_on(&mut self, ticket: Ticket, key: RequestKey) {
        let ticket = self.sessions.answers.ticket(key).unwrap_or(ticket);
        self.commands.goes_on(ticket);
    }

    /// Whether a mutation is new rather than a repetition of one under way.
    fn is_first(&mut self, key: RequestKey, ticket: Ticket) -> bool {
        let last = self.sessions.answers.begin(key, ticket);
        if let Some(last) = last {
            self.commands.notes.add(Note::Again(last, ticket));
            self.commands
                .outputs
                .push(Output::Replaced { ticket: last });
        }
        last.is_none()
    }

    /// Has a request wait that cannot go on, for the end of an operation or for a key that is not in memory, or answers
    /// that the place where its key is stored cannot be read.
    pub(crate) fn put_off(
        &mut self,
        ticket: Ticket,
        request: ShardRequest,
        stop: Stop,
    ) -> Result<(), Stop> {
        match stop {
            Stop::Locked(tx) => self.wait_for(tx, Input::Request { ticket, request }),
            Stop::Cold(key) => self.warm(key, Input::Request { ticket, request }),
            Stop::Store(error) if error.is_of_the_place() => {
                self.commands
                    .outputs
                    .push(Output::Unreadable { ticket, error });
            }
            stop => return Err(stop),
        }
        Ok(())
    }

    /// A request that is known to be new.
    fn request_again(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        ticket: Ticket,
        mut request: ShardRequest,
    ) -> Result<(), Stop> {
        if !request.request.is_mutation() {
            return self.read(overlay, env, ticket, request);
        }
        match self.fill_in(overlay, &mut request) {
            Ok(()) => {}
            Err(Stop::Refuse(refusal)) => {
                self.answer_request(&request, Err(refusal));
                return Ok(());
            }
            Err(stop) => return self.put_off_new(ticket, request, stop),
        }
        if let Some(tx) = self.still_unseen(ticket, &request.request) {
            self.wait_for(tx, Input::Request { ticket, request });
            return Ok(());
        }
        if matches!(request.request, Request::Batch(_)) {
            return self.submit_batch(overlay, env, ticket, request);
        }
        let early = early_choice(&mut request.request);
        let is_early = early.is_some();
        if let Some((time, incarnation)) = early {
            *time = brought_back(*time, env.now);
            if !self.leases.are_in_force(request.key.session, incarnation) {
                self.answer_request(&request, Err(FsError::Stale.into()));
                return Ok(());
            }
        }
        if !self.end_grants(ticket, &request) {
            return Ok(());
        }
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        match ops::open_name::finds(&view, &request.request) {
            // Each time that it comes it is looked at anew, as any request is that changes nothing.
            Ok(true) => {
                let last = self.sessions.answers.forget(request.key);
                return self.answer_in(overlay, last.unwrap_or(ticket), request);
            }
            Ok(false) | Err(Stop::Refuse(_)) => {}
            Err(stop) => return self.put_off_new(ticket, request, stop),
        }
        let config = self.config.clone();
        let view = view_of(&config, overlay, self.goes_by_memory());
        let random = (env.random)();
        let mut choices = Choices {
            time: env.now,
            random,
            placing: self.placing(&view, &request.request, random),
            alone: self.is_alone(&request),
            ..Choices::default()
        };
        let context = self.context(&request, &choices);
        let checked = ops::check(&view, &context, &request.request).and_then(|checked| {
            if !checked.adapts {
                choices.placing = None;
            }
            let plan = checked.plan;
            if let Some(plan) = &plan {
                self.choose(&view, &plan.steps, &mut choices)?;
            }
            let operation = ops::operation(&request.request);
            // A request that waits for the end of an operation, or for a key, comes here again and may be
            // refused then; one with a record was taken on.
            if self.loads.disk_low && operation.needs_space(&view)? {
                return Err(FsError::NoSpace.into());
            }
            if let Some(server) = operation.fills(&view)?
                && self.reclaims.is_full(server, env.steady)
            {
                return Err(FsError::NoSpace.into());
            }
            let nothing = operation.changes_nothing(&view, &choices)?;
            let touched = match nothing {
                true => Some(Vec::new()),
                false => self
                    .leases
                    .touched(&view, &request.request, plan.as_ref(), &choices)?,
            };
            Ok((plan, nothing, touched))
        });
        match checked {
            Ok((_, true, _)) => self.answer_request(&request, Ok(Reply::Done)),
            Ok((_, false, None)) => self.wait(Until::Applied, Input::Request { ticket, request }),
            Ok((plan, false, Some(touched))) => {
                // An operation answered under a grant passes the gate: the last step waits for the grant's end, and its
                // holder for all that it has answered.
                if let Some(plan) = plan
                    && !is_early
                    && plan
                        .steps
                        .iter()
                        .any(|(shard, _)| *shard != self.config.shard)
                    && let Some(dir) = self.gate_of(&plan.steps)
                {
                    let input = Input::Request { ticket, request };
                    self.wait(Until::Gate(dir), input);
                    return Ok(());
                }
                let session = request.key.session;
                let cleared = match is_early {
                    true => self.leases.clear_batch(&touched, session),
                    false => self.leases.clear(&touched, knowing(&request)),
                };
                if cleared != Cleared::Yes {
                    self.put_aside(&cleared, Input::Request { ticket, request });
                    return Ok(());
                }
                self.sessions.opens.will_close(&choices.closed);
                if let Request::Open(op::Open { ino, .. }) = request.request {
                    self.sessions.opens.will_open(ino);
                }
                self.loads.adapts |= choices.placing.is_some();
                let age = self.operations.ages.remove(&request.key);
                let record = Record::Request {
                    request: Box::new(request),
                    choices,
                    age,
                };
                self.propose_change(&record, keys_of(touched));
            }
            Err(Stop::Refuse(refusal)) => self.answer_request(&request, Err(refusal)),
            Err(Stop::SameFile) => {
                let text = "a plan does not look at the new name".to_string();
                return Err(Stop::Broken(text));
            }
            Err(stop) => return self.put_off_new(ticket, request, stop),
        }
        Ok(())
    }

    /// As [`Shard::put_off`], for a mutation that is known to be new.
    pub(crate) fn put_off_new(
        &mut self,
        ticket: Ticket,
        request: ShardRequest,
        stop: Stop,
    ) -> Result<(), Stop> {
        let last = match stop {
            // It is looked at again as a new request, or was answered.
            Stop::Cold(_) | Stop::Store(_) => self.sessions.answers.forget(request.key),
            _ => None,
        };
        self.put_off(last.unwrap_or(ticket), request, stop)
    }

    fn read(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        ticket: Ticket,
        mut request: ShardRequest,
    ) -> Result<(), Stop> {
        if request.request.operation().is_lock() {
            return self.lock_request(overlay, ticket, request);
        }
        match self.fill_in(overlay, &mut request) {
            Ok(()) => {}
            Err(Stop::Refuse(refusal)) => {
                self.answer_read(ticket, &request, Err(refusal));
                return Ok(());
            }
            Err(stop) => return self.put_off(ticket, request, stop),
        }
        if let Some(tx) = self.still_unseen(ticket, &request.request) {
            self.wait_for(tx, Input::Request { ticket, request });
            return Ok(());
        }
        match request.request {
            Request::Grant(op::Grant { dir }) => {
                return self.grant(overlay, env, ticket, request, dir);
            }
            Request::BeginGrants(op::BeginGrants) => {
                self.begin_grants(env, ticket, request);
                return Ok(());
            }
            Request::Renew(op::Renew { incarnation }) => {
                self.renew(ticket, request.key, incarnation);
                return Ok(());
            }
            _ => {}
        }
        if !self.end_grants(ticket, &request) {
            return Ok(());
        }
        self.answer_in(overlay, ticket, request)
    }

    /// Answers a request that changes nothing, if no grant that others have is in the way.
    pub(crate) fn answer_in(
        &mut self,
        overlay: &Overlay<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        let choices = Choices::default();
        match ops::read(&view, &self.context(&request, &choices), &request.request) {
            Ok(mut reply) => {
                if !self.end_grants_in(ticket, &request, &mut reply) {
                    return Ok(());
                }
                if let Some(ino) = opened_by(&request.request, &reply) {
                    if self.sessions.opens.is_to_close(ino) {
                        // The check of an unlink about to be applied has found that nobody has the file open.
                        self.wait(Until::Applied, Input::Request { ticket, request });
                        return Ok(());
                    }
                    self.sessions.opens.open(ino, request.key);
                }
                self.answer_read(ticket, &request, Ok(reply));
            }
            Err(Stop::Refuse(refusal)) => self.answer_read(ticket, &request, Err(refusal)),
            Err(stop) => return self.put_off(ticket, request, stop),
        }
        Ok(())
    }

    /// An operation that a reader of a directory waits for: its client may have its answer, and this
    /// shard not yet have heard of the decision. The reader waits for those that were under way when it
    /// came, and not for others that begin meanwhile, so that it is served in the busiest directory. So
    /// does who sets the directory's modification time, which such an operation would change again.
    fn still_unseen(&mut self, ticket: Ticket, request: &Request) -> Option<TxId> {
        let (dir, from) = request.operation().lists()?;
        if self.operations.locks.is_empty() && self.operations.unseen.is_empty() {
            return None;
        }
        let me = self.config.shard;
        let known = self.operations.unseen.remove(&ticket);
        let mut left = known.unwrap_or_else(|| self.operations.locks.unseen(dir, from, me));
        left.retain(|tx| self.operations.locks.holds(*tx));
        let first = left.first().copied();
        if first.is_some() {
            self.operations.unseen.insert(ticket, left);
        }
        first
    }

    /// Context of a request besides the stored state.
    pub(crate) fn context<'a>(
        &'a self,
        request: &'a ShardRequest,
        choices: &'a Choices,
    ) -> Context<'a> {
        Context {
            locks: &self.operations.locks,
            session: request.key.session,
            caller: &request.caller,
            choices,
        }
    }

    /// Whether nobody but the requester has the file open that is given a size.
    fn is_alone(&self, request: &ShardRequest) -> bool {
        match &request.request {
            Request::SetAttr(op::SetAttr { ino, set }) if set.size.is_some() => {
                !self
                    .sessions
                    .opens
                    .is_open_by_others(*ino, request.key.session)
                    && !self.may_be_open_unknown(*ino)
            }
            _ => false,
        }
    }

    /// Makes the choices that the steps on this shard need.
    pub(crate) fn choose(
        &self,
        view: &View<'_>,
        steps_of_plan: &[(ShardId, Step)],
        choices: &mut Choices,
    ) -> Result<(), Stop> {
        for (shard, step) in steps_of_plan {
            if *shard != self.config.shard {
                continue;
            }
            if let Some(ino) = steps::of(step).victim(view)?
                && !self.sessions.opens.is_open(ino)
                // It is opened and cut by a record before the one that is to take its last name.
                && !self.sessions.opens.is_to_open(ino)
                && view.stored_inode(ino)?.is_some()
                && !self.may_be_open_unknown(ino)
            {
                choices.closed.push(ino);
            }
            if let Step::NewDir(new) = step {
                choices.slots = self.slots_of_new_dir(view, new, choices.random);
            }
        }
        Ok(())
    }

    fn slots_of_new_dir(&self, view: &View<'_>, new: &NewDir, salt: u64) -> Vec<ShardId> {
        let map = &self.config.map;
        let initial = new
            .settings
            .initial_partitions
            .unwrap_or(map.settings.initial_partitions);
        if initial <= 1 {
            return Vec::new();
        }
        let count = split::slot_count(view, new.settings.max_partitions).max(initial);
        slot_array(map, self.config.shard, count, salt)
    }

    /// Answers a mutation where its last repetition came from.
    pub(crate) fn answer_request(
        &mut self,
        request: &ShardRequest,
        result: Result<Reply, Refusal>,
    ) {
        if let Some(ticket) = self.sessions.answers.forget(request.key) {
            let result = result.map_err(|refusal| told(&request.request, refusal));
            self.count_by_path(&request.request, &result);
            if let Err(refusal) = &result {
                self.sessions.answers.refuse(request.key, refusal);
            }
            let durable = result.is_ok() && self.config.sync_every_batch
                || self.stripings.are_told(&request.request, &result);
            let result = self.with_grants(request.key.session, result);
            self.answer(ticket, result, durable);
        }
    }

    /// The same with what it leases: the answer is as the state is now.
    pub(crate) fn answer_current(
        &mut self,
        request: &ShardRequest,
        result: Result<Reply, Refusal>,
        durable: bool,
    ) {
        if let Some(ticket) = self.sessions.answers.forget(request.key) {
            self.count_by_path(&request.request, &result);
            let durable = durable || self.stripings.are_told(&request.request, &result);
            let leased = self.lease(request, &result);
            let result = self.with_grants(request.key.session, result);
            self.commands.outputs.push(Output::Answer {
                ticket,
                result,
                leased,
                durable,
            });
        }
    }

    fn answer_read(
        &mut self,
        ticket: Ticket,
        request: &ShardRequest,
        result: Result<Reply, Refusal>,
    ) {
        self.count_by_path(&request.request, &result);
        let durable = self.stripings.are_told(&request.request, &result);
        let leased = self.lease(request, &result);
        self.commands.outputs.push(Output::Answer {
            ticket,
            result,
            leased,
            durable,
        });
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<Reply, Refusal>, durable: bool) {
        self.commands.answer(ticket, result, durable);
    }

    fn tick(&mut self, overlay: &Overlay<'_>, env: &mut Environment<'_>) -> Result<(), Stop> {
        let now = env.steady;
        let due: Vec<_> = self
            .operations
            .retries
            .range(..(now, 0))
            .map(|(at, _)| *at)
            .collect();
        for at in due {
            if let Some((input, age)) = self.operations.retries.remove(&at)
                && let Input::Request { ticket, request } = input
            {
                self.note_goes_on(ticket, request.key);
                self.operations.ages.insert(request.key, age);
                self.request_again(overlay, env, ticket, request)?;
            }
        }
        self.resend_commits(now, false);
        self.sessions.grace.tick(now);
        self.tick_splits(overlay, env)?;
        let (sessions, locks) = (&mut self.sessions, &self.operations.locks);
        self.reclaims.tick(&mut self.commands, sessions, locks);
        self.tick_map_notices(now);
        let grace_is_over = self.sessions.grace.is_over();
        let locks = &self.operations.locks;
        self.file_locks
            .tick(&mut self.commands, locks, now, grace_is_over);
        self.leases.tick(&mut self.commands);
        let retention = pandofs_types::limits::SLOT_RETENTION;
        for session in self.sessions.answers.silent_since(now.before(retention)) {
            self.sessions.answers.drop_session(session);
            self.propose(&Record::ExpireSession { session });
        }
        Ok(())
    }
}
