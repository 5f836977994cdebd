//! Locks of files: who has them, who waits, and that nobody gets one that somebody else still believes to
//! have.
//!
//! Locks are kept in memory, as opens are, and go with an inode when it moves. After a restart clients tell
//! theirs again (`Relock`). Until all have, none is given to anybody (*grace*): so which sessions to wait
//! for must survive the restart. That a session may have locks here is therefore on disk before it is
//! given the first one, and as long as it lives; which locks, and whether any, is not. A session that does
//! not come within [`SESSION_TIMEOUT`](pandofs_types::limits::SESSION_TIMEOUT) has lost them.
//!
//! A request is executed once although it is not recorded in the log: the last answer to each slot is kept
//! in memory, as long as the session lives. Otherwise a request that was left behind in a connection
//! that the client gave up could be read after the one by which it undid it, and lock what nobody unlocks.
//! After a restart no such connection is left.
//!
//! While an inode is on its way to another shard its locks are on their way, too: requests wait for the
//! end of that, and what a session that ends there leaves is given to nobody here.

use crate::commands::Commands;
use crate::port::{Input, Output, Ticket};
use crate::record::Record;
use crate::sessions::Holders;
use crate::shard::{Shard, view_of};
use crate::waiting::Until;
use hashbrown::HashMap;
use pandofs_api::{Adopt, Cause, Refusal, Reply, Request, RequestKey, ShardRequest, Step, op};
use pandofs_leases::file_locks::{Asked, Event, LockTable, Outcome, Owner, WaitId};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::{Locks, Stop, View, keys};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{CLOSING_WAIT, LOCK_WAIT, MAX_LOCKS_PER_MESSAGE, MAX_MOVED_LOCKS};
use pandofs_types::{FileLock, FsError, Ino, SessionId, ShardId, SlotId, Steady};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

type Answer = Result<Reply, Refusal>;

/// The machine of a shard's file locks: requests, sessions' ends and ticks in, [`Commands`] out.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    table: LockTable<Ticket>,
    /// The last answers to requests that change locks.
    answers: HashMap<SessionId, HashMap<SlotId, (u64, Answer)>>,
    /// Sessions that may have locks here. Of those that are missing it is not known which.
    holders: Holders,
    now: Steady,
    /// Files of which something was unlocked while they were on their way to another shard.
    stalled: BTreeSet<Ino>,
}

