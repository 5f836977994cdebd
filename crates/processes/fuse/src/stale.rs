//! Threads of programs that got `ESTALE`: what they had looked up was gone when they used it.
//!
//! The kernel hides that from a program once: it looks the whole path up again and asks again
//! (`do_filp_open` and `retry_estale` in Linux). Where a name is given to one file after the other
//! by `rename`, that may be gone as well, and the program would see an error where POSIX promises
//! that there is always a file of this name. So what such a thread looks up next is held open until
//! it has been used.

use crate::limits::MAX_STALE_THREADS;
use pandofs_types::limits::HOLD;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Threads that may be looking again, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    threads: Mutex<VecDeque<(u32, Instant)>>,
    /// Their number: nearly always none, and then the lock is not taken.
    count: AtomicUsize,
}

impl Stale {
    /// Notes that a thread is about to get `ESTALE`.
    pub(crate) fn tells(&self, thread: u32, now: Instant) {
        let mut threads = self.threads();
        threads.retain(|(other, _)| *other != thread);
        if threads.len() == MAX_STALE_THREADS {
            threads.pop_front();
        }
        threads.push_back((thread, now));
        self.count.store(threads.len(), Ordering::SeqCst);
    }

    /// Returns whether this thread got it and may be looking again: the path may have several
    /// names, so it is no more than not too long ago.
    pub(crate) fn looks_again(&self, thread: u32, now: impl FnOnce() -> Instant) -> bool {
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let now = now();
        let mut threads = self.threads();
        threads.retain(|(_, told)| now < *told + HOLD);
        self.count.store(threads.len(), Ordering::SeqCst);
        threads.iter().any(|(other, _)| *other == thread)
    }

    fn threads(&self) -> MutexGuard<'_, VecDeque<(u32, Instant)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_told_looks_again_for_a_while() {
        let stale = Stale::default();
        let now = Instant::now();
        assert!(!stale.looks_again(7, || now));
        stale.tells(7, now);
        assert!(stale.looks_again(7, || now));
        assert!(!stale.looks_again(8, || now));
        stale.tells(7, now + HOLD / 2);
        assert!(stale.looks_again(7, || now + HOLD));
        assert!(!stale.looks_again(7, || now + HOLD * 2));
    }

    #[test]
    fn the_oldest_makes_room() {
        let stale = Stale::default();
        let now = Instant::now();
        for thread in 0..=MAX_STALE_THREADS as u32 {
            stale.tells(thread, now);
        }
        assert!(!stale.looks_again(0, || now));
        assert!((1..=MAX_STALE_THREADS as u32).all(|thread| stale.looks_again(thread, || now)));
    }
}
