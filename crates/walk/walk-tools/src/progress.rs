//! Progress line, on a terminal and only when a walk takes a while.
//!
//! Other output there goes meanwhile through [`apart`], which takes the line away before
//! it; it is drawn again later.

use crate::text;
use pandofs_walk_fs::Meter;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Before the line is drawn for the first time, unless [`PATIENCE_VARIABLE`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(2);
/// The variable of the environment that says so, in seconds.
const PATIENCE_VARIABLE: &str = "PANDOFS_PROGRESS_AFTER";
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(250);

/// Draws until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Draws nothing unless standard error is a terminal that nothing else `shares`, as commands
    /// and questions do, or the line was asked for.
    pub(crate) fn start(meter: &Arc<Meter>, shares: bool) -> Progress {
        let is_alone = || !shares && std::io::stderr().is_terminal();
        if !meter.is_watched() && !is_alone() {
            return Progress {
                stop: None,
                thread: None,
            };
        }
        meter.watch();
        let (stop, stopped) = channel();
        let meter = Arc::clone(meter);
        let thread = std::thread::Builder::new().name("progress".into());
        let thread = thread.spawn(move || {
            let started = Instant::now();
            let mut wait = patience(std::env::var(PATIENCE_VARIABLE).ok());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                wait = INTERVAL;
                draw(&line(&meter, started.elapsed()));
            }
            apart(|| ());
        });
        Progress {
            stop: Some(stop),
            // Without it there is no line, which is all.
            thread: thread.ok(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the delay. A senseless value is ignored: it is only about when a line is drawn.
fn patience(seconds: Option<String>) -> Duration {
    let seconds = seconds.and_then(|text| text.parse().ok());
    let patience = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    patience.unwrap_or(PATIENCE)
}

/// Whether the line is on the terminal.
static IS_DRAWN: Mutex<bool> = Mutex::new(false);

fn draw(line: &str) {
    let mut is_drawn = IS_DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut err = std::io::stderr().lock();
    let columns = rustix::termios::tcgetwinsize(&err).map_or(0, |size| usize::from(size.ws_col));
    let _ = write!(err, "\r{}\x1b[K", cut(line, columns));
    *is_drawn = true;
}

/// A line that is longer than the terminal is wide would take another row, and leave it there. (0:
/// of unknown width.)
fn cut(line: &str, columns: usize) -> &str {
    // The last column makes some terminals go to the next row.
    let longest = columns.saturating_sub(1);
    match line.char_indices().nth(longest) {
        Some((end, _)) if columns > 0 => &line[..end],
        _ => line,
    }
}

/// Writes something else to the terminal, and not after the line.
pub(crate) fn apart<R>(write: impl FnOnce() -> R) -> R {
    let mut is_drawn = IS_DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *is_drawn) {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
    write()
}

fn line(meter: &Meter, elapsed: Duration) -> String {
    let so_far = meter.so_far_of_all();
    let [entries, _, problems, _] = so_far.counted;
    let rate = entries as f64 / elapsed.as_secs_f64().max(0.001);
    let problems = match problems {
        0 => String::new(),
        count => format!(", {} problems", text::count(count)),
    };
    format!(
        "{} entries, {}/s, {} queued{problems}",
        text::count(entries),
        text::count(rate as u64),
        text::count(so_far.queued)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_seconds() {
        let of = |text: &str| patience(Some(text.to_owned()));
        assert_eq!(patience(None), PATIENCE);
        assert_eq!(of("0"), Duration::ZERO);
        assert_eq!(of("0.25"), Duration::from_millis(250));
        for wrong in ["", "soon", "-1", "NaN", "1e300"] {
            assert_eq!(of(wrong), PATIENCE, "{wrong}");
        }
    }

    #[test]
    fn a_line_keeps_to_its_row() {
        for (columns, expected) in [(0, "12,000 é"), (9, "12,000 é"), (8, "12,000 "), (1, "")] {
            assert_eq!(cut("12,000 é", columns), expected, "{columns} columns");
        }
    }

    #[test]
    fn the_line_has_what_all_processes_have() {
        let meter = Meter::default();
        meter.add_all([12_000, 5, 0, 0]);
        let text = line(&meter, Duration::from_secs(2));
        assert_eq!(text, "12,000 entries, 6,000/s, 0 queued");
        meter.add_problem();
        assert!(line(&meter, Duration::from_secs(2)).ends_with(", 1 problems"));
    }
}
