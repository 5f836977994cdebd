//! Progress of a walk, for observers outside of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters that are brought up to date once for each directory or slice, and a way to stop.
#[derive(Debug, Default)]
pub struct Meter {
    entries: AtomicU64,
    directories: AtomicU64,
    queued: AtomicU64,
    problems: AtomicU64,
    vanished: AtomicU64,
    stop: AtomicBool,
    watched: AtomicBool,
    /// Last reports of other processes.
    others: Mutex<BTreeMap<u32, SoFar>>,
}

/// Progress of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Entries, directories, problems, vanished.
    pub counted: [u64; 4],
    /// Items that wait.
    pub queued: u64,
}

impl Meter {
    /// Entries that were shown to visitors.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Directories that were listed.
    pub fn directories(&self) -> u64 {
        self.directories.load(Ordering::Relaxed)
    }

    /// Items that waited when somebody last looked: of the rank that changed last.
    pub fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Problems that visitors got.
    pub fn problems(&self) -> u64 {
        self.problems.load(Ordering::Relaxed)
    }

    /// Entries that were gone before they could be looked at.
    pub fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// Ends the walk after the entries that are being visited now. May be called in a signal
    /// handler's thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether the walk is to end before it is complete.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Somebody looks how far the walk is: other processes are asked to say so.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Returns whether somebody reads the counts, so that they are worth keeping.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Returns how far this process is.
    pub fn so_far(&self) -> SoFar {
        SoFar {
            counted: self.all(),
            queued: self.queued(),
        }
    }

    /// Returns how far all processes are, as far as it is known here.
    pub fn so_far_of_all(&self) -> SoFar {
        let mut sum = self.so_far();
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        for other in others.values() {
            for (sum, count) in sum.counted.iter_mut().zip(other.counted) {
                *sum += count;
            }
            sum.queued += other.queued;
        }
        sum
    }

    pub(crate) fn heard_of(&self, rank: u32, so_far: SoFar) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.insert(rank, so_far);
    }

    /// Adds the counts of another process or an earlier part: entries, directories, problems,
    /// vanished.
    pub fn add_all(&self, counted: [u64; 4]) {
        let [entries, directories, problems, vanished] = counted;
        self.add_entries(entries);
        self.directories.fetch_add(directories, Ordering::Relaxed);
        self.problems.fetch_add(problems, Ordering::Relaxed);
        self.vanished.fetch_add(vanished, Ordering::Relaxed);
    }

    /// Returns the counts that [`add_all`](Meter::add_all) takes.
    pub fn all(&self) -> [u64; 4] {
        [
            self.entries(),
            self.directories(),
            self.problems(),
            self.vanished(),
        ]
    }

    /// Something that a visitor could not do with an entry counts as well.
    pub fn add_problem(&self) {
        self.problems.fetch_add(1, Ordering::Relaxed);
    }

    /// Entries of a job that is no walk count as well.
    pub fn count_entries(&self, count: u64) {
        self.add_entries(count);
    }

    /// So does an entry that was gone when the visitor came to it.
    pub fn add_vanished(&self) {
        self.vanished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_entries(&self, count: u64) {
        self.entries.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_directory(&self) {
        self.directories.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_queued(&self, items: u64) {
        self.queued.store(items, Ordering::Relaxed);
    }
}
