//! A log in memory that can crash.

mod image;
mod streams;

use crate::log::{Entry, Log, LogError, Visit};
use pandofs_types::limits::MAX_LOG_APPEND_BYTES;
use std::sync::{Mutex, MutexGuard, PoisonError};
use streams::{Operation, OwnedEntry, Streams};

/// A log for tests and the simulator. It keeps what was synced apart from what was not, so that
/// [`MemoryLog::crash`] can lose any suffix of the unsynced appends.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Streams,
    synced: Streams,
    /// Oldest first: `synced` with these applied is `current`.
    unsynced: Vec<Operation>,
}

impl State {
    fn apply(&mut self, operation: Operation) {
        self.current.apply(&operation);
        self.unsynced.push(operation);
    }
}

impl MemoryLog {
    /// Empty, with nothing synced.
    pub fn new() -> MemoryLog {
        MemoryLog::default()
    }

    /// Returns the log after a crash: all that was synced, then the first `keep_unsynced` unsynced
    /// appends and the prunes between them. With more than there are, as after a mere kill of the
    /// process, nothing is lost; otherwise the prunes after the last append that was kept are.
    ///
    /// With `torn`, half of the next append's bytes reached the disk too; opening the log has to
    /// drop them. This log is untouched.
    pub fn crash(&self, keep_unsynced: usize, torn: bool) -> MemoryLog {
        let state = self.lock();
        let mut disk = Vec::new();
        let mut kept = 0;
        for operation in &state.unsynced {
            let is_append = matches!(operation, Operation::Append(_));
            if kept == keep_unsynced {
                if !is_append {
                    continue;
                }
                if torn {
                    let start = disk.len();
                    image::encode(operation, &mut disk);
                    disk.truncate(start + (disk.len() - start) / 2);
                }
                break;
            }
            image::encode(operation, &mut disk);
            kept += usize::from(is_append);
        }
        let mut survived = state.synced.clone();
        for operation in image::decode(&disk) {
            survived.apply(&operation);
        }
        let state = State {
            current: survived.clone(),
            synced: survived,
            unsynced: Vec::new(),
        };
        MemoryLog {
            state: Mutex::new(state),
        }
    }

    /// Syncs the first `appends` unsynced appends and the prunes before the next one: a sync that began when
    /// there were that many, and ends now.
    pub fn sync_first(&self, appends: usize) {
        let mut state = self.lock();
        let mut seen = 0;
        let covered = state.unsynced.iter().take_while(|operation| {
            seen += usize::from(matches!(operation, Operation::Append(_)));
            seen <= appends
        });
        let covered = covered.count();
        for operation in state.unsynced.drain(..covered).collect::<Vec<_>>() {
            state.synced.apply(&operation);
        }
    }

    /// The number of appends that a crash may lose.
    pub fn unsynced(&self) -> usize {
        let state = self.lock();
        let appends = |operation: &&Operation| matches!(operation, Operation::Append(_));
        state.unsynced.iter().filter(appends).count()
    }

    /// The state is whole whenever the lock is let go of, also by the panic of an append that does
    /// not continue its stream: that is found before anything is changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for MemoryLog {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
        if bytes > MAX_LOG_APPEND_BYTES {
            return Err(LogError::TooLarge {
                bytes,
                limit: MAX_LOG_APPEND_BYTES,
            });
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut state = self.lock();
        state.current.assert_continued_by(entries);
        let owned = entries.iter().map(OwnedEntry::from).collect();
        state.apply(Operation::Append(owned));
        Ok(())
    }

    fn sync(&self) -> Result<(), LogError> {
        let mut state = self.lock();
        for operation in std::mem::take(&mut state.unsynced) {
            state.synced.apply(&operation);
        }
        Ok(())
    }

    fn read(&self, stream: u64, from: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
        let entries = self.lock().current.from(stream, from);
        for (index, payload) in entries {
            visit(index, &payload)?;
        }
        Ok(())
    }

    fn span(&self, stream: u64) -> Option<(u64, u64)> {
        self.lock().current.span(stream)
    }

    fn next_index(&self, stream: u64) -> Option<u64> {
        self.lock().current.next_index(stream)
    }

    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError> {
        assert!(upto < u64::MAX, "no entry could follow");
        self.lock().apply(Operation::Prune { stream, upto });
        Ok(())
    }

