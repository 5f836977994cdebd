//! Locks of programs, which hold among all mounts.
//!
//! The kernel (6.18) passes on:
//!
//! - A lock of `flock()` is owned by an open file, one of `fcntl()` by a process' table of open
//!   files or, for `F_OFD_SETLK`, by an open file as well. The kernel does not say which.
//! - A process closes one of its descriptors of a file: `FLUSH`, with the process as owner. All
//!   that it has locked of the file with `fcntl()` is to be unlocked, through whichever descriptor.
//! - The last descriptor of an open file is closed: `RELEASE`. The open file's locks are to be
//!   unlocked: those taken through it that are not unlocked by then. The program does not wait for
//!   this: it has been answered before that the file is closed. So at each `FLUSH` the server
//!   learns that what the open file owns may be unlocked next, and does not refuse a lock because
//!   of it before that is known.
//! - A program that waits for a lock gets a signal: `INTERRUPT`, which may come, to another thread,
//!   before the request that it is about is taken up. The request is answered with `EINTR`, unless
//!   the lock was given meanwhile; the kernel asks again for calls that it restarts.
//!
//! The writes of one program under a lock are read by the next one under it, on any mount: before
//! anything is unlocked writes are reported, and before a lock is answered the kernel is made to
//! ask for the attributes again, by which it sees whether what it has of the contents is old (as
//! NFS does it).
//!
//! A wait gets a thread, so that those that take requests are there for unlocks.

use crate::call::Call;
use crate::errno::{Result, errno};
use crate::kernel::Kernel;
use crate::ops::PandoFs;
use crate::options::LocalLocks;
use crate::space;
use pandofs_client::{ClientError, Holder, LockWait, Tried};
use pandofs_fuse_kernel::abi::{init, open};
use pandofs_fuse_kernel::{
    Errno, FileHandle, Lock, Negotiation, OpenFlags, Reply, RequestId, THREAD_NAMES,
};
use pandofs_types::{FileLock, FsError, Ino, LockKind, LockMode, LockRange};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Interrupts that are kept for requests that are still to be taken up: those of requests that are
/// not waits for locks are among them.
const KEPT_INTERRUPTS: usize = 1_024;
/// Bytes of the stack of a thread that waits; it does not do much.
const STACK_BYTES: usize = 256 << 10;

/// Asks the kernel for the locks that are not local.
pub(crate) fn negotiate(kernel: &mut Negotiation, local: LocalLocks) {
    for (feature, flag, is_local) in [
        ("POSIX locks", init::POSIX_LOCKS, local.posix),
        ("flock", init::FLOCK_LOCKS, local.flock),
    ] {
        if !is_local && !kernel.want(flag) {
            tracing::warn!(
                feature,
                "this kernel lacks it: locks hold within the mount only"
            );
        }
    }
}

fn kind(asked: &Lock) -> LockKind {
    if asked.flock {
        LockKind::Flock
    } else {
        LockKind::Record
    }
}

fn range(asked: &Lock) -> LockRange {
    let Lock { first, last, .. } = *asked;
    if asked.flock {
        LockRange::WHOLE
    } else {
        LockRange { first, last }
    }
}

/// The lock that the kernel describes; none if it is to unlock.
fn lock(asked: &Lock) -> Option<FileLock> {
    let lock = FileLock {
        kind: kind(asked),
        owner: asked.owner.0,
        pid: asked.pid,
        mode: mode(asked.typ)?,
        range: range(asked),
    };
    lock.is_valid().then_some(lock)
}

fn mode(typ: i32) -> Option<LockMode> {
    match typ {
        libc::F_RDLCK => Some(LockMode::Shared),
        libc::F_WRLCK => Some(LockMode::Exclusive),
        _ => None,
    }
}

/// Handles of open files. Nothing else is kept for them here: the client counts opens by inode.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    last: AtomicU64,
}

impl OpenFiles {
    pub(crate) fn next(&self, flags: OpenFlags) -> FileHandle {
        space::handle(self.last.fetch_add(1, Ordering::Relaxed) + 1, flags)
    }
}

