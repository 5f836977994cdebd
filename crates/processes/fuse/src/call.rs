//! A request of the kernel on its way through the mount.

use crate::abandoned::{Abandoned, Changed};
use crate::cancellation::is_killed;
use crate::credentials::Caller;
use crate::errno::Result;
use crate::slow::Watched;
use pandofs_client::Cancellation;
use pandofs_fuse_kernel::{Errno, Header, Pending, Reply, RequestId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The caller of a request, what it is about to change, and whether it is still waited for.
#[derive(Debug)]
pub(crate) struct Call {
    caller: Caller,
    pending: Pending,
    abandoned: Arc<Abandoned>,
    changes: Mutex<Vec<Changed>>,
    watched: Option<Watched>,
}

impl Call {
    pub(crate) fn begin(
        abandoned: &Arc<Abandoned>,
        watched: Option<Watched>,
        header: &Header,
        reply: &Reply,
    ) -> Arc<Call> {
        Arc::new(Call {
            caller: Caller {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
            },
            pending: reply.pending(),
            abandoned: Arc::clone(abandoned),
            changes: Mutex::default(),
            watched,
        })
    }

    /// The caller as it is now.
    pub(crate) fn caller(&self) -> Caller {
        self.as_now(self.caller)
    }

    /// This caller, in whose name the request is handled: one that was let go is gone, and its
    /// number may be another one's.
    pub(crate) fn as_now(&self, caller: Caller) -> Caller {
        let pid = if self.is_answered_early() {
            0
        } else {
            caller.pid
        };
        Caller { pid, ..caller }
    }

    /// The thread that made the request, 0 if none that this process could see.
    pub(crate) fn thread(&self) -> u32 {
        self.caller.pid
    }

    pub(crate) fn request(&self) -> RequestId {
        self.pending.request()
    }

    /// Returns whether it was abandoned: nobody hears of what comes of it, and the kernel keeps
    /// nothing that it would be given.
    pub(crate) fn is_answered_early(&self) -> bool {
        self.pending.is_answered_early()
    }

    /// Has the calls of a thread to servers end with this request.
    pub(crate) fn cancellation(self: &Arc<Call>) -> Cancellation {
        let caller = Arc::<Call>::clone(self);
        Cancellation {
            id: self.thread(),
            caller,
        }
    }

    /// This thread is about to wait for the kernel, which may wait for answers of this mount.
    pub(crate) fn waits_for_kernel(&self) {
        self.pending.waits();
    }

    /// Declares what the request is about to change. Waits for abandoned operations that change
    /// the same.
    ///
    /// # Errors
    /// `EINTR` when the program is killed meanwhile.
    pub(crate) fn changes(&self, changes: Vec<Changed>) -> Result<()> {
        self.wait_for(&changes)?;
        *self.declared() = changes;
        Ok(())
    }

    /// Waits for operations that were abandoned and change any of these.
    ///
    /// # Errors
    /// `EINTR` when the program is killed meanwhile.
    pub(crate) fn wait_for(&self, changes: &[Changed]) -> Result<()> {
        if self.abandoned.are_any() {
            self.pending.waits();
        }
        self.abandoned
            .wait_for(changes, || pandofs_client::Caller::may_wait(self))
    }

    /// It is handled. If it was abandoned: what it has changed, unknown to the kernel.
    pub(crate) fn end(&self) -> Vec<Changed> {
        if let Some(watched) = &self.watched {
            watched.ended();
        }
        if !self.is_answered_early() {
            return Vec::new();
        }
        // Before the kernel is to forget what it has (`PandoFs::forget_abandoned`), though the next
        // change may be handled in between. The other way round neither would go on: the next write
        // of the file waits here for this one with its pages locked, and the kernel forgets a
        // file's content only when it has them unlocked.
        let changes = std::mem::take(&mut *self.declared());
        self.abandoned.take_off(&changes);
        changes
    }

    fn declared(&self) -> MutexGuard<'_, Vec<Changed>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl pandofs_client::Caller for Call {
    /// Others of the mount's threads take requests meanwhile.
    fn about_to_wait(&self) {
        self.pending.waits();
    }

    /// Not if the program is being killed. A request that was answered is not waited for; it goes
    /// on to its end.
    fn may_wait(&self) -> bool {
        self.pending.waits_long();
        if let Some(watched) = &self.watched {
            watched.waits();
        }
        self.thread() == 0 || self.is_answered_early() || !is_killed(self.thread())
    }

    /// Lets the program go, if that may be.
    fn on_abandoned(&self) {
        self.pending
            .answer_early(Errno::EINTR, || self.abandoned.add(&self.declared()));
    }
}
