//! Locks of files: who has them, who waits, and that nobody gets one that somebody else still believes to
//! have.
//!
//! Locks are kept in memory, as opens are, and go with an inode when it moves. After a restart clients tell
//! theirs again (`Relock`). Until all have, none is given to anybody (*grace*): so which sessions to wait
//! for must survive the restart. That a session may have locks here is therefore on disk before it is
//! given the first one, and as long as it lives; which locks, and whether any, is not. Who does not come
//! within [`SESSION_TIMEOUT`](pandofs_types::limits::SESSION_TIMEOUT) has lost them.
//!
//! A request is executed once although it is not recorded in the log: the last answer to each slot is kept
//! in memory, as long as the session lives. Otherwise a request that was left behind in a connection
//! that the client gave up could be read after the one by which it undid it, and lock what nobody unlocks.
//! After a restart no such connection is left.
//!
//! While an inode is on its way to another shard its locks are on their way, too: requests wait for the
//! end of that, and what a session that ends there leaves is given to nobody here.

use crate::port::{Input, Output, Ticket};
use crate::record::Record;
use crate::shard::{Shard, view_of};
use crate::waiting::Until;
use hashbrown::HashMap;
use pandofs_api::{Refusal, Reply, Request, RequestKey, ShardRequest, Step, op};
use pandofs_locks::{Asked, Event, LockTable, Outcome, Owner, WaitId};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::{Stop, keys};
use pandofs_store::Overlay;
use pandofs_types::limits::{CLOSING_WAIT, LOCK_WAIT, MAX_LOCKS_PER_MESSAGE, MAX_MOVED_LOCKS};
use pandofs_types::{FileLock, FsError, Ino, SessionId, ShardId, SlotId, Steady};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

type Answer = Result<Reply, Refusal>;

#[derive(Debug, Default)]
pub struct FileLocks {
    table: LockTable<Ticket>,
    /// The last answers to requests that change locks.
    answers: HashMap<SessionId, HashMap<SlotId, (u64, Answer)>>,
    /// Sessions that are on disk as ones that may have locks here.
    kept: BTreeSet<SessionId>,
    /// Sessions that may have had locks before the restart and have not said which.
    missing: BTreeSet<SessionId>,
    now: Steady,
    /// Files of which something was unlocked while they were on their way to another shard.
    stalled: BTreeSet<Ino>,
}

impl FileLocks {
    pub fn held(&self) -> usize {
        self.table.held()
    }

    pub fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Locks on this inode, with their sessions.
    pub fn of(&self, ino: Ino) -> impl Iterator<Item = (Ino, SessionId, FileLock)> {
        self.table.of(ino)
    }

    /// Inodes of these that have locks.
    pub fn locked<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> Vec<Ino> {
        inos.filter(|&&ino| self.table.knows(ino))
            .copied()
            .collect()
    }

    /// Whether inodes that have locks may not move now: they are too many, or not all told yet.
    pub fn keep<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> bool {
        !self.missing.is_empty() || self.table.count(inos) > MAX_MOVED_LOCKS
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
}

impl Shard {
    pub(crate) fn lock_request(
        &mut self,
        overlay: &Overlay<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) -> Result<(), Stop> {
        let key = request.key;
        let checked = match &request.request {
            Request::SetLock(op::SetLock { ino, lock, .. }) => self
                .may_lock(overlay, key, *ino)
                .and_then(|()| valid(lock.is_valid())),
            Request::Unlock(op::Unlock { ino, range, .. }) => self
                .may_lock(overlay, key, *ino)
                .and_then(|()| valid(range.is_valid())),
            Request::GetLock(op::GetLock { ino, lock }) => self
                .lockable(overlay, *ino)
                .and_then(|()| valid(lock.is_valid())),
            Request::Closing(op::Closing { ino, owners }) => self
                .lockable(overlay, *ino)
                .and_then(|()| valid(owners.len() <= MAX_LOCKS_PER_MESSAGE)),
            Request::Relock(op::Relock { locks, .. }) => self.relockable(overlay, locks),
            other => Err(Stop::Broken(format!("{other:?} is not about locks"))),
        };
        match checked {
            Ok(()) => {}
            Err(Stop::Refuse(refusal)) => {
                self.answer(ticket, Err(refusal), false);
                return Ok(());
            }
            Err(stop) => return self.put_off(ticket, request, stop),
        }
        if let Request::SetLock(_) | Request::Unlock(_) = &request.request
            && let Some(answer) = self.file_locks.remembered(key)
        {
            self.answer(ticket, answer, false);
            return Ok(());
        }
        match request.request {
            Request::SetLock(op::SetLock {
                ino,
                lock,
                blocking,
                wait_ms,
            }) => {
                if !self.file_locks.kept.contains(&key.session) {
                    self.keep_lock_holder(Input::Request { ticket, request });
                    return Ok(());
                }
                let wait = Duration::from_millis(wait_ms.into()).min(LOCK_WAIT);
                let asked = Asked {
                    id: wait_id(key),
                    lock,
                    ticket,
                    blocking,
                    at_once: wait.is_zero(),
                    until: self.file_locks.now.after(wait),
                };
                let outcome = self.file_locks.table.ask(ino, asked);
                if outcome != Outcome::Parked {
                    self.lock_answered(key, ticket, outcome);
                }
            }
            Request::Unlock(op::Unlock {
                ino,
                kind,
                owner: number,
                range,
            }) => {
                let session = key.session;
                let owner = Owner { session, number };
                let answer = match self.file_locks.table.unlock(ino, owner, kind, range) {
                    true => Ok(Reply::Done),
                    false => Err(FsError::NoLocks.into()),
                };
                self.file_locks.remember(key, answer.clone());
                self.answer(ticket, answer, false);
            }
            Request::GetLock(op::GetLock { ino, lock }) => {
                let owner = Owner {
                    session: key.session,
                    number: lock.owner,
                };
                let answer = if self.file_locks.missing.is_empty() {
                    Ok(Reply::Lock(
                        self.file_locks.table.conflict(ino, owner, &lock),
                    ))
                } else {
                    Err(Refusal::NotYet)
                };
                self.answer(ticket, answer, false);
            }
            Request::Closing(op::Closing { ino, owners }) => {
                let session = key.session;
                let owners = owners
                    .into_iter()
                    .map(|(kind, number)| (kind, Owner { session, number }));
                let until = self.file_locks.now.after(CLOSING_WAIT);
                self.file_locks.table.closing(ino, owners, until);
                self.answer(ticket, Ok(Reply::Done), false);
            }
            Request::Relock(op::Relock { locks, last }) => {
                let lost = self.relock(overlay, key.session, locks)?;
                self.answer(ticket, Ok(Reply::LostLocks(lost)), false);
                if last {
                    self.has_told(key.session);
                }
            }
            _ => {}
        }
        self.lock_events();
        Ok(())
    }

