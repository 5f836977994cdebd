//! Messages of `up`: to the person, and to its log.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the person and keeps a log.
#[derive(Debug)]
pub(crate) struct Voice {
    log: Option<File>,
    /// Only problems are shown; a command has the terminal.
    quiet: bool,
}

impl Voice {
    /// A log that cannot be opened is reported, once, and done without.
    pub(crate) fn new(log: &Path, quiet: bool) -> Voice {
        match OpenOptions::new().create(true).append(true).open(log) {
            Ok(file) => Voice {
                log: Some(file),
                quiet,
            },
            Err(error) => {
                eprintln!("pandofs: cannot write {}: {error}", log.display());
                Voice { log: None, quiet }
            }
        }
    }

    /// Something went as it should.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            eprintln!("pandofs: {text}");
        }
        self.log(text);
    }

    /// Something that is dealt with, but that the person may want to know. A command that has the
    /// terminal is not disturbed.
    pub(crate) fn warn(&mut self, text: &str) {
        self.note(text);
    }

    /// Something that needs the person.
    pub(crate) fn problem(&mut self, text: &str) {
        eprintln!("pandofs: {text}");
        self.log(text);
    }

    fn log(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            // A full disk must not stop the supervision; the person has seen the message.
            let _ = writeln!(log, "{}.{:03} {text}", now.as_secs(), now.subsec_millis());
        }
    }
}
