//! Operations that go on though their program was killed.
//!
//! A change that may have reached a server is made to its end
//! ([`pandofs_client::Caller::on_abandoned`]), by the thread that took the request. The
//! program need not wait for that: the kernel is answered with `EINTR`, and the program ends. The
//! outcome is not reported. A file that was opened is closed again, as the kernel knows of no open
//! file, and the kernel's caches of all that was changed are invalidated.
//!
//! The kernel locks what it has changed (a directory, a file that is written to or truncated) until it is
//! answered, so that of two changes of the same the second begins when the first has ended. For an
//! operation that was abandoned the mount does that: a change waits for those of the same name or
//! the same inode that were abandoned before. So a file that is copied anew does not get bytes of
//! the old copy.
//!
//! At most [`MAX_ABANDONED_REQUESTS`](crate::limits::MAX_ABANDONED_REQUESTS), or fewer with little
//! memory, are abandoned at once, as each has a thread. When there are as many a program waits,
//! killed or not, until its operation is done or one of the others is.

use crate::call::Call;
use crate::errno::Result;
use crate::ops::PandoFs;
use pandofs_fuse_kernel::Errno;
use pandofs_types::limits::CANCELLATION_INTERVAL;
use pandofs_types::{Ino, Name};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The length that means all from the offset on to the kernel.
const TO_THE_LAST_BYTE: u64 = 0;

/// An object that a request changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Changed {
    Inode(Ino),
    Name(Ino, Name),
}

/// The operations of one mount that were abandoned.
#[derive(Debug)]
pub(crate) struct Abandoned {
    /// So many there may be.
    most: usize,
    /// As many as in `state`; looked at before that is locked.
    count: AtomicUsize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    /// Threads that wait for some of them.
    waiting: usize,
    /// Number of them that change each object.
    changed: HashMap<Changed, usize>,
}

impl Abandoned {
    /// No more than this many.
    pub(crate) fn within(most: usize) -> Abandoned {
        Abandoned {
            most,
            count: AtomicUsize::new(0),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there are any.
    pub(crate) fn are_any(&self) -> bool {
        // One that was abandoned is counted before the kernel hears that it may go on with the
        // next.
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Waits for operations that were abandoned and change any of these.
    ///
    /// # Errors
    /// `EINTR` when the request may not wait any longer.
    pub(crate) fn wait_for(&self, changes: &[Changed], may_wait: impl Fn() -> bool) -> Result<()> {
        if !self.are_any() {
            return Ok(());
        }
        let is_changed = |state: &mut State| {
            changes
                .iter()
                .any(|change| state.changed.contains_key(change))
        };
        loop {
            let mut state = self.state();
            state.waiting += 1;
            let (mut state, waited) = self
                .ended
                .wait_timeout_while(state, CANCELLATION_INTERVAL, is_changed)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            drop(state);
            if !waited.timed_out() {
                return Ok(());
            }
            if !may_wait() {
                return Err(Errno::EINTR);
            }
        }
    }

    /// One more, if there may be.
    pub(crate) fn add(&self, changes: &[Changed]) -> bool {
        let mut state = self.state();
        if state.count >= self.most {
            return false;
        }
        state.count += 1;
        self.count.store(state.count, Ordering::SeqCst);
        for change in changes {
            *state.changed.entry(change.clone()).or_default() += 1;
        }
        true
    }

    pub(crate) fn take_off(&self, changes: &[Changed]) {
        let mut state = self.state();
        state.count -= 1;
        self.count.store(state.count, Ordering::SeqCst);
        for change in changes {
            if let Some(times) = state.changed.get_mut(change) {
                *times -= 1;
                if *times == 0 {
                    state.changed.remove(change);
                }
            }
        }
        let is_waited_for = state.waiting > 0;
        drop(state);
        if is_waited_for {
            self.ended.notify_all();
        }
    }
}

impl PandoFs {
    /// Has the kernel ask again for all that it has of these.
    pub(crate) fn forget_abandoned(&self, call: &Call, changed: Vec<Changed>) {
        for changed in changed {
            match changed {
                Changed::Inode(ino) => {
                    self.dir_attrs.forget(ino);
                    self.no_xattrs.forget(ino);
                    call.waits_for_kernel();
                    self.kernel.forget_content(ino, 0, TO_THE_LAST_BYTE);
                }
                // Not here: the directory may be locked by a program that waits for a server. With
                // time-outs it is cached until they are over.
                Changed::Name(dir, name) => {
                    let key = self.client.entry_key(dir, &name);
                    let names = self.cached.kernel_cache.take_names(std::iter::once(key));
                    self.cached.invalidations.invalidate_later(names);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_ABANDONED_REQUESTS;
    use std::thread;
    use std::time::{Duration, Instant};

    /// So long that a test that waits for it has failed.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn name(text: &str) -> Changed {
        Changed::Name(Ino(1), Name::new(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_change_waits_for_what_was_abandoned_of_the_same() {
        let abandoned = Abandoned::within(MAX_ABANDONED_REQUESTS);
        let (file, other) = (Changed::Inode(Ino(5)), Changed::Inode(Ino(6)));
        assert!(abandoned.add(&[name("a"), name("b")]));
        assert!(abandoned.add(std::slice::from_ref(&file)));
        assert!(abandoned.add(std::slice::from_ref(&file)));
        abandoned.wait_for(&[other, name("c")], || false).unwrap();
        abandoned.take_off(std::slice::from_ref(&file));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                abandoned
                    .wait_for(&[name("c"), Changed::Inode(Ino(5))], || true)
                    .unwrap();
                abandoned.state().count
            });
            let begun = Instant::now();
            while abandoned.state().waiting == 0 {
                assert!(!waits.is_finished(), "it did not wait");
                assert!(begun.elapsed() < PATIENCE, "no thread waits");
                thread::yield_now();
            }
            abandoned.take_off(std::slice::from_ref(&file));
            assert_eq!(waits.join().unwrap(), 1);
        });
        assert!(abandoned.wait_for(&[name("a")], || false).is_err());
        abandoned.take_off(&[name("a"), name("b")]);
        assert!(abandoned.state().changed.is_empty());
        assert_eq!(abandoned.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn only_so_many_are_abandoned() {
        let abandoned = Abandoned::within(MAX_ABANDONED_REQUESTS);
        for _ in 0..MAX_ABANDONED_REQUESTS {
            assert!(abandoned.add(&[]));
        }
        assert!(!abandoned.add(&[name("a")]));
        assert!(abandoned.state().changed.is_empty());
        abandoned.take_off(&[]);
        assert!(abandoned.add(&[name("a")]));
    }
}