    /// Whether the inode is here, and stays.
    fn lockable(&self, overlay: &Overlay<'_>, ino: Ino) -> Result<(), Stop> {
        self.locks.check(&Lock::Inode(ino), None)?;
        view_of(&self.config, overlay, self.goes_by_memory())
            .inode(ino)
            .map(|_| ())
    }

    /// The same for a request that changes locks: one that was executed is answered as it was, also if the
    /// inode is gone since.
    fn may_lock(&self, overlay: &Overlay<'_>, key: RequestKey, ino: Ino) -> Result<(), Stop> {
        match self.file_locks.remembered(key) {
            Some(answer) => answer.map(|_| ()).map_err(Stop::Refuse),
            None => self.lockable(overlay, ino),
        }
    }

    /// Whether all inodes are read and stay.
    fn relockable(&self, overlay: &Overlay<'_>, locks: &[(Ino, FileLock)]) -> Result<(), Stop> {
        valid(locks.len() <= MAX_LOCKS_PER_MESSAGE)?;
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        for (ino, lock) in locks {
            valid(lock.is_valid())?;
            self.locks.check(&Lock::Inode(*ino), None)?;
            view.stored_inode(*ino)?;
        }
        Ok(())
    }

    /// Takes what a session tells again; gives the locks that it has lost.
    fn relock(
        &mut self,
        overlay: &Overlay<'_>,
        session: SessionId,
        locks: Vec<(Ino, FileLock)>,
    ) -> Result<Vec<(Ino, FileLock)>, Stop> {
        let is_awaited = self.file_locks.missing.contains(&session);
        let mut lost = Vec::new();
        for (ino, lock) in locks {
            // They were read just now, and what is half done is not begun again.
            let view = view_of(&self.config, overlay, false);
            if view.stored_inode(ino)?.is_none() {
                continue;
            }
            let number = lock.owner;
            let owner = Owner { session, number };
            let table = &mut self.file_locks.table;
            let has =
                table.holds(ino, owner, &lock) || (is_awaited && table.adopt(ino, owner, &lock));
            if !has {
                lost.push((ino, lock));
            }
        }
        Ok(lost)
    }

    /// The session has said which locks it has, or is gone.
    fn has_told(&mut self, session: SessionId) {
        if self.file_locks.missing.remove(&session) && self.file_locks.missing.is_empty() {
            self.all_have_told();
        }
    }

    fn all_have_told(&mut self) {
        self.file_locks.table.hold(false);
        let awaited = self.file_locks.table.awaited();
        self.wake(awaited);
    }

    /// A request for a lock of a session that is not on disk as one that has some.
    fn keep_lock_holder(&mut self, input: Input) {
        let Input::Request { request, .. } = &input else {
            unreachable!("only requests ask for locks");
        };
        let session = request.key.session;
        let until = Until::LockHolder(session);
        let is_first = !self.waiting.has(until);
        self.wait(until, input);
        if is_first && self.waiting.has(until) {
            let has = true;
            self.propose(&Record::LockHolder { session, has });
        }
    }

    pub(crate) fn apply_lock_holder(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        has: bool,
    ) {
        let here = self.config.shard;
        if !has {
            overlay.delete(keys::lock_holder(here, session));
            return;
        }
        overlay.put(keys::lock_holder(here, session), vec![1]);
        if !self.replaying {
            self.when_durable(Input::LockHolderKept { session });
        }
    }

