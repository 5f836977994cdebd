//! File locks, shared with all clients.
//!
//! The session remembers its locks, to register them again with a restarted server: a lock that is
//! about to be given up is forgotten before the server is asked to take it back, and one that was
//! given is remembered only if the server is still the one that gave it, so that registrations are
//! never more than what the server gave.
//! A server that has heard nothing of the session for `SESSION_TIMEOUT` has given its locks to
//! others, and refuses the registration. Programs that hold them cannot be asked to stop, but the
//! open files through which they locked are spoilt: each further use is an input/output error.

use crate::call::Call;
use crate::cancellation;
use crate::core::Core;
use crate::error::{ClientError, Failure, Result};
use crate::limits::DOUBTFUL_SILENCE;
use crate::slots::{Slot, Slots};
use crate::{Client, Session};
use pandofs_api::{Reply, Request, RequestKey, op};
use pandofs_session::LockOwner;
use pandofs_session::Target;
use pandofs_types::limits::LOCK_WAIT;
use pandofs_types::{Credentials, FileLock, FsError, Ino, LockKind, LockRange, SessionId};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The session's locks, shared by its threads.
#[derive(Debug)]
pub(crate) struct Locks {
    locks: Mutex<pandofs_session::Locks>,
    /// True if there ever was a lock.
    used: AtomicBool,
    /// True if a lock was ever lost.
    any_lost: AtomicBool,
    /// Of requests that wait.
    slots: Slots,
}

impl Locks {
    pub(crate) fn new(session: SessionId, slots: Range<u16>) -> Locks {
        Locks {
            locks: Mutex::new(pandofs_session::Locks::new(session)),
            used: AtomicBool::new(false),
            any_lost: AtomicBool::new(false),
            slots: Slots::new(slots),
        }
    }

    fn lock(&self) -> MutexGuard<'_, pandofs_session::Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether servers may have locks of this session.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }

    /// A lock is about to be asked for, through this open file.
    fn begin(&self, ino: Ino, handle: u64, lock: &FileLock) {
        self.used.store(true, Ordering::SeqCst);
        self.lock().begin(ino, handle, lock);
    }

    /// As [`pandofs_session::Locks::given`].
    fn given(
        &self,
        ino: Ino,
        lock: &FileLock,
        registrations: &AtomicU64,
        registration: u64,
    ) -> bool {
        let mut locks = self.lock();
        // Under the lock: a registration counts first and then looks at what there is to tell.
        let registrations = registrations.load(Ordering::SeqCst);
        locks.given(ino, lock, registrations, registration)
    }

    /// The locks to tell a server that does not know them; `None` if there never was one.
    pub(crate) fn to_register(&self) -> Option<Vec<(Ino, FileLock)>> {
        self.is_used().then(|| self.lock().all())
    }

    /// As [`pandofs_session::Locks::owners_through`].
    pub(crate) fn owners_through(&self, ino: Ino, handle: u64) -> Vec<LockOwner> {
        self.lock().owners_through(ino, handle)
    }

    /// Returns whether the open file's locks are lost.
    fn is_lost(&self, ino: Ino, handle: u64) -> bool {
        self.any_lost.load(Ordering::Relaxed) && self.lock().is_lost(ino, handle)
    }

    /// The process closes one of its descriptors of the file.
    pub(crate) fn closed_by(&self, ino: Ino, number: u64) {
        self.lock().closed_by(ino, number);
    }

    /// An open file is closed for good; returns the owners of its locks.
    pub(crate) fn closed(&self, ino: Ino, handle: u64) -> Vec<LockOwner> {
        self.lock().closed(ino, handle)
    }

    /// A server does not have this lock any more.
    pub(crate) fn lost(&self, ino: Ino, lock: &FileLock) {
        if !self.lock().lost(ino, lock) {
            return;
        }
        self.any_lost.store(true, Ordering::Relaxed);
        tracing::error!(
            "the lock of process {} on inode {ino} is lost: its server did not hear of this mount for too \
             long and may have given it to others; programs get an input/output error until they have closed \
             the file",
            lock.pid
        );
    }
}

/// The outcome of trying to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The owner has the lock.
    Locked,
    /// Another lock is in the way.
    Busy,
    /// Only a request that waits gets an answer: the server was restarted a moment ago and gives no
    /// lock until it knows who has which, or the owner of the lock may have closed the file a
    /// moment ago.
    NotYet,
}

/// The holder of a lock that is in the way of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The lock could be had now.
    Nobody,
    /// Of those in the way the first.
    Lock(FileLock),
    /// The server was restarted a moment ago and does not know yet.
    NotYet,
}

/// A request for a lock that may wait. At most [`LOCK_SLOTS`] of a client wait at once.
///
/// [`LOCK_SLOTS`]: pandofs_types::limits::LOCK_SLOTS
#[derive(Debug)]
pub struct LockWait {
    session: Arc<Session>,
    ino: Ino,
    handle: u64,
    lock: FileLock,
    /// Wait also until others have unlocked.
    blocking: bool,
    /// `None` when it was given back.
    slot: Option<Slot>,
    /// Held while it is cancelled.
    is_over: Mutex<bool>,
}

