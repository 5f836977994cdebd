//! A line that tells how far a walk is: on a terminal, and only when it takes a while.

use crate::text;
use pandofs_walk_fs::Meter;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Before the line is drawn for the first time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(250);

/// Draws until it is dropped.
#[derive(Debug)]
pub struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Draws nothing unless standard error is a terminal and standard output, if the tool lists there, is none.
    pub fn start(meter: &Arc<Meter>, lists: bool) -> Progress {
        if !std::io::stderr().is_terminal() || (lists && std::io::stdout().is_terminal()) {
            return Progress {
                stop: None,
                thread: None,
            };
        }
        let (stop, stopped) = channel();
        let meter = Arc::clone(meter);
        let thread = std::thread::Builder::new().name("progress".into());
        let thread = thread.spawn(move || {
            let started = Instant::now();
            let mut wait = PATIENCE;
            let mut drawn = false;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
                wait = INTERVAL;
                drawn = true;
                draw(&line(&meter, started.elapsed()));
            }
            if drawn {
                draw("");
            }
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

fn draw(line: &str) {
    let _ = write!(std::io::stderr().lock(), "\r{line}\x1b[K");
}

fn line(meter: &Meter, elapsed: Duration) -> String {
    let entries = meter.entries();
    let rate = entries as f64 / elapsed.as_secs_f64().max(0.001);
    let problems = match meter.problems() {
        0 => String::new(),
        count => format!(", {} problems", text::count(count)),
    };
    format!(
        "{} entries, {}/s, {} queued{problems}",
        text::count(entries),
        text::count(rate as u64),
        text::count(meter.queued())
    )
}
