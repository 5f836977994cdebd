//! Standard output, written by many threads.

use crate::executor::Executor;
use crate::progress::apart;
use pandofs_walk_fs::{Meter, Outputs};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a thread gathers before it writes them.
const GATHERED_BYTES: usize = 32 << 10;

/// Standard output. An error ends the walk, unless that does more than list.
#[derive(Clone, Debug)]
pub(crate) struct Output(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    meter: Arc<Meter>,
    /// The walk goes on without it.
    is_aside: AtomicBool,
    /// Nothing is written any more.
    is_broken: AtomicBool,
    failure: Mutex<Option<io::Error>>,
    target: Target,
}

/// Destination of output.
#[derive(Debug)]
enum Target {
    Standard {
        is_terminal: bool,
    },
    /// Something else is on standard output.
    Errors,
    File(File),
    /// A converter of whole records.
    Writer(Writer),
    /// The standard output of another process, or of all.
    Outputs(Outputs),
}

impl Target {
    fn standard() -> Target {
        let is_terminal = io::stdout().is_terminal();
        Target::Standard { is_terminal }
    }
}

struct Writer(Mutex<Box<dyn Write + Send>>);

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Output {
    /// Of the walk.
    pub(crate) fn new(meter: &Arc<Meter>, executor: &Executor<'_>) -> Output {
        let outputs = executor.outputs();
        Output::to(
            meter,
            outputs.map_or_else(Target::standard, Target::Outputs),
        )
    }

    /// To standard error.
    pub(crate) fn errors(meter: &Arc<Meter>) -> Output {
        Output::to(meter, Target::Errors)
    }

    /// To a file.
    pub(crate) fn file(meter: &Arc<Meter>, file: File) -> Output {
        Output::to(meter, Target::File(file))
    }

    /// To what takes whole records, some at a time.
    pub(crate) fn writer(meter: &Arc<Meter>, writer: impl Write + Send + 'static) -> Output {
        let writer = Writer(Mutex::new(Box::new(writer)));
        Output::to(meter, Target::Writer(writer))
    }

    /// For what comes after the end of all walks.
    pub(crate) fn last(meter: &Arc<Meter>) -> Output {
        Output::to(meter, Target::standard())
    }

    fn to(meter: &Arc<Meter>, target: Target) -> Output {
        Output(Arc::new(Shared {
            meter: Arc::clone(meter),
            is_aside: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            target,
            failure: Mutex::new(None),
        }))
    }

    /// Marks a list as a by-product: `rm -v TREE | head` is to remove all of the tree. When nothing
    /// can be written any more the walk goes on, and what would have been written is dropped.
    #[must_use]
    pub(crate) fn aside(self, is_aside: bool) -> Output {
        self.0.is_aside.store(is_aside, Ordering::Relaxed);
        if let Target::Outputs(outputs) = &self.0.target {
            outputs.set_aside(is_aside);
        }
        self
    }

    /// A thread's part of it.
    pub(crate) fn part(&self) -> Part {
        Part {
            output: self.clone(),
            gathered: Vec::new(),
        }
    }

    /// Writes a text at once.
    pub(crate) fn print(&self, text: &str) {
        let mut part = self.part();
        part.bytes().extend_from_slice(text.as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        // Not with a gap in it.
        if self.0.is_broken.load(Ordering::Relaxed) {
            return;
        }
        let written = match &self.0.target {
            Target::Standard { .. } => apart(|| {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }),
            Target::Errors => apart(|| io::stderr().lock().write_all(bytes)),
            // Whole records in one call: those of several threads do not mix.
            Target::File(file) => (&*file).write_all(bytes),
            Target::Writer(Writer(writer)) => {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                writer.write_all(bytes)
            }
            Target::Outputs(outputs) => {
                outputs.write(bytes.to_vec());
                Ok(())
            }
        };
        if let Err(error) = written {
            self.0.is_broken.store(true, Ordering::Relaxed);
            if !self.0.is_aside.load(Ordering::Relaxed) {
                self.0.meter.stop();
            }
            let mut failure = self
                .0
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// Returns whether all was written. The reader may have seen enough, which is no failure.
    ///
    /// # Errors
    /// The first that there was.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let failure = match &self.0.target {
            Target::Outputs(outputs) => outputs.failure(),
            _ => {
                let failure = self.0.failure.lock();
                failure.unwrap_or_else(PoisonError::into_inner).take()
            }
        };
        match failure {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Output of one thread: whole records, which do not mix with those of others.
#[derive(Debug)]
pub(crate) struct Part {
    output: Output,
    gathered: Vec<u8>,
}

impl Part {
    /// Returns the buffer that a record is appended to.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.gathered
    }

    /// A record is complete.
    pub(crate) fn end_record(&mut self) {
        // The user of a terminal wants to see it now.
        let is_seen =
            matches!(self.output.0.target, Target::Standard { is_terminal } if is_terminal);
        if is_seen || self.gathered.len() >= GATHERED_BYTES {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        if !self.gathered.is_empty() {
            self.output.write(&self.gathered);
            self.gathered.clear();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.flush();
    }
}
