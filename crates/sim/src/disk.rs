//! A server's log, which counts what is done to it, may be full, and may be where the server dies.

use pandofs_log::{Entry, Log, LogError, MemoryLog, Visit};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A [`MemoryLog`] whose appends are steps of a server.
#[derive(Debug, Default)]
pub struct Disk {
    log: MemoryLog,
    /// Steps until the server dies; [`NEVER`] for not at all.
    countdown: AtomicU32,
    full: AtomicBool,
}

const NEVER: u32 = u32::MAX;
/// What an append says in whose course the server died.
const DIED: &str = "the server died";

impl Disk {
    pub fn new() -> Disk {
        Disk::with(MemoryLog::new())
    }

    fn with(log: MemoryLog) -> Disk {
        Disk {
            log,
            countdown: AtomicU32::new(NEVER),
            full: AtomicBool::new(false),
        }
    }

    /// What a crash leaves of it, see [`MemoryLog::crash`]; full if it was.
    pub fn crash(&self, keep_unsynced: usize, torn: bool) -> Disk {
        let disk = Disk::with(self.log.crash(keep_unsynced, torn));
        disk.set_full(self.full.load(Ordering::Relaxed));
        disk
    }

    pub fn memory(&self) -> &MemoryLog {
        &self.log
    }

    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Dies at the step after this many.
    pub fn die_after(&self, steps: u32) {
        self.countdown.store(steps, Ordering::Relaxed);
    }

    /// Does not die after all.
    pub fn live(&self) {
        self.countdown.store(NEVER, Ordering::Relaxed);
    }

    pub fn is_dying(&self) -> bool {
        self.countdown.load(Ordering::Relaxed) != NEVER
    }

    /// One step is to be made; whether the server dies before it.
    pub fn dies_here(&self) -> bool {
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