    pub(crate) fn lock_holder_kept(&mut self, session: SessionId) {
        if self.waiting.has(Until::LockHolder(session)) {
            self.file_locks.kept.insert(session);
            self.waiting.release(Until::LockHolder(session));
        }
    }

    pub(crate) fn lock_holder_gone(&mut self, session: SessionId) {
        self.file_locks.answers.remove(&session);
        let early = self.waiting.take(Until::LockHolder(session));
        if self.file_locks.kept.remove(&session) || !early.is_empty() {
            let has = false;
            self.propose(&Record::LockHolder { session, has });
        }
        for input in early {
            if let Input::Request { ticket, .. } = input {
                self.answer(ticket, Err(Refusal::TryAgain), false);
            }
        }
        let unlocked = self.file_locks.table.drop_session(session);
        self.wake(unlocked);
        self.has_told(session);
    }

    /// Gives what is free to those who wait, unless the inode is on its way to another shard.
    fn wake(&mut self, inos: Vec<Ino>) {
        for ino in inos {
            if self.locks.check(&Lock::Inode(ino), None).is_err() {
                self.file_locks.stalled.insert(ino);
            } else {
                self.file_locks.table.wake(ino);
            }
        }
        self.lock_events();
    }

    /// Inodes went to another shard, and their locks with them.
    pub(crate) fn locks_moved(&mut self, inos: &[Ino], shard: ShardId) {
        for &ino in inos {
            for ticket in self.file_locks.table.take(ino) {
                self.answer(ticket, Err(Refusal::Moved { ino, shard }), false);
            }
        }
        self.lock_events();
    }

    /// Inodes came from another shard.
    pub(crate) fn adopt_locks(&mut self, overlay: &mut Overlay<'_>, step: &Step) {
        let Step::Adopt(adopt) = step else {
            return;
        };
        let here = self.config.shard;
        let sessions: BTreeSet<_> = adopt.locks.iter().map(|(_, session, _)| *session).collect();
        for &session in &sessions {
            overlay.put(keys::lock_holder(here, session), vec![1]);
        }
        if self.replaying {
            return;
        }
        for &(ino, session, ref lock) in &adopt.locks {
            let number = lock.owner;
            // Locks that do not go together are another server's fault, and one of them is lost.
            self.file_locks
                .table
                .adopt(ino, Owner { session, number }, lock);
        }
        for session in sessions {
            self.file_locks.kept.insert(session);
            self.push_output(Output::Watch { session });
        }
    }

    pub(crate) fn recover_lock_holders(
        &mut self,
        overlay: &Overlay<'_>,
        now: Steady,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let prefix = keys::prefix(keys::Kind::LockHolder, config.shard);
        let mut found = BTreeSet::new();
        view_of(&config, overlay, false).scan_prefix(&prefix, &mut |key, _| {
            let session = keys::parse_ino(key)
                .ok_or_else(|| Stop::Broken("a lock_holder's key is short".to_string()))?;
            found.insert(SessionId(session.0));
            Ok(ControlFlow::Continue(()))
        })?;
        self.file_locks.table.hold(!found.is_empty());
        self.file_locks.kept = found.clone();
        self.file_locks.missing = found;
        self.file_locks.now = now;
        Ok(())
    }

    pub(crate) fn tick_file_locks(&mut self, now: Steady) {
        self.file_locks.now = now;
        if !self.file_locks.missing.is_empty() && self.grace.is_over() {
            for session in std::mem::take(&mut self.file_locks.missing) {
                self.file_locks.kept.remove(&session);
                let has = false;
                self.propose(&Record::LockHolder { session, has });
            }
            self.all_have_told();
        }
        // Not as soon as the operation has ended: its effects come last, among them that the inode is gone.
        let stalled = std::mem::take(&mut self.file_locks.stalled);
        self.wake(stalled.into_iter().collect());
        if self.file_locks.table.needs_ticks() {
            self.file_locks.table.tick(now);
            self.lock_events();
        }
    }

    fn lock_events(&mut self) {
        for event in self.file_locks.table.take_events() {
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
                    self.lock_answered(key, ticket, outcome);
                }
                Event::NotYet { ticket } => self.answer(ticket, Err(Refusal::NotYet), false),
                Event::Dropped { ticket } => self.answer(ticket, Err(Refusal::TryAgain), false),
            }
        }
    }

    fn lock_answered(&mut self, key: RequestKey, ticket: Ticket, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Granted => Ok(Reply::Done),
            Outcome::Busy => Err(FsError::WouldBlock.into()),
            Outcome::Deadlock => Err(FsError::Deadlock.into()),
            Outcome::Full => Err(FsError::NoLocks.into()),
            Outcome::NotYet => {
                self.answer(ticket, Err(Refusal::NotYet), false);
                return;
            }
            Outcome::Parked => unreachable!("who waits is not answered"),
        };
        self.file_locks.remember(key, answer.clone());
        self.answer(ticket, answer, false);
    }
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
