//! Threads beside those that there are from the start: as many as requests wait for long.

use crate::reply::Way;
use crate::ring::{RingEntry, Slot};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A session, for requests under way.
pub(crate) trait Host: Send + Sync {
    /// A request that came by this way waits, or may.
    fn give_turn_away(&self, way: &Way);
    /// The same for long.
    fn begin_wait(self: Arc<Self>, way: &Way);
    /// Sends the answer that is in the entry while the request of the slot goes on.
    fn send_early(self: Arc<Self>, slot: &Slot, entry: RingEntry);
}

/// A thread of a session.
pub(crate) type Thread = JoinHandle<io::Result<()>>;

/// The spare threads of one session.
#[derive(Debug)]
pub(crate) struct Spares {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that wait for long.
    waiting: usize,
    /// Spare threads that have not ended.
    running: usize,
    threads: Vec<Thread>,
}

impl Spares {
    pub(crate) fn at_most(most: usize) -> Spares {
        Spares {
            most,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more request waits; `start` starts a thread.
    pub(crate) fn begin_wait(&self, start: impl FnOnce() -> io::Result<Thread>) {
        let mut state = self.state();
        state.waiting += 1;
        state.threads.retain(|thread| !thread.is_finished());
        if state.running >= state.waiting.min(self.most) {
            return;
        }
        match start() {
            Ok(thread) => {
                state.running += 1;
                state.threads.push(thread);
            }
            Err(error) => tracing::warn!(%error, "no thread in place of one that waits"),
        }
    }

    /// A wait ends. Returns whether there are too many spare threads now.
    pub(crate) fn end_wait(&self) -> bool {
        let mut state = self.state();
        state.waiting -= 1;
        state.running > state.waiting
    }

    /// Returns whether the spare thread that asks is one too many; then it is to end.
    pub(crate) fn ends(&self) -> bool {
        let mut state = self.state();
        let ends = state.running > state.waiting;
        state.running -= usize::from(ends);
        ends
    }

    /// A thread that does not count is to be waited for.
    pub(crate) fn add(&self, thread: Thread) {
        self.state().threads.push(thread);
    }

    pub(crate) fn take_thread(&self) -> Option<Thread> {
        self.state().threads.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// One more request waits; returns whether a thread is started for that.
    fn begins(spares: &Spares) -> bool {
        let mut is_started = false;
        spares.begin_wait(|| {
            is_started = true;
            Ok(thread::spawn(|| Ok(())))
        });
        is_started
    }

    #[test]
    fn there_are_as_many_spares_as_requests_that_wait_but_no_more_than_may_be() {
        let spares = Spares::at_most(2);
        assert!(!spares.ends(), "there are none");
        assert!(begins(&spares));
        assert!(begins(&spares));
        assert!(!begins(&spares));
        assert!(!spares.end_wait());
        assert!(!spares.ends(), "two wait");
        assert!(spares.end_wait());
        assert!(spares.ends());
        assert!(!spares.ends(), "one waits");
        assert!(begins(&spares));
        spares.end_wait();
        spares.end_wait();
        assert!(spares.ends() && spares.ends());
        assert!(!spares.ends());
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_not_counted() {
        let spares = Spares::at_most(2);
        spares.begin_wait(|| Err(io::Error::other("no threads")));
        assert!(!spares.ends());
        assert!(spares.take_thread().is_none());
        assert!(begins(&spares));
        let thread = spares.take_thread().expect("it was started");
        thread.join().unwrap().unwrap();
        // For the other that waits, though the first thread has ended.
        assert!(begins(&spares));
    }

    #[test]
    fn without_spares_none_is_started() {
        let spares = Spares::at_most(0);
        assert!(!begins(&spares));
        spares.end_wait();
        assert!(!spares.ends());
    }
}
