//! Writer of a recording's file.
//!
//! Threads that did something put its line into a buffer; one thread writes that to the file. Where
//! the disk cannot keep up, programs wait for it; where it is full or fails, the recording ends
//! there, and programs go on.

use super::event::{Event, Footer};
use crate::limits::{TRACE_WRITE_BYTES, TRACE_WRITE_INTERVAL};
use pandofs_client::trace::{self, Tracer};
use pandofs_types::limits::MAX_TRACE_WAITING_BYTES;
use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Numbers from here on are threads that named no caller.
const OWN_THREADS: u64 = 1 << 32;

static THREADS: AtomicU64 = AtomicU64::new(OWN_THREADS);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Records what the sessions that it [traces](pandofs_client::Client::trace) are asked for.
pub struct Recording {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<io::Result<u64>>>>,
}

/// A recording that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Lines with operations in the file.
    pub operations: u64,
}

struct Shared {
    begun: Instant,
    waiting: Mutex<Waiting>,
    /// There is much to write, or it is to end.
    to_write: Condvar,
    /// There is room again.
    written: Condvar,
    /// Nothing more is taken.
    is_over: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Number of lines put here so far.
    operations: u64,
    is_ending: bool,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

impl Recording {
    /// Begins, by writing the first line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn start(mut to: impl Write + Send + 'static) -> io::Result<Recording> {
        to.write_all(&super::header())?;
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            waiting: Mutex::default(),
            to_write: Condvar::new(),
            written: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let writer = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let result = shared.write(to);
                    if let Err(error) = &result {
                        tracing::error!(
                            "the recording ends here, and programs go on without it: {error}; \
                             what was recorded before can be used"
                        );
                    }
                    result
                }
            })?;
        Ok(Recording {
            shared,
            writer: Mutex::new(Some(writer)),
        })
    }

    #[cfg(test)]
    pub(super) fn shared_is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Why the recording had ended before.
    pub fn finish(&self) -> io::Result<Recorded> {
        self.shared.lock().is_ending = true;
        self.shared.to_write.notify_all();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = writer.take() else {
            return Err(io::Error::other("it has ended already"));
        };
        let result = writer
            .join()
            .map_err(|_| io::Error::other("its thread panicked"))?;
        result.map(|operations| Recorded { operations })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.shared.lock().is_ending = true;
        self.shared.to_write.notify_all();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // It has reported its errors.
        let _ = writer.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all lines and the last one. Returns the number of operations.
    fn write(&self, mut to: impl Write) -> io::Result<u64> {
        let mut lines = Vec::new();
        loop {
            let (operations, is_ending) = {
                let waiting = self.lock();
                let (mut waiting, _) = self
                    .to_write
                    .wait_timeout_while(waiting, TRACE_WRITE_INTERVAL, |waiting| {
                        waiting.lines.len() < TRACE_WRITE_BYTES && !waiting.is_ending
                    })
                    .unwrap_or_else(PoisonError::into_inner);
                std::mem::swap(&mut waiting.lines, &mut lines);
                (waiting.operations, waiting.is_ending)
            };
            self.written.notify_all();
            let written = to.write_all(&lines).and_then(|()| {
                if is_ending {
                    serde_json::to_writer(&mut to, &Footer { ended: operations })?;
                    to.write_all(b"\n")?;
                }
                to.flush()
            });
            if is_ending || written.is_err() {
                self.is_over.store(true, Ordering::Relaxed);
                // Under the lock: a thread that found no room either sees that it is over, or waits already.
                self.lock().lines = Vec::new();
                self.written.notify_all();
                return written.map(|()| operations);
            }
            lines.clear();
        }
    }

    fn put(&self, line: &[u8]) {
        let is_full = |waiting: &mut Waiting| {
            !waiting.lines.is_empty()
                && waiting.lines.len() + line.len() > MAX_TRACE_WAITING_BYTES
                && !self.is_over.load(Ordering::Relaxed)
        };
        let waiting = self.lock();
        let mut waiting = self
            .written
            .wait_while(waiting, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Relaxed) || waiting.is_ending {
            return;
        }
        let before = waiting.lines.len();
        waiting.lines.extend_from_slice(line);
        waiting.operations += 1;
        if before < TRACE_WRITE_BYTES && waiting.lines.len() >= TRACE_WRITE_BYTES {
            self.to_write.notify_one();
        }
    }
}

impl Tracer for Recording {
    fn record(&self, ended: &trace::Event<'_>) {
        if self.shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let since = |at: Instant| at.saturating_duration_since(self.shared.begun).as_nanos() as u64;
        let mut event = Event::of(ended);
        event.start = since(ended.begun);
        event.end = since(ended.ended);
        event.client = ended.caller.map_or_else(own_thread, u64::from);
        // Strings and numbers can be written.
        if let Ok(mut line) = serde_json::to_vec(&event) {
            line.push(b'\n');
            self.shared.put(&line);
        }
    }
}

/// This thread's number among those that named no caller.
fn own_thread() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}
