//! Batches: one call for each of many, on several threads.

use pandofs_handles::{Failure, Result};
use pandofs_types::FsError;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Threads of one batch: each has a request under way, and with it a connection.
pub(crate) const MAX_THREADS: usize = 64;
/// How often it is looked whether a signal has come, as by Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// State that the threads of a batch share.
struct Progress<T> {
    next: AtomicUsize,
    is_over: AtomicBool,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Threads that are not done.
    running: usize,
    results: Vec<Option<Result<T>>>,
}

/// Does the work for all items, on so many threads, each of which takes as many items at a time as a group has, while other
/// threads of Python go on. The work is given the place of the first of its items. Answers in the order of the items.
///
/// # Errors
/// The exception that the handler of a signal raises: then some of the work is done and some is not.
pub(crate) fn each<I: Sync, T: Send>(
    py: Python<'_>,
    items: &[I],
    (threads, group): (usize, usize),
    work: impl Fn(usize, &[I]) -> Vec<Result<T>> + Sync,
) -> PyResult<Vec<Result<T>>> {
    let group = NonZeroUsize::new(group).unwrap_or(NonZeroUsize::MIN);
    let groups = items.len().div_ceil(group.get());
    let progress = Progress {
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        state: Mutex::new(State {
            running: 0,
            results: items.iter().map(|_| None).collect(),
        }),
        changed: Condvar::new(),
    };
    let (progress, work) = (&progress, &work);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, MAX_THREADS).min(groups) {
            progress.state().running += 1;
            let run = move || {
                let _end = End(progress);
                progress.run(items, group.get(), work);
            };
            let name = "pandofs-batch".to_owned();
            if thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, run)
                .is_err()
            {
                // The others do it, if there are others.
                progress.state().running -= 1;
                break;
            }
        }
        while !py.detach(|| progress.has_ended()) {
            if let Err(raised) = py.check_signals() {
                progress.is_over.store(true, Ordering::Relaxed);
                while !py.detach(|| progress.has_ended()) {}
                return Err(raised);
            }
        }
        Ok(())
    })?;
    let results = std::mem::take(&mut progress.state().results);
    let undone = || Err(Failure::from(FsError::WouldBlock));
    Ok(results
        .into_iter()
        .map(|result| result.unwrap_or_else(undone))
        .collect())
}

impl<T> Progress<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<I>(&self, items: &[I], group: usize, work: impl Fn(usize, &[I]) -> Vec<Result<T>>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(group, Ordering::Relaxed);
            let Some(rest) = items.get(first..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let results = work(first, &rest[..group.min(rest.len())]);
            let mut state = self.state();
            for (place, result) in (first..).zip(results) {
                state.results[place] = Some(result);
            }
        }
    }

    /// Waits until all threads are done, or it is time to look for a signal.
    fn has_ended(&self) -> bool {
        let state = self.state();
        let waited = self
            .changed
            .wait_timeout_while(state, SIGNAL_INTERVAL, |state| state.running > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.running == 0
    }
}

/// The end of a thread, however it comes.
struct End<'p, T>(&'p Progress<T>);

impl<T> Drop for End<'_, T> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.changed.notify_all();
    }
}
