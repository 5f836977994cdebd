//! What all tools do around a walk.

use crate::outcome::Outcome;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::shown;
use anyhow::{Context, Result};
use pandofs_walk_fs::{Meter, Options, Problem, Visitor, walk};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A walk that has ended.
pub struct Ran<V> {
    pub visitors: Vec<V>,
    pub meter: Arc<Meter>,
    pub elapsed: Duration,
    pub interrupted: bool,
}

impl<V> Ran<V> {
    /// How the tool ends, if nothing but the walk went wrong.
    pub fn outcome(&self) -> Outcome {
        if self.interrupted {
            Outcome::Interrupted
        } else if self.meter.problems() > 0 {
            Outcome::Incomplete
        } else {
            Outcome::Done
        }
    }
}

/// Walks, with a progress line, until the end or Ctrl-C. `lists` is whether the tool writes to standard output
/// meanwhile. `make` makes a visitor for each thread.
///
/// # Errors
/// When the walk is not complete for another reason than that some entries cannot be read.
pub fn run<V: Visitor>(
    roots: &[OsString],
    options: &Options,
    lists: bool,
    make: impl FnMut(usize) -> V,
) -> Result<Ran<V>> {
    let meter = Arc::clone(&options.meter);
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot take signals")?;
    let handle = signals.handle();
    let listener = {
        let (meter, interrupted) = (Arc::clone(&meter), Arc::clone(&interrupted));
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if interrupted.swap(true, Ordering::Relaxed) {
                        // The second time there is no patience left.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    meter.stop();
                }
            })
            .context("cannot start a thread")?
    };
    let started = Instant::now();
    let walked = {
        let _progress = Progress::start(&meter, lists);
        walk(roots, options, make)
    };
    handle.close();
    let _ = listener.join();
    Ok(Ran {
        visitors: walked?.visitors,
        meter,
        elapsed: started.elapsed(),
        interrupted: interrupted.load(Ordering::Relaxed),
    })
}

/// The walk's outcome, unless what it printed could not be written.
///
/// # Errors
/// When standard output cannot be written.
pub fn finish(outcome: Outcome, output: &Output) -> Result<Outcome> {
    output.finish().context("standard output")?;
    Ok(outcome)
}

/// Says what could not be done.
pub fn complain(tool: &str, problem: Problem<'_>) {
    eprintln!("pandofs {tool}: {}: {}", shown(problem.path), problem.kind);
}
