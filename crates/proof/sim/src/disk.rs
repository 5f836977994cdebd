//! A server's log, which counts what is done to it, may be full, and may be where the server dies.

use pandofs_storage::log::{Entry, Log, LogError, MemoryLog, Visit};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`MemoryLog`] whose appends are steps of a server.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    log: MemoryLog,
    /// Every record of each stream from the first on, also those that the log need not keep any more.
    all: Mutex<BTreeMap<u64, Vec<Vec<u8>>>>,
    /// Steps until the server dies; [`NEVER`] for not at all.
    countdown: AtomicU32,
    full: AtomicBool,
}

const NEVER: u32 = u32::MAX;
/// Error of an append in whose course the server died.
const DIED: &str = "the server died";

impl Disk {
    pub(crate) fn new() -> Disk {
        Disk::with(MemoryLog::new())
    }

    fn with(log: MemoryLog) -> Disk {
        Disk {
            log,
            all: Mutex::default(),
            countdown: AtomicU32::new(NEVER),
            full: AtomicBool::new(false),
        }
    }

    /// The remains after a crash, see [`MemoryLog::crash`]; full if it was.
    pub(crate) fn crash(&self, keep_unsynced: usize, torn: bool) -> Disk {
        let mut disk = Disk::with(self.log.crash(keep_unsynced, torn));
        disk.all = Mutex::new(self.records().clone());
        disk.set_full(self.full.load(Ordering::Relaxed));
        disk
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<Vec<u8>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a stream, from index 1 on.
    pub(crate) fn all(&self, stream: u64) -> Vec<Vec<u8>> {
        self.records().get(&stream).cloned().unwrap_or_default()
    }

    /// A server has started and is at this record: later ones were lost. (Earlier ones that the log has lost as well
    /// had reached the store.)
    pub(crate) fn goes_on_after(&self, stream: u64, applied: u64) {
        let mut records = self.records();
        let records = records.entry(stream).or_default();
        assert!(records.len() as u64 >= applied, "records came from nowhere");
        records.truncate(applied as usize);
    }

    pub(crate) fn memory(&self) -> &MemoryLog {
        &self.log
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Dies at the step after this many.
    pub(crate) fn die_after(&self, steps: u32) {
        self.countdown.store(steps, Ordering::Relaxed);
    }

    /// Does not die after all.
    pub(crate) fn live(&self) {
        self.countdown.store(NEVER, Ordering::Relaxed);
    }

    pub(crate) fn is_dying(&self) -> bool {
        self.countdown.load(Ordering::Relaxed) != NEVER
    }

    /// One step is to be made; whether the server dies before it.
    pub(crate) fn dies_here(&self) -> bool {
        match self.countdown.load(Ordering::Relaxed) {
            NEVER => false,
            0 => true,
            left => {
                self.countdown.store(left - 1, Ordering::Relaxed);
                false
            }
        }
    }

    fn died() -> LogError {
        LogError::Io {
            path: PathBuf::new(),
            reason: DIED.to_owned(),
        }
    }
}

impl Log for Disk {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        if self.dies_here() {
            return Err(Disk::died());
        }
        if self.full.load(Ordering::Relaxed) {
            return Err(LogError::Full {
                path: PathBuf::new(),
            });
        }
        self.log.append(entries)?;
        let mut all = self.records();
        // An empty one stands for those that the store has and the log has lost.
        for entry in entries.iter().filter(|entry| !entry.payload.is_empty()) {
            let records = all.entry(entry.stream).or_default();
            assert_eq!(
                entry.index,
                records.len() as u64 + 1,
                "a record is left out"
            );
            records.push(entry.payload.to_vec());
        }
        drop(all);
        if self.dies_here() {
            return Err(Disk::died());
        }
        Ok(())
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