/// Requests that wait for locks.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<RequestId, Arc<LockWait>>,
    /// The last interrupts of others.
    interrupted: VecDeque<RequestId>,
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits on a thread of its own, and answers.
    fn begin(waits: &Arc<Waits>, request: RequestId, wait: LockWait, kernel: Kernel, reply: Reply) {
        let wait = Arc::new(wait);
        {
            let mut state = waits.state();
            if state.interrupted.contains(&request) {
                return reply.error(Errno::EINTR);
            }
            state.waiting.insert(request, Arc::clone(&wait));
        }
        let of_thread = Arc::clone(waits);
        let spawned = start("lock", move || {
            let result = wait.wait();
            of_thread.state().waiting.remove(&request);
            if result.is_ok() {
                kernel.forget_attr(wait.ino());
            }
            // The slot first: the program may ask for the next lock as soon as it is answered.
            drop(wait);
            reply.done(result.map_err(errno));
        });
        if !spawned {
            // The reply went with what was to be run, and an error with it.
            waits.state().waiting.remove(&request);
        }
    }

    /// A request is to be answered soon.
    pub(crate) fn interrupt(waits: &Arc<Waits>, request: RequestId) {
        let mut state = waits.state();
        let Some(wait) = state.waiting.get(&request) else {
            state.interrupted.push_back(request);
            if state.interrupted.len() > KEPT_INTERRUPTS {
                state.interrupted.pop_front();
            }
            return;
        };
        let wait = Arc::clone(wait);
        drop(state);
        // It talks to the server, which may be away.
        start("interrupt", move || wait.cancel());
    }
}

/// Runs something beside the threads that take requests; false if that cannot be.
fn start(what: &str, run: impl FnOnce() + Send + 'static) -> bool {
    let spawned = thread::Builder::new()
        .name(format!("{THREAD_NAMES}-{what}"))
        .stack_size(STACK_BYTES)
        .spawn(run);
    if let Err(error) = &spawned {
        tracing::error!(%error, "no thread for a lock");
    }
    spawned.is_ok()
}

impl PandoFs {
    /// The flags of an open file for the kernel.
    pub(crate) fn open_flags(&self, flags: OpenFlags) -> u32 {
        let mut answer = 0;
        // Of what is appended only the servers know where it goes: the page cache would have it
        // elsewhere.
        if flags.0 & libc::O_DIRECT != 0 || space::appends(flags) {
            answer |= open::DIRECT_IO;
        }
        // A lock that a process has made to read is unlocked by `FLUSH`, too.
        if flags.0 & libc::O_ACCMODE == libc::O_RDONLY && self.options.local_locks.posix {
            answer |= open::NOFLUSH;
        }
        answer
    }

