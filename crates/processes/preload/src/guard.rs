//! Threads and where they are: in the program, or inside of this library, whose own system calls are the kernel's.
//!
//! Signals that have a handler wait while a thread is inside, so that no handler comes back in here.

use crate::entry::Context;
use crate::sys;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stacks of threads that were begun inside and were not seen yet.
const MAX_NEW_STACKS: usize = 64;
/// Least size of a stack of which only the end is known.
const LEAST_STACK: usize = 64 << 10;
/// Bytes of the kernel's set of signals.
const SIGNALS_BYTES: usize = 8;
/// The C library's signal by which each thread changes its user. The thread that changes it waits for all threads, this
/// library's as well, and its handler does nothing else: it is let through.
const CHANGES_USER: usize = 33;
/// `SIG_SETMASK` and `SIG_BLOCK`.
const BLOCK: usize = libc::SIG_BLOCK as usize;
const SET: usize = libc::SIG_SETMASK as usize;

/// Whose a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    NotSeen,
    Program,
    Library,
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::NotSeen) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PENDING: Cell<u64> = const { Cell::new(0) };
}

static NEW_STACKS: [(AtomicUsize, AtomicUsize); MAX_NEW_STACKS] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MAX_NEW_STACKS];
/// Signals that have handlers, as the kernel's set; and those of them after which calls go on.
static HANDLED: AtomicU64 = AtomicU64::new(0);
static RESTARTED: AtomicU64 = AtomicU64::new(0);

/// Returns whether the system call comes from within this library, by the thread or by where it is.
pub(crate) fn is_inside(context: &Context) -> bool {
    if DEPTH.get() > 0 {
        return true;
    }
    if THREAD.get() == Thread::NotSeen {
        let was_begun_here = NEW_STACKS.iter().any(|(start, end)| {
            let (from, to) = (start.load(Ordering::Acquire), end.load(Ordering::Acquire));
            // The start is set last.
            let is_it = from != 0 && (from..to).contains(&context.stack);
            is_it
                && start
                    .compare_exchange(from, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                && {
                    end.store(0, Ordering::Release);
                    true
                }
        });
        THREAD.set(match was_begun_here {
            true => Thread::Library,
            false => Thread::Program,
        });
    }
    THREAD.get() == Thread::Library
}

/// Returns whether the thread is inside, or this library's.
pub(crate) fn is_within() -> bool {
    DEPTH.get() > 0 || THREAD.get() == Thread::Library
}

/// A thread is begun from within, with this stack.
pub(crate) fn begins(start: usize, end: usize) {
    let start = match start {
        0 => end.saturating_sub(LEAST_STACK),
        start => start,
    };
    for (from, to) in &NEW_STACKS {
        if to
            .compare_exchange(0, end, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            from.store(start, Ordering::Release);
            return;
        }
    }
}

/// A thread's stay inside.
pub(crate) struct Inside {
    errno: i32,
    /// Signals that were blocked before, if more are now.
    blocked: Option<u64>,
}

/// Goes inside.
pub(crate) fn enter() -> Inside {
    DEPTH.set(DEPTH.get() + 1);
    let handled = HANDLED.load(Ordering::Relaxed);
    let blocked = (handled != 0).then(|| change(BLOCK, handled));
    PENDING.set(blocked.map_or(0, |blocked| handled & !blocked));
    // SAFETY: it is this thread's.
    let errno = unsafe { *libc::__errno_location() };
    Inside { errno, blocked }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // SAFETY: it is this thread's.
        unsafe { *libc::__errno_location() = self.errno };
        // Handlers run within the next call, and are the program's.
        DEPTH.set(DEPTH.get() - 1);
        if let Some(blocked) = self.blocked {
            change(SET, blocked);
        }
    }
}

/// Changes the thread's blocked signals, and says which they were.
fn change(how: usize, signals: u64) -> u64 {
    let (new, mut old) = ([signals], [0_u64]);
    let args = [
        how,
        new.as_ptr() as usize,
        old.as_mut_ptr() as usize,
        SIGNALS_BYTES,
        0,
        0,
    ];
    sys::call(libc::SYS_rt_sigprocmask, args);
    old[0]
}

/// A signal's handler was set.
pub(crate) fn handles(signal: usize, action: usize) {
    if signal == CHANGES_USER {
        return;
    }
    // The kernel's structure: the handler, and flags.
    let Some([handler, flags]) = crate::memory::get::<[usize; 2]>(action) else {
        return;
    };
    let bit = 1_u64
        .checked_shl((signal as u32).wrapping_sub(1))
        .unwrap_or(0);
    let set = |signals: &AtomicU64, is_in: bool| match is_in {
        true => signals.fetch_or(bit, Ordering::Relaxed),
        false => signals.fetch_and(!bit, Ordering::Relaxed),
    };
    set(&HANDLED, handler > libc::SIG_IGN);
    set(&RESTARTED, flags & libc::SA_RESTART as usize != 0);
}

/// Returns whether a signal came meanwhile that interrupts what a program waits for. One after which calls go on has its
/// turn here.
pub(crate) fn is_interrupted() -> bool {
    let pending = pending();
    if ends_calls(pending) {
        return true;
    }
    if pending != 0 {
        outside(pending, || ());
    }
    false
}

/// Returns whether a signal came meanwhile after which calls do not go on; no handler has its turn here.
pub(crate) fn is_to_leave() -> bool {
    ends_calls(pending())
}

fn ends_calls(signals: u64) -> bool {
    signals & !RESTARTED.load(Ordering::Relaxed) != 0
}

/// Signals that wait because the thread is inside.
fn pending() -> u64 {
    let mut pending = [0_u64];
    sys::call3(
        libc::SYS_rt_sigpending,
        pending.as_mut_ptr() as usize,
        SIGNALS_BYTES,
        0,
    );
    pending[0] & PENDING.get()
}

/// Does something with the signals blocked that were before the thread came inside.
pub(crate) fn with_own_signals<T>(work: impl FnOnce() -> T) -> T {
    outside(PENDING.get(), work)
}

/// Does something while these signals are not blocked, and handlers run as the program's.
fn outside<T>(signals: u64, work: impl FnOnce() -> T) -> T {
    let (depth, pending) = (DEPTH.replace(0), PENDING.get());
    let blocked = change(libc::SIG_UNBLOCK as usize, signals);
    let done = work();
    change(SET, blocked);
    PENDING.set(pending);
    DEPTH.set(depth);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_runs_outside() {
        static DEPTHS: AtomicU64 = AtomicU64::new(u64::MAX);
        extern "C" fn handler(_: libc::c_int) {
            DEPTHS.store(DEPTH.get().into(), Ordering::Relaxed);
        }
        let raise = || {
            // SAFETY: the signal has a handler by now, which touches an atomic number and a plain one.
            unsafe { libc::raise(libc::SIGUSR1) };
        };
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
        let action = [handler as *const () as usize, 0];
        handles(libc::SIGUSR1 as usize, action.as_ptr() as usize);
        handles(CHANGES_USER, action.as_ptr() as usize);
        assert_eq!(HANDLED.load(Ordering::Relaxed) >> (CHANGES_USER - 1), 0);
        let inside = enter();
        raise();
        assert_eq!(DEPTHS.load(Ordering::Relaxed), u64::MAX);
        with_own_signals(|| ());
        assert_eq!(DEPTHS.swap(u64::MAX, Ordering::Relaxed), 0);
        raise();
        drop(inside);
        assert_eq!(DEPTHS.load(Ordering::Relaxed), 0);
        assert_eq!(DEPTH.get(), 0);
    }
}
