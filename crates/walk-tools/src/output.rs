//! Standard output, written by many threads.

use crate::crew::Crew;
use pandofs_walk_fs::{Meter, Outputs};
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a thread gathers before it writes them.
const GATHERED_BYTES: usize = 32 << 10;

/// Standard output. What goes wrong ends the walk.
#[derive(Clone, Debug)]
pub struct Output(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    meter: Arc<Meter>,
    failure: Mutex<Option<io::Error>>,
    /// The standard output of another process, or of all.
    outputs: Option<Outputs>,
    /// It goes to standard error: something else is on standard output.
    errors: bool,
}

impl Output {
    /// Of the walk.
    pub fn new(meter: &Arc<Meter>, crew: &Crew<'_>) -> Output {
        Output::to(meter, crew.outputs(), false)
    }

    /// To standard error.
    pub fn errors(meter: &Arc<Meter>) -> Output {
        Output::to(meter, None, true)
    }

    /// For what comes after the end of all walks.
    pub fn last(meter: &Arc<Meter>) -> Output {
        Output::to(meter, None, false)
    }

    fn to(meter: &Arc<Meter>, outputs: Option<Outputs>, errors: bool) -> Output {
        Output(Arc::new(Shared {
            meter: Arc::clone(meter),
            outputs,
            errors,
            failure: Mutex::new(None),
        }))
    }

    /// A thread's part of it.
    pub fn part(&self) -> Part {
        Part {
            output: self.clone(),
            gathered: Vec::new(),
        }
    }

    /// Writes a text at once.
    pub fn print(&self, text: &str) {
        let mut part = self.part();
        part.bytes().extend_from_slice(text.as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        if let Some(outputs) = &self.0.outputs {
            return outputs.write(bytes.to_vec());
        }
        let written = if self.0.errors {
            io::stderr().lock().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        if let Err(error) = written {
            self.0.meter.stop();
            let mut failure = self
                .0
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    }

    /// Whether all was written. Whoever reads may have seen enough, which is no failure.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(&self) -> io::Result<()> {
        let mut failure = self
            .0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// What one thread writes: whole records, which do not mix with those of others.
#[derive(Debug)]
pub struct Part {
    output: Output,
    gathered: Vec<u8>,
}

impl Part {
    /// Where a record is appended.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.gathered
    }

    /// A record is complete.
    pub fn end_record(&mut self) {
        if self.gathered.len() >= GATHERED_BYTES {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
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