impl FileLocks {
    /// The state after a start: these sessions may have had locks.
    pub(crate) fn recovered(found: BTreeSet<SessionId>, now: Steady) -> FileLocks {
        let mut table = LockTable::default();
        table.hold(!found.is_empty());
        FileLocks {
            table,
            holders: Holders::recovered(found),
            now,
            ..FileLocks::default()
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.table.held()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Locks on this inode, with their sessions.
    pub(crate) fn of(&self, ino: Ino) -> impl Iterator<Item = (Ino, SessionId, FileLock)> {
        self.table.of(ino)
    }

    /// Inodes of these that have locks.
    pub(crate) fn locked<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> Vec<Ino> {
        inos.filter(|&&ino| self.table.knows(ino))
            .copied()
            .collect()
    }

    /// Whether inodes that have locks may not move now: they are too many, or not all told yet.
    pub(crate) fn keep<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> bool {
        self.holders.are_missing() || self.table.count(inos) > MAX_MOVED_LOCKS
    }

    fn remember(&mut self, key: RequestKey, answer: Answer) {
        let of_session = self.answers.entry(key.session).or_default();
        of_session.insert(key.slot, (key.sequence, answer));
    }

    /// The answer to a request that was executed.
    fn remembered(&self, key: RequestKey) -> Option<Answer> {
        let (sequence, answer) = self.answers.get(&key.session)?.get(&key.slot)?;
        match key.sequence.cmp(sequence) {
            std::cmp::Ordering::Less => Some(Err(Refusal::StaleSequence)),
            std::cmp::Ordering::Equal => Some(answer.clone()),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Looks whether a request can be executed now. `locks` are those of operations.
    ///
    /// # Errors
    /// `Refuse` for what is answered so, and otherwise what the request has to wait for.
    pub(crate) fn check(
        &self,
        view: &View<'_>,
        locks: &Locks,
        request: &ShardRequest,
    ) -> Result<(), Stop> {
        let lockable = |ino| {
            locks.check(&Lock::Inode(ino), None)?;
            view.inode(ino).map(|_| ())
        };
        // One that was executed is answered as it was, also if the inode is gone since.
        let changeable = |ino| match self.remembered(request.key) {
            Some(answer) => answer.map(|_| ()).map_err(Stop::Refuse),
            None => lockable(ino),
        };
        match &request.request {
            Request::SetLock(op::SetLock { ino, lock, .. }) => {
                changeable(*ino)?;
                valid(lock.is_valid())
            }
            Request::Unlock(op::Unlock { ino, range, .. }) => {
                changeable(*ino)?;
                valid(range.is_valid())
            }
            Request::GetLock(op::GetLock { ino, lock }) => {
                lockable(*ino)?;
                valid(lock.is_valid())
            }
            Request::Closing(op::Closing { ino, owners }) => {
                lockable(*ino)?;
                valid(owners.len() <= MAX_LOCKS_PER_MESSAGE)
            }
            Request::Relock(op::Relock { locks: told, .. }) => {
                valid(told.len() <= MAX_LOCKS_PER_MESSAGE)?;
                for (ino, lock) in told {
                    valid(lock.is_valid())?;
                    locks.check(&Lock::Inode(*ino), None)?;
                    view.stored_inode(*ino)?;
                }
                Ok(())
            }
            other => Err(Stop::Broken(format!("{other:?} is not about locks"))),
        }
    }

    /// Executes a request that was [checked](FileLocks::check).
    ///
    /// # Errors
    /// When the state cannot be read.
    pub(crate) fn request(
        &mut self,
        commands: &mut Commands,
        view: &View<'_>,
        locks: &Locks,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        let key = request.key;
        let session = key.session;
        if let Request::SetLock(_) | Request::Unlock(_) = &request.request
            && let Some(answer) = self.remembered(key)
        {
            commands.answer(ticket, answer, false);
            return Ok(());
        }
        match request.request {
            Request::SetLock(op::SetLock {
                ino,
                lock,
                blocking,
                wait_ms,
            }) => {
                if !self.holders.is_kept(session) {
                    self.keep_holder(commands, ticket, request);
                    return Ok(());
                }
                let wait = Duration::from_millis(wait_ms.into()).min(LOCK_WAIT);
                let asked = Asked {
                    id: wait_id(key),
                    lock,
                    ticket,
                    blocking,
                    at_once: wait.is_zero(),
                    until: self.now.after(wait),
                };
                let number = asked.lock.owner;
                let wanted = asked.lock;
                let outcome = self.table.ask(ino, asked);
                if outcome == Outcome::Parked {
                    let owner = Owner { session, number };
                    let holder = self.table.in_the_way(ino, owner, &wanted);
                    let cause =
                        holder.map_or(Cause::Returning, |session| Cause::FileLock { session });
                    commands.waits(ticket, cause);
                } else {
                    self.answer(commands, key, ticket, outcome);
                }
            }
            Request::Unlock(op::Unlock {
                ino,
                kind,
                owner: number,
                range,
            }) => {
                let owner = Owner { session, number };
                let answer = match self.table.unlock(ino, owner, kind, range) {
                    true => Ok(Reply::Done),
                    false => Err(FsError::NoLocks.into()),
                };
                self.remember(key, answer.clone());
                commands.answer(ticket, answer, false);
            }
            Request::GetLock(op::GetLock { ino, lock }) => {
                let number = lock.owner;
                let answer = if self.holders.are_missing() {
                    Err(Refusal::NotYet)
                } else {
                    let owner = Owner { session, number };
                    Ok(Reply::Lock(self.table.conflict(ino, owner, &lock)))
                };
                commands.answer(ticket, answer, false);
            }
            Request::Closing(op::Closing { ino, owners }) => {
                let owners = owners
                    .into_iter()
                    .map(|(kind, number)| (kind, Owner { session, number }));
                let until = self.now.after(CLOSING_WAIT);
                self.table.closing(ino, owners, until);
                commands.answer(ticket, Ok(Reply::Done), false);
            }
            Request::Relock(op::Relock { locks: told, last }) => {
                let lost = self.relock(view, session, told)?;
                commands.answer(ticket, Ok(Reply::LostLocks(lost)), false);
                if last {
                    let free = self.came(session);
                    self.wake(commands, locks, free);
                }
            }
            _ => {}
        }
        self.events(commands);
        Ok(())
    }

    /// Takes what a session tells again; gives the locks that it has lost.
    fn relock(
        &mut self,
        view: &View<'_>,
        session: SessionId,
        locks: Vec<(Ino, FileLock)>,
    ) -> Result<Vec<(Ino, FileLock)>, Stop> {
        let is_awaited = self.holders.is_missing(session);
        let mut lost = Vec::new();
        for (ino, lock) in locks {
            if view.stored_inode(ino)?.is_none() {
                continue;
            }
            let number = lock.owner;
            let owner = Owner { session, number };
            let has = self.table.holds(ino, owner, &lock)
                || (is_awaited && self.table.adopt(ino, owner, &lock));
            if !has {
                lost.push((ino, lock));
            }
        }
        Ok(lost)
    }

    /// A session that is not on disk as one that may have locks asks for one.
    fn keep_holder(&mut self, commands: &mut Commands, ticket: Ticket, request: ShardRequest) {
        let session = request.key.session;
        let input = Input::Request { ticket, request };
        commands.waits(ticket, Cause::Log);
        if commands
            .waiting
            .wait(Until::LockHolder(session), input)
            .is_some()
        {
            commands.answer(ticket, Err(Refusal::TryAgain), false);
        } else if !self.holders.is_being_kept(session) {
            let has = true;
            let record = commands.propose(&Record::LockHolder { session, has });
            self.holders.keep(session, record);
        }
    }

    /// All up to this record, which says that the session may have locks, is on disk.
    pub(crate) fn holder_reached_disk(
        &mut self,
        commands: &mut Commands,
        session: SessionId,
        record: u64,
    ) {
        if self.holders.reached_disk(session, record) {
            commands.release(Until::LockHolder(session));
        }
    }

    /// The session is gone, and its locks with it.
    pub(crate) fn session_gone(
        &mut self,
        commands: &mut Commands,
        locks: &Locks,
        session: SessionId,
    ) {
        self.answers.remove(&session);
        if self.holders.remove(session) {
            let has = false;
            commands.propose(&Record::LockHolder { session, has });
        }
        for input in commands.waiting.take(Until::LockHolder(session)) {
            if let Input::Request { ticket, .. } = input {
                commands.answer(ticket, Err(Refusal::TryAgain), false);
            }
        }
        let mut free = self.table.drop_session(session);
        free.extend(self.came(session));
        self.wake(commands, locks, free);
    }

    /// The session has said which locks it has, or is gone. If it was the last: inodes with somebody who waits.
    fn came(&mut self, session: SessionId) -> Vec<Ino> {
        if self.holders.came(session) {
            return self.all_came();
        }
        Vec::new()
    }

    fn all_came(&mut self) -> Vec<Ino> {
        self.table.hold(false);
        self.table.awaited()
    }

    /// Gives what is free to those who wait, unless the inode is on its way to another shard.
    fn wake(&mut self, commands: &mut Commands, locks: &Locks, inos: Vec<Ino>) {
        for ino in inos {
            if locks.check(&Lock::Inode(ino), None).is_ok() {
                self.table.wake(ino);
            } else {
                self.stalled.insert(ino);
            }
        }
        self.events(commands);
    }

    /// Inodes went to another shard, and their locks with them.
    pub(crate) fn moved(&mut self, commands: &mut Commands, inos: &[Ino], shard: ShardId) {
        for &ino in inos {
            for ticket in self.table.take(ino) {
                commands.answer(ticket, Err(Refusal::Moved { ino, shard }), false);
            }
        }
        self.events(commands);
    }

    /// Inodes came from another shard, with locks of sessions that the same record has on disk.
    pub(crate) fn adopt(&mut self, commands: &mut Commands, adopt: &Adopt) {
        for &(ino, session, ref lock) in &adopt.locks {
            let number = lock.owner;
            // Locks that do not go together are another server's fault, and one of them is lost.
            self.table.adopt(ino, Owner { session, number }, lock);
        }
        for session in holders_of(adopt) {
            // The record is durable before its coordinator is told that the locks are here.
            self.holders.add(session);
            commands.outputs.push(Output::Watch { session });
        }
    }

    pub(crate) fn tick(
        &mut self,
        commands: &mut Commands,
        locks: &Locks,
        now: Steady,
        grace_is_over: bool,
    ) {
        self.now = now;
        let mut free = Vec::new();
        if self.holders.are_missing() && grace_is_over {
            for session in self.holders.give_up_missing() {
                let has = false;
                commands.propose(&Record::LockHolder { session, has });
            }
            free = self.all_came();
        }
        // Not as soon as the operation has ended: its effects come last, among them that the inode is gone.
        free.extend(std::mem::take(&mut self.stalled));
        self.wake(commands, locks, free);
        if self.table.needs_ticks() {
            self.table.tick(now);
            self.events(commands);
        }
    }

    fn events(&mut self, commands: &mut Commands) {
        for event in self.table.take_events() {
            match event {
                Event::Over {
                    id,
                    ticket,
                    outcome,
                } => {
                    let key = RequestKey {
                        session: id.session,
                        slot: id.slot,
                        sequence: id.sequence,
                    };
                    self.answer(commands, key, ticket, outcome);
                }
                Event::NotYet { ticket } => commands.answer(ticket, Err(Refusal::NotYet), false),
                Event::Dropped { ticket } => commands.answer(ticket, Err(Refusal::TryAgain), false),
            }
        }
    }

    fn answer(
        &mut self,
        commands: &mut Commands,
        key: RequestKey,
        ticket: Ticket,
        outcome: Outcome,
    ) {
        let answer = match outcome {
            Outcome::Granted => Ok(Reply::Done),
            Outcome::Busy => Err(FsError::WouldBlock.into()),
            Outcome::Deadlock => Err(FsError::Deadlock.into()),
            Outcome::Full => Err(FsError::NoLocks.into()),
            Outcome::NotYet => {
                commands.answer(ticket, Err(Refusal::NotYet), false);
                return;
            }
            Outcome::Parked => unreachable!("who waits is not answered"),
        };
        self.remember(key, answer.clone());
        commands.answer(ticket, answer, false);
    }
}

impl Shard {
    pub(crate) fn lock_request(
        &mut self,
        overlay: &Overlay<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        let locks = &self.operations.locks;
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        match self.file_locks.check(&view, locks, &request) {
            Ok(()) => {}
            Err(Stop::Refuse(refusal)) => {
                self.commands.answer(ticket, Err(refusal), false);
                return Ok(());
            }
            Err(stop) => return self.put_off(ticket, request, stop),
        }
        // A key that has left memory since the check is read from disk: a request half done is not begun again.
        let view = view_of(&self.config, overlay, false);
        self.file_locks
            .request(&mut self.commands, &view, locks, ticket, request)
    }

    /// Applies that the session may have locks here, or has none any more.
    pub(crate) fn apply_lock_holder(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        has: bool,
    ) {
        let record = self.meta.applied;
        let kept = Input::LockHolderKept { session, record };
        let key = keys::lock_holder(self.config.shard, session);
        self.apply_holder(overlay, key, has.then(|| vec![1]), kept);
    }

    /// Stores under this key that a session may hold something, or that it does not any more. `kept` is handed back when
    /// that is on disk.
    pub(crate) fn apply_holder(
        &mut self,
        overlay: &mut Overlay<'_>,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
        kept: Input,
    ) {
        let Some(value) = value else {
            overlay.delete(key);
            return;
        };
        overlay.put(key, value);
        if !self.commands.replaying {
            self.commands.when_durable(kept);
        }
    }

    /// Inodes came from another shard.
    pub(crate) fn adopt_locks(&mut self, overlay: &mut Overlay<'_>, step: &Step) {
        let Step::Adopt(adopt) = step else {
            return;
        };
        for session in holders_of(adopt) {
            overlay.put(keys::lock_holder(self.config.shard, session), vec![1]);
        }
        if !self.commands.replaying {
            self.file_locks.adopt(&mut self.commands, adopt);
        }
    }

    pub(crate) fn recover_lock_holders(
        &mut self,
        overlay: &Overlay<'_>,
        now: Steady,
    ) -> Result<(), Stop> {
        let found = self.stored_holders(overlay, keys::Kind::LockHolder, |_| Ok(()))?;
        self.file_locks = FileLocks::recovered(found.into_keys().collect(), now);
        Ok(())
    }

    /// Sessions that the store has as ones that may hold something of this kind, and what it says of each.
    pub(crate) fn stored_holders<T>(
        &self,
        overlay: &Overlay<'_>,
        kind: keys::Kind,
        read: impl Fn(&[u8]) -> Result<T, Stop>,
    ) -> Result<BTreeMap<SessionId, T>, Stop> {
        let prefix = keys::prefix(kind, self.config.shard);
        let mut found = BTreeMap::new();
        view_of(&self.config, overlay, false).scan_prefix(&prefix, &mut |key, value| {
            let session = keys::parse_ino(key)
                .ok_or_else(|| Stop::Broken("the key of a session is short".to_string()))?;
            found.insert(SessionId(session.0), read(value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }
}

fn holders_of(adopt: &Adopt) -> BTreeSet<SessionId> {
    adopt.locks.iter().map(|(_, session, _)| *session).collect()
}

fn wait_id(key: RequestKey) -> WaitId {
    WaitId {
        session: key.session,
        slot: key.slot,
        sequence: key.sequence,
    }
}

fn valid(is_valid: bool) -> Result<(), Stop> {
    if is_valid {
        Ok(())
    } else {
        Err(Refusal::Malformed("that is no lock".to_owned()).into())
    }
}

#[cfg(test)]
mod tests;
