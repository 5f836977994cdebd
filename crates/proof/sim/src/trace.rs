//! Trace of a run, a line for each event.

use crate::scenario::{MICROSECOND, Moment};
use std::fmt::Write;

/// Lines, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<String>);

impl Trace {
    /// Keeps every line.
    pub fn kept() -> Trace {
        Trace(Some(String::new()))
    }

    /// Keeps none.
    pub fn none() -> Trace {
        Trace(None)
    }

    /// Written only if the trace is kept, with the moment in microseconds.
    pub fn line(&mut self, now: Moment, line: impl FnOnce() -> String) {
        if let Some(text) = &mut self.0 {
            let micros = now / MICROSECOND;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{micros:>10} {}", line());
        }
    }

    /// Every line, or nothing if the trace was not kept.
    pub fn into_text(self) -> String {
        self.0.unwrap_or_default()
    }
}