    fn reclaim(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// The bytes of all payloads.
    fn bytes(&self) -> u64 {
        self.lock().current.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::suite::{self, ReopenableLog, contents};

    /// Keeps `keep` unsynced appends whenever it crashes.
    struct Crashing {
        log: MemoryLog,
        keep: usize,
        torn: bool,
    }

    impl Log for Crashing {
        fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
            self.log.append(entries)
        }
        fn sync(&self) -> Result<(), LogError> {
            self.log.sync()
        }
        fn read(&self, stream: u64, from: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
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

    impl ReopenableLog for Crashing {
        fn close_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog> {
            self.log.sync().expect("sync");
            self.crash_and_reopen()
        }
        fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog> {
            let log = self.log.crash(self.keep, self.torn);
            Box::new(Crashing { log, ..*self })
        }
    }

    #[test]
    fn passes_the_suite_whatever_a_crash_keeps() {
        for keep in [0, 1, 3, 17, usize::MAX] {
            for torn in [false, true] {
                suite::run(&|| {
                    let log = MemoryLog::new();
                    Box::new(Crashing { log, keep, torn })
                });
            }
        }
    }

    /// Appends one entry to each of streams 1 and 2.
    fn append_pair(log: &MemoryLog, index: u64) {
        let payload = [index as u8; 40];
        let entries = [1, 2].map(|stream| Entry {
            stream,
            index,
            payload: &payload,
        });
        log.append(&entries).expect("append");
    }

    /// The pairs that the store has instead of them may be lost as well.
    #[test]
    fn a_crash_loses_prunes_after_the_last_append_that_it_keeps() {
        let log = MemoryLog::new();
        append_pair(&log, 1);
        log.sync().expect("sync");
        append_pair(&log, 2);
        log.prune(1, 1).expect("prune");
        for (keep, first) in [(0, 1), (1, 1), (2, 2)] {
            let span = log.crash(keep, false).span(1).expect("entries");
            assert_eq!(span.0, first, "keep {keep}");
        }
    }

    #[test]
    fn a_crash_keeps_as_many_appends_as_told() {
        let log = MemoryLog::new();
        for index in 1..=2 {
            append_pair(&log, index);
        }
        log.sync().expect("sync");
        for index in 3..=6 {
            append_pair(&log, index);
        }
        assert_eq!(log.unsynced(), 4);
        for keep in 0..=6 {
            for torn in [false, true] {
                let left = log.crash(keep, torn);
                let last = 2 + keep.min(4) as u64;
                assert_eq!(left.span(1), Some((1, last)), "keep {keep}, torn {torn}");
                assert_eq!(left.span(2), Some((1, last)), "keep {keep}, torn {torn}");
                assert_eq!(left.unsynced(), 0);
                assert_eq!(contents(&left, 2).len() as u64, last);
                append_pair(&left, last + 1);
            }
        }
        assert_eq!(log.span(1), Some((1, 6)), "the crashed log is untouched");
    }

    #[test]
    fn a_sync_covers_what_was_appended_before_it_began() {
        let log = MemoryLog::new();
        for index in 1..=3 {
            append_pair(&log, index);
        }
        log.sync_first(2);
        assert_eq!(log.unsynced(), 1);
        assert_eq!(log.crash(0, false).span(1), Some((1, 2)));
        log.sync_first(9);
        assert_eq!(log.crash(0, false).span(1), Some((1, 3)));
    }

    #[test]
    fn a_torn_append_leaves_nothing_although_its_first_entries_are_whole() {
        let log = MemoryLog::new();
        let payload = [7; 10];
        let entries: Vec<Entry<'_>> = (1..=100)
            .map(|index| Entry {
                stream: 1,
                index,
                payload: &payload,
            })
            .collect();
        log.append(&entries).expect("append");
        assert_eq!(log.crash(0, true).span(1), None);
        assert_eq!(log.crash(1, true).span(1), Some((1, 100)));
    }

    #[test]
    fn a_crash_undoes_prunes_that_came_after_what_it_kept() {
        let log = MemoryLog::new();
        append_pair(&log, 1);
        append_pair(&log, 2);
        log.sync().expect("sync");
        log.prune(1, 1).expect("prune");
        append_pair(&log, 3);
        log.prune(1, 3).expect("prune");
        assert_eq!(log.span(1), None);
        assert_eq!(log.crash(0, false).span(1), Some((1, 2)));
        assert_eq!(log.crash(1, false).span(1), Some((2, 3)));
        assert_eq!(log.crash(2, false).span(1), None);
        assert_eq!(log.crash(2, false).next_index(1), Some(4));
    }
}
