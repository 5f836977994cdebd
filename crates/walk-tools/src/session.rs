//! What all tools do around a walk.

use crate::crew::Crew;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::shown;
use anyhow::{Context, Result};
use pandofs_walk_fs::{Dir, Meter, Options, Problem, Visitor, WalkError, Walked, walk};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A walk that has ended.
pub struct Ran<V: Visitor> {
    pub visitors: Vec<V>,
    /// What all roots are in.
    pub top: Arc<Dir<V::Dir>>,
    pub meter: Arc<Meter>,
    pub elapsed: Duration,
    pub interrupted: bool,
}

impl<V: Visitor> Ran<V> {
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
    crew: &mut Crew<'_>,
    roots: &[OsString],
    options: &Options,
    lists: bool,
    make: impl FnMut(usize) -> V,
) -> Result<Ran<V>> {
    attended(options, lists && !crew.is_several(), || match crew {
        Crew::Alone => walk(roots, options, make),
        Crew::Together(processes) => processes.walk(roots, options, make),
    })
}

/// The same from where an earlier walk was interrupted.
///
/// # Errors
/// As [`run`].
pub fn go_on<V: Visitor>(
    saved: &mut impl Read,
    options: &Options,
    lists: bool,
    make: impl FnMut(usize) -> V,
) -> Result<Ran<V>> {
    attended(options, lists, || {
        pandofs_walk_fs::go_on(saved, options, make)
    })
}

fn attended<V: Visitor>(
    options: &Options,
    lists: bool,
    walk: impl FnOnce() -> Result<Walked<V>, WalkError>,
) -> Result<Ran<V>> {
    let meter = Arc::clone(&options.meter);
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot take signals")?;
    let handle = signals.handle();
    let listener = {
        let (meter, interrupted) = (Arc::clone(&meter), Arc::clone(&interrupted));
        let saved = options.saved.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if interrupted.swap(true, Ordering::Relaxed) {
                        // The second time there is no patience left.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    match &saved {
                        Some(saved) => saved.ask(),
                        None => meter.stop(),
                    }
                }
            })
            .context("cannot start a thread")?
    };
    let started = Instant::now();
    let walked = {
        let _progress = Progress::start(&meter, lists);
        walk()
    };
    handle.close();
    let _ = listener.join();
    let walked = walked?;
    Ok(Ran {
        visitors: walked.visitors,
        top: walked.top,
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
    say(tool, problem.path, problem.kind);
}

/// The same, of anything. In one piece, so that lines of several processes do not mix.
pub fn say(tool: &str, path: &[u8], what: impl std::fmt::Display) {
    let line = format!("pandofs {tool}: {}: {what}\n", shown(path));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
