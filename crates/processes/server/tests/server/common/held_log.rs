//! A log on a disk that is as slow as the test wants.

use super::DEADLINE;
use pandofs_storage::log::{Entry, Log, LogError, MemoryLog};
use std::sync::{Arc, Condvar, Mutex};

/// Syncs of a server that starts: of what was replayed, and of what its recovery wrote. They count as one.
const AT_START: u64 = 2;

/// A log whose syncs wait until they are let go.
pub(crate) struct HeldLog {
    /// Its contents.
    pub log: MemoryLog,
    /// A test that has it keeps the lane from appending.
    pub appends: Mutex<()>,
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    /// Syncs that have begun.
    begun: u64,
    /// Syncs that may end.
    allowed: u64,
    fails: bool,
}

impl HeldLog {
    pub(crate) fn new() -> Arc<HeldLog> {
        // Those at start go through.
        let state = Mutex::new(Held {
            allowed: AT_START,
            ..Held::default()
        });
        Arc::new(HeldLog {
            log: MemoryLog::new(),
            appends: Mutex::default(),
            state,
            changed: Condvar::new(),
        })
    }

    pub(crate) fn begun(&self) -> u64 {
        (self.state.lock().unwrap().begun + 1).saturating_sub(AT_START)
    }

    pub(crate) fn allow(&self, syncs: u64) {
        self.state.lock().unwrap().allowed = syncs.saturating_add(AT_START - 1);
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self) {
        self.state.lock().unwrap().fails = true;
        self.allow(u64::MAX);
    }
}

impl Log for HeldLog {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        let _may = self.appends.lock().unwrap();
        self.log.append(entries)
    }
    fn sync(&self) -> Result<(), LogError> {
        // Records that are appended while it waits are not covered.
        let done = self.log.sync();
        let mut state = self.state.lock().unwrap();
        state.begun += 1;
        let own = state.begun;
        while state.allowed < own {
            let (guard, timeout) = self.changed.wait_timeout(state, DEADLINE).unwrap();
            assert!(!timeout.timed_out(), "nobody lets the sync go");
            state = guard;
        }
        if state.fails {
            let reason = "on purpose".to_owned();
            return Err(LogError::Failed {
                path: "log".into(),
                reason,
            });
        }
        done
    }
    fn read(
        &self,
        stream: u64,
        from: u64,
        visit: &mut pandofs_storage::log::Visit<'_>,
    ) -> Result<(), LogError> {
        self.log.read(stream, from, visit)
    }
    fn span(&self, stream: u64) -> Option<(u64, u64)> {
        self.log.span(stream)
    }
    fn next_index(&self, stream: u64) -> Option<u64> {
        self.log.next_index(stream)
    }
    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError> {
        self.log.prune(stream, upto)
    }
    fn reclaim(&self) -> Result<(), LogError> {
        self.log.reclaim()
    }
    fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}