    /// Locks or unlocks.
    pub(crate) fn change_lock(
        &self,
        call: &Call,
        ino: Ino,
        asked: &Lock,
        waits: bool,
        reply: Reply,
    ) {
        match lock(asked) {
            Some(lock) => self.set_lock(call, ino, asked.handle, lock, waits, reply),
            None if asked.typ == libc::F_UNLCK => reply.done(self.unlock(ino, asked)),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn set_lock(
        &self,
        call: &Call,
        ino: Ino,
        handle: FileHandle,
        lock: FileLock,
        blocking: bool,
        reply: Reply,
    ) {
        self.report(ino);
        let tried = match self.client.try_lock(ino, handle.0, lock) {
            Ok(Tried::Locked) => {
                self.kernel.forget_attr(ino);
                Ok(())
            }
            // The lock is not waited for any more.
            Ok(Tried::Busy | Tried::NotYet) if call.is_answered_early() => {
                Err(FsError::Interrupted.into())
            }
            Ok(Tried::Busy) if !blocking => Err(FsError::WouldBlock.into()),
            Ok(Tried::Busy | Tried::NotYet) => {
                match self.client.lock_wait(ino, handle.0, lock, blocking) {
                    Ok(wait) => {
                        let kernel = self.kernel.clone();
                        return Waits::begin(&self.waits, call.request(), wait, kernel, reply);
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        reply.done(tried.map_err(errno));
    }

    /// Reports writes before the next program locks. Those that cannot be reported now are
    /// reported, and fail, when the file is closed.
    fn report(&self, ino: Ino) {
        if let Err(error) = self.client.report_written(ino) {
            tracing::warn!(%error, "writes to inode {ino} are reported later");
        }
    }

    fn unlock(&self, ino: Ino, asked: &Lock) -> Result<()> {
        let range = range(asked);
        if !range.is_valid() {
            return Err(Errno::EINVAL);
        }
        self.report(ino);
        self.client
            .unlock(ino, asked.handle.0, kind(asked), asked.owner.0, range)
            .map_err(errno)
    }

    pub(crate) fn lock_holder(&self, ino: Ino, asked: &Lock, reply: Reply) {
        let Some(lock) = lock(asked) else {
            return reply.error(Errno::EINVAL);
        };
        match self.client.lock_holder(ino, lock, false) {
            // It takes a moment until locks are known again after a restart.
            Ok(Holder::NotYet) => {
                let client = self.client.clone();
                start("holder", move || {
                    reply_holder(reply, lock, client.lock_holder(ino, lock, true));
                });
            }
            holder => reply_holder(reply, lock, holder),
        }
    }
}

fn reply_holder(reply: Reply, asked: FileLock, holder: Result<Holder, ClientError>) {
    match holder.map_err(errno) {
        Ok(Holder::Lock(found)) => {
            let typ = match found.mode {
                LockMode::Shared => libc::F_RDLCK,
                LockMode::Exclusive => libc::F_WRLCK,
            };
            reply.lock((found.range.first, found.range.last), typ, found.pid);
        }
        Ok(Holder::Nobody) => {
            reply.lock((asked.range.first, asked.range.last), libc::F_UNLCK, 0);
        }
        // The mount is ending.
        Ok(Holder::NotYet) => reply.error(Errno::EINTR),
        Err(error) => reply.error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_fuse_kernel::LockOwner;

    #[test]
    fn what_the_kernel_asks_for_is_a_lock_or_to_unlock() {
        let asked = |first, last, typ, flock| {
            lock(&Lock {
                handle: FileHandle(1),
                owner: LockOwner(9),
                first,
                last,
                typ,
                pid: 12,
                flock,
            })
        };
        let lock = asked(3, 7, libc::F_RDLCK, false).unwrap();
        assert_eq!((lock.kind, lock.mode), (LockKind::Record, LockMode::Shared));
        assert_eq!((lock.owner, lock.pid), (9, 12));
        assert_eq!(lock.range, LockRange { first: 3, last: 7 });
        assert_eq!(asked(3, 7, libc::F_UNLCK, false), None);
        assert_eq!(asked(8, 7, libc::F_WRLCK, false), None);
        let lock = asked(3, 7, libc::F_WRLCK, true).unwrap();
        assert_eq!(
            (lock.kind, lock.mode),
            (LockKind::Flock, LockMode::Exclusive)
        );
        assert!(lock.is_valid());
    }

    #[test]
    fn every_open_file_has_a_number_of_its_own() {
        let files = OpenFiles::default();
        let flags = OpenFlags(libc::O_RDWR);
        let handles = (files.next(flags), files.next(flags));
        assert_eq!(handles, (FileHandle(1), FileHandle(2)));
    }

    #[test]
    fn interrupts_of_other_requests_are_kept_for_a_while() {
        let waits = Arc::new(Waits::default());
        for number in 0..=KEPT_INTERRUPTS as u64 {
            Waits::interrupt(&waits, RequestId(number));
        }
        let state = waits.state();
        assert_eq!(state.interrupted.len(), KEPT_INTERRUPTS);
        assert!(!state.interrupted.contains(&RequestId(0)));
    }
}
