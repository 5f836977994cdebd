//! How far a walk is, for whoever looks from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters that are brought up to date once for each directory or slice, and a way to stop.
#[derive(Debug, Default)]
pub struct Meter {
    entries: AtomicU64,
    directories: AtomicU64,
    queued: AtomicU64,
    problems: AtomicU64,
    vanished: AtomicU64,
    stop: AtomicBool,
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

    /// Problems that were told to visitors.
    pub fn problems(&self) -> u64 {
        self.problems.load(Ordering::Relaxed)
    }

    /// Entries that were gone before they could be looked at.
    pub fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// Ends the walk after the entries that are being visited now. May be called in a signal handler's
    /// thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What another process has counted, or an earlier part of the walk: entries, directories, problems, vanished.
    pub fn add_all(&self, counted: [u64; 4]) {
        let [entries, directories, problems, vanished] = counted;
        self.add_entries(entries);
        self.directories.fetch_add(directories, Ordering::Relaxed);
        self.problems.fetch_add(problems, Ordering::Relaxed);
        self.vanished.fetch_add(vanished, Ordering::Relaxed);
    }

    /// What [`add_all`](Meter::add_all) takes.
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