impl LockWait {
    /// Waits for the lock.
    ///
    /// # Errors
    /// `Interrupted` when cancelled and not given; `WouldBlock` if not to wait; `Deadlock`;
    /// `NoLocks`.
    pub fn wait(&self) -> Result<()> {
        let core = &*self.session.core;
        core.locks.begin(self.ino, self.handle, &self.lock);
        let mut call = self.call(self.blocking);
        loop {
            let answer = core.ask_call(&mut call);
            let mut is_over = self.is_over();
            let result = match answer {
                // No one else reports to the caller that it would have to wait.
                Err(Failure::Client(ClientError::Fs(FsError::WouldBlock))) if self.blocking => {
                    Err(FsError::Interrupted.into())
                }
                answer => answer,
            };
            if let Some(result) = core.locked(self.ino, &self.lock, &call, result) {
                *is_over = true;
                return result;
            }
        }
    }

    /// The file that is to be locked.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Ends the waiting, soon: [`LockWait::wait`] returns as soon as it is known whether the lock
    /// was given. Waits for an answer of the server.
    pub fn cancel(&self) {
        let is_over = self.is_over();
        if !*is_over {
            // The same request, without a wait: either ends both; should it fail, so does the
            // other.
            let _ = self.session.core.ask_call(&mut self.call(false));
        }
    }

    fn is_over(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, blocking: bool) -> Call<'static> {
        let core = &*self.session.core;
        // An answer is there well before the connection is taken for lost.
        let wait = LOCK_WAIT.min(core.who.timeouts.answer / 3);
        let mut call = core.lock_call(self.ino, self.lock, blocking, wait);
        call.key = self.slot.as_ref().map(|slot| RequestKey {
            session: core.who.session,
            slot: slot.id,
            sequence: slot.sequence,
        });
        call
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.session.core.locks.slots.give_back(slot);
        }
    }
}

