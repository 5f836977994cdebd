//! Locks that a client has on files: what it believes is kept by the client library's state machine, and told again to
//! servers that were restarted.

use super::{Call, Client};
use pandofs_api::{Reply, Request, op};
use pandofs_types::{FileLock, FsError, Ino, LockKind, LockMode, LockRange};

/// Times that a client waits for a lock before it gives up.
const WAITS: u32 = 3;

impl Client {
    /// The locks that it believes to have.
    pub(crate) fn locks(&self) -> Vec<(Ino, FileLock)> {
        let mut locks = self.locks.all();
        locks.sort_by_key(|(ino, lock)| (*ino, lock.kind as u8, lock.owner, lock.range.first));
        locks
    }

    /// Of these those that nobody else may have by any means. One that is being changed for a shared one is no more than
    /// that: others may know it before the client does. One of `flock()` that is being changed may be given up first.
    pub(crate) fn sure_locks(&self) -> Vec<(Ino, FileLock)> {
        let calls = self.workers.iter().flat_map(|worker| &worker.calls);
        let changes: Vec<(Ino, &FileLock)> = calls
            .filter_map(|call| match &call.asked.request {
                Request::SetLock(op::SetLock { ino, lock, .. }) => Some((*ino, lock)),
                _ => None,
            })
            .collect();
        let mut sure = self.locks();
        for (ino, change) in changes {
            let is_changed = |(of, lock): &(Ino, FileLock)| {
                let is_same = (lock.kind, lock.owner) == (change.kind, change.owner);
                *of == ino && is_same && lock.range.overlaps(change.range)
            };
            if change.kind == LockKind::Flock {
                sure.retain(|known| !is_changed(known));
            } else if change.mode == LockMode::Shared {
                let changed = sure.iter_mut().filter(|known| is_changed(known));
                changed.for_each(|(_, lock)| lock.mode = LockMode::Shared);
            }
        }
        sure
    }

    /// Locks that a restarted server is told of; `None` if there never was one.
    pub(super) fn to_register(&self) -> Option<Vec<(Ino, FileLock)>> {
        let locks = || match self.plant {
            Some(crate::Plant::ForgetsFileLocks) => Vec::new(),
            _ => self.locks(),
        };
        self.locks.is_used().then(locks)
    }

    /// A request is about to be made; whether there is no need to.
    pub(super) fn begins(&mut self, request: &Request) -> bool {
        match request {
            Request::SetLock(op::SetLock { ino, lock, .. }) => {
                self.locks.begin(*ino, lock.owner, lock);
                false
            }
            // First: were it still told to a server that restarts, the server would keep it.
            Request::Unlock(op::Unlock {
                ino,
                kind,
                owner,
                range,
            }) => !self.locks.forget(*ino, *kind, *owner, *range),
            _ => false,
        }
    }

    /// Takes in an answer to a request for a lock; whether it has to be asked for again.
    pub(super) fn locked(&mut self, call: &Call, result: &Result<Reply, FsError>) -> bool {
        match (&call.asked.request, result) {
            (Request::SetLock(op::SetLock { ino, lock, .. }), Ok(_)) => {
                let registrations = self.link(call.server).registrations;
                let registration = call.registration;
                !self.locks.given(*ino, lock, registrations, registration)
            }
            (Request::SetLock(op::SetLock { ino, lock, .. }), Err(FsError::WouldBlock))
                if lock.kind == LockKind::Flock =>
            {
                // Its locks are gone.
                self.locks
                    .forget(*ino, lock.kind, lock.owner, LockRange::WHOLE);
                false
            }
            _ => false,
        }
    }

    /// A server that was told locks has lost these.
    pub(super) fn lost(&mut self, lost: &[(Ino, FileLock)]) {
        let lost = match self.plant {
            Some(crate::Plant::KeepsLostLocks) => &[],
            _ => lost,
        };
        for (ino, lock) in lost {
            self.locks.lost(*ino, lock);
        }
    }
}

impl Call {
    /// Somebody's lock is in the way, or the server does not know yet: the client waits a few times, and then asks
    /// without waiting, which is the last word.
    pub(super) fn waits_once_more(&mut self) -> Result<(), String> {
        let Request::SetLock(op::SetLock {
            blocking, wait_ms, ..
        }) = &mut self.asked.request
        else {
            return Err(format!("{:?} is to wait", self.asked));
        };
        self.progress.waits = *blocking;
        self.waits += 1;
        if self.waits >= WAITS {
            (*blocking, *wait_ms) = (false, 0);
        }
        Ok(())
    }
}
