//! Cancellation of the calls of a thread whose caller no longer waits.
//!
//! A call to a server that is away goes on until the server is back, which may be never. A program
//! must be killable all the same, and programs that need other servers must find a thread for their
//! requests. So a thread that makes calls for others has a [`Cancellation`], which is called from
//! time to time while a call waits.
//!
//! A change that may have reached a server is not cancelled: the server would make it whenever it
//! goes on, after later changes of others (the beginning of an old copy of a file, over the new
//! one), and what it opened would stay open. Such an operation goes on to its end, abandoned;
//! [`Caller::on_abandoned`] lets its caller go.
//!
//! The cancellation belongs to the thread and not to the call, because one thread makes one call at
//! a time, with others in the course of it, and because what runs beside (writes that were answered
//! before, reports, pings) must go on when the program is killed whose write it was.

use crate::waited;
use pandofs_types::limits::CANCELLATION_INTERVAL;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// The caller that a thread makes its calls for.
#[derive(Clone)]
pub struct Cancellation {
    /// The caller's number, for traces.
    pub id: u32,
    /// Asked from time to time whether it still waits.
    pub caller: Arc<dyn Caller>,
}

/// Someone who waits for the calls of a thread.
pub trait Caller: Send + Sync {
    /// Called on the thread of a call that is about to wait, for a server, another thread or a moment,
    /// each time: it is of use for nothing else meanwhile.
    fn about_to_wait(&self) {}

    /// Called on the thread of a call that has waited for [`CANCELLATION_INTERVAL`], and again
    /// about as often. False: the caller is gone, and the call ends with
    /// [`Abandoned`](crate::ClientError::Abandoned), if it may.
    fn may_wait(&self) -> bool;

    /// Called when it may not: the operation goes on to its end, and its caller need not wait for
    /// that. Called again as `may_wait` is.
    fn on_abandoned(&self);
}

/// A pair of functions is one.
impl<M, A> Caller for (M, A)
where
    M: Fn() -> bool + Send + Sync,
    A: Fn() + Send + Sync,
{
    fn may_wait(&self) -> bool {
        (self.0)()
    }

    fn on_abandoned(&self) {
        (self.1)();
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
    /// The operation under way goes on to its end.
    static IS_SUPPRESSED: Cell<bool> = const { Cell::new(false) };
    /// `on_abandoned` was called for it.
    static IS_ABANDONED: Cell<bool> = const { Cell::new(false) };
}

/// Begins an operation of this thread, with this cancellation; `None`, as in a new thread, waits
/// for ever.
pub fn set_cancellation(cancellation: Option<Cancellation>) {
    waited::begin();
    CURRENT.set(cancellation);
    IS_SUPPRESSED.set(false);
    IS_ABANDONED.set(false);
}

/// The caller's number, if this thread has a cancellation.
pub(crate) fn current() -> Option<u32> {
    CURRENT.with_borrow(|current| current.as_ref().map(|cancellation| cancellation.id))
}

/// Returns whether this thread's operation goes on without a caller.
pub(crate) fn is_abandoned() -> bool {
    IS_ABANDONED.get()
}

/// Has this thread's operation go on to its end, as a server may make its change from now on.
pub(crate) fn forbid() {
    IS_SUPPRESSED.set(true);
}

/// Does something that is not cancelled, as what was answered before it was done. (A write of 1 MiB
/// is answered, the program is killed, and with it its write: the file keeps its old bytes, without
/// an error.) `may_wait` is still called.
pub(crate) fn suppressed<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_SUPPRESSED.replace(true);
    let result = work();
    IS_SUPPRESSED.set(before);
    result
}

/// This thread is about to wait. To be called where that is not rare, or may be for long.
pub(crate) fn about_to_wait() {
    // A program may ask something when it ends, after this thread's values are gone.
    let _ = CURRENT.try_with(|current| {
        if let Some(cancellation) = &*current.borrow() {
            cancellation.caller.about_to_wait();
        }
    });
}

/// Locks what others have locked while they wait for servers.
pub(crate) fn lock_awaiting<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => {
            about_to_wait();
            mutex.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

/// Returns whether a call of this thread that has waited for `waited` is to go on.
pub(crate) fn may_wait(waited: Duration) -> bool {
    if waited < CANCELLATION_INTERVAL {
        return true;
    }
    let Some(Cancellation { caller, .. }) = CURRENT.with_borrow(Clone::clone) else {
        return true;
    };
    if caller.may_wait() {
        return true;
    }
    let goes_on = IS_SUPPRESSED.get();
    if goes_on {
        IS_ABANDONED.set(true);
        caller.on_abandoned();
    }
    goes_on
}

/// The cancellation of a call that may be given up.
#[cfg(test)]
pub(crate) fn of_killed(is_killed: fn() -> bool) -> Cancellation {
    let caller = Arc::new((
        move || !is_killed(),
        || panic!("there is nothing that has to go on"),
    ));
    Cancellation { id: 0, caller }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    thread_local! {
        static HEARD: Cell<u32> = const { Cell::new(0) };
        static WENT_ON: Cell<u32> = const { Cell::new(0) };
    }

    /// One with an odd number waits.
    fn call_for(id: u32) {
        let may_wait = move || {
            HEARD.set(HEARD.get() + 1);
            id % 2 == 1
        };
        let on_abandoned = move || WENT_ON.set(WENT_ON.get() + id);
        let caller = Arc::new((may_wait, on_abandoned));
        set_cancellation(Some(Cancellation { id, caller }));
    }

    #[test]
    fn a_thread_waits_until_its_caller_is_gone() {
        assert!(may_wait(CANCELLATION_INTERVAL), "there is no cancellation");
        call_for(2);
        assert!(
            may_wait(CANCELLATION_INTERVAL / 2),
            "it has not waited for long"
        );
        assert!(!may_wait(CANCELLATION_INTERVAL));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(
                    may_wait(CANCELLATION_INTERVAL),
                    "it is for another thread's"
                )
            });
        });
        call_for(3);
        assert!(may_wait(CANCELLATION_INTERVAL));
        set_cancellation(None);
        assert!(may_wait(CANCELLATION_INTERVAL));
        assert_eq!(WENT_ON.get(), 0);
    }

    #[test]
    fn what_was_answered_is_done_whoever_waits() {
        call_for(8);
        assert!(suppressed(|| may_wait(CANCELLATION_INTERVAL)));
        assert!(suppressed(
            || suppressed(|| true) && may_wait(CANCELLATION_INTERVAL)
        ));
        assert_eq!(HEARD.get(), 2, "may_wait is still called");
        assert_eq!(WENT_ON.get(), 16);
        assert!(!may_wait(CANCELLATION_INTERVAL));
    }

    #[test]
    fn what_may_have_reached_a_server_is_done_until_the_next_operation() {
        call_for(4);
        forbid();
        assert!(!is_abandoned());
        assert!(may_wait(CANCELLATION_INTERVAL));
        assert!(suppressed(|| true) && may_wait(CANCELLATION_INTERVAL));
        assert_eq!(WENT_ON.get(), 8);
        assert!(is_abandoned());
        call_for(4);
        assert!(!is_abandoned());
        assert!(!may_wait(CANCELLATION_INTERVAL));
        set_cancellation(None);
    }
}