impl Client {
    /// Locks a file if no lock is in the way. `handle` tells the client's open files apart, and the
    /// owner in `lock` its owners.
    ///
    /// # Errors
    /// `NoLocks` when there are too many; `Io` when the locks of this open file are lost;
    /// `Interrupted` when it was given after the program was killed, and is let go.
    pub fn try_lock(&self, ino: Ino, handle: u64, lock: FileLock) -> Result<Tried> {
        let core = self.core();
        self.check_locks(ino, handle)?;
        let _turn = core.lock_turn(ino, lock.kind, lock.owner)?;
        core.locks.begin(ino, handle, &lock);
        loop {
            let mut call = core.lock_call(ino, lock, false, Duration::ZERO);
            call.progress.waits = false;
            let answer = core.ask_call(&mut call);
            if matches!(answer, Err(Failure::NotYet)) {
                return Ok(Tried::NotYet);
            }
            match core.locked(ino, &lock, &call, answer) {
                Some(Ok(())) if cancellation::is_abandoned() => {
                    // The program is gone, and the next one with its number has not asked for it.
                    core.unlock(ino, lock.kind, lock.owner, lock.range)?;
                    return Err(FsError::Interrupted.into());
                }
                Some(Ok(())) => return Ok(Tried::Locked),
                Some(Err(ClientError::Fs(FsError::WouldBlock))) => return Ok(Tried::Busy),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    /// A request that waits for the lock: with `blocking` until it is given, otherwise until it is
    /// known whether it is held. To be made after [`Client::try_lock`] did not get it, by
    /// which a lock of `flock()` that was to be changed is given up.
    ///
    /// # Errors
    /// `NoLocks` when too many wait.
    pub fn lock_wait(
        &self,
        ino: Ino,
        handle: u64,
        lock: FileLock,
        blocking: bool,
    ) -> Result<LockWait> {
        let slot = self.core().locks.slots.try_take();
        Ok(LockWait {
            session: Arc::clone(&self.session),
            ino,
            handle,
            lock,
            blocking,
            slot: Some(slot.ok_or(FsError::NoLocks)?),
            is_over: Mutex::new(false),
        })
    }

    /// Unlocks what the owner has of the range; nothing is fine.
    ///
    /// # Errors
    /// `Io` when this open file's locks are lost; `NoLocks` when one becomes two, one too many.
    pub fn unlock(
        &self,
        ino: Ino,
        handle: u64,
        kind: LockKind,
        owner: u64,
        range: LockRange,
    ) -> Result<()> {
        let core = self.core();
        self.check_locks(ino, handle)?;
        let _turn = core.lock_turn(ino, kind, owner)?;
        core.unlock(ino, kind, owner, range)
    }

    /// Returns the holder of a lock in the way of this one; with `wait`, waits until it is known.
    ///
    /// # Errors
    /// The file system's.
    pub fn lock_holder(&self, ino: Ino, lock: FileLock, wait: bool) -> Result<Holder> {
        let request = Request::GetLock(op::GetLock { ino, lock });
        let mut call = Call::shard(Target::Inode(ino), &Credentials::ROOT, request);
        call.progress.waits = wait;
        match self.core().ask_call(&mut call) {
            Ok(Reply::Lock(Some(found))) => Ok(Holder::Lock(found)),
            Ok(Reply::Lock(None)) => Ok(Holder::Nobody),
            Ok(other) => Err(unexpected(&other)),
            Err(Failure::NotYet) => Ok(Holder::NotYet),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Fails with `Io` once a lock was lost that was made through this open file. While the server
    /// of a file with locks has not been heard of for so long that it may have given them away, it
    /// waits for its word.
    ///
    /// # Errors
    /// See above.
    pub fn check_locks(&self, ino: Ino, handle: u64) -> Result<()> {
        let core = self.core();
        if !core.locks.is_used() {
            return Ok(());
        }
        if core.locks.lock().has_locked(ino, handle) && core.is_silent(ino) {
            // On the way the locks are registered with the server again, which says which are lost.
            core.inode(&Credentials::ROOT, ino)?;
        }
        if core.locks.is_lost(ino, handle) {
            Err(FsError::Io.into())
        } else {
            Ok(())
        }
    }
}

impl Core {
    fn lock_call(&self, ino: Ino, lock: FileLock, blocking: bool, wait: Duration) -> Call<'static> {
        let request = Request::SetLock(op::SetLock {
            ino,
            lock,
            blocking,
            wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
        });
        Call::shard(Target::Inode(ino), &Credentials::ROOT, request)
    }

    /// Returns whether the server of the inode may have given this session up.
    pub(crate) fn is_silent(&self, ino: Ino) -> bool {
        let shard = self.inodes.shard_of(ino);
        let cluster = self.clusters.current();
        cluster
            .leader(shard)
            .is_some_and(|server| server.silence() >= DOUBTFUL_SILENCE)
    }

    /// The outcome of a request for a lock; `None` if it has to be sent again.
    fn locked(
        &self,
        ino: Ino,
        lock: &FileLock,
        call: &Call,
        answer: std::result::Result<Reply, Failure>,
    ) -> Option<Result<()>> {
        let answer = answer.map_err(ClientError::from);
        match answer {
            Ok(Reply::Done) => {
                let given = call
                    .answered_by
                    .as_ref()
                    .is_some_and(|(server, registration)| {
                        self.locks
                            .given(ino, lock, &server.registrations, *registration)
                    });
                given.then_some(Ok(()))
            }
            Ok(other) => Some(Err(unexpected(&other))),
            Err(error @ ClientError::Fs(_)) => {
                let refused = matches!(
                    error,
                    ClientError::Fs(FsError::WouldBlock | FsError::Interrupted)
                );
                if refused && lock.kind == LockKind::Flock {
                    // Its old lock is gone: two that wait to change theirs must not deadlock.
                    self.locks
                        .lock()
                        .forget(ino, lock.kind, lock.owner, LockRange::WHOLE);
                }
                Some(Err(error))
            }
            Err(error) => {
                self.locks.lock().unclear(ino, lock.kind, lock.owner, true);
                Some(Err(error))
            }
        }
    }

    /// To be called in the owner's turn ([`Core::lock_turn`]).
    pub(crate) fn unlock(
        &self,
        ino: Ino,
        kind: LockKind,
        owner: u64,
        range: LockRange,
    ) -> Result<()> {
        let middle_of = self.locks.lock().split_by(ino, kind, owner, range);
        // First: were it still registered with a server that restarts, the server would keep it.
        if !self.locks.lock().forget(ino, kind, owner, range) {
            return Ok(());
        }
        let request = Request::Unlock(op::Unlock {
            ino,
            kind,
            owner,
            range,
        });
        let answer = self.ask(&Credentials::ROOT, Target::Inode(ino), request);
        match answer.map_err(ClientError::from) {
            Ok(Reply::Done) => {
                if range == LockRange::WHOLE {
                    self.locks.lock().unclear(ino, kind, owner, false);
                }
                Ok(())
            }
            Ok(other) => Err(unexpected(&other)),
            Err(error) if error.is_gone() => Ok(()),
            Err(ClientError::Fs(FsError::NoLocks)) => {
                // It would have become two, and there are too many: it is as it was.
                if let Some(lock) = middle_of {
                    self.locks.lock().keep(ino, &FileLock { range, ..lock });
                }
                Err(FsError::NoLocks.into())
            }
            Err(error) => {
                self.locks.lock().unclear(ino, kind, owner, true);
                Err(error)
            }
        }
    }
}

fn unexpected(reply: &Reply) -> ClientError {
    ClientError::Protocol(format!(
        "a shard answered {reply:?} to a request for a lock"
    ))
}
