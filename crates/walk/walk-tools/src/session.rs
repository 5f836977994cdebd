//! Frame of all tools around a walk.

use crate::executor::Executor;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::progress::{Progress, apart};
use crate::text::{count, shown};
use anyhow::{Context, Result};
use pandofs_walk_fs::{Dir, Meter, Options, Problem, Saved, Visitor, WalkError, Walked, walk};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A walk that has ended.
pub(crate) struct Ran<V: Visitor> {
    pub visitors: Vec<V>,
    /// The directory that all roots are in.
    pub top: Arc<Dir<V::Dir>>,
    pub meter: Arc<Meter>,
    pub elapsed: Duration,
    pub interrupted: bool,
}

impl<V: Visitor> Ran<V> {
    /// Returns what was met, by all processes as far as this one knows.
    pub(crate) fn so_far(&self) -> String {
        let [entries, directories, ..] = self.meter.all();
        format!(
            "{} entries, {} directories so far",
            count(entries),
            count(directories)
        )
    }

    /// Returns how the tool ends, if nothing but the walk went wrong.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.interrupted {
            Outcome::Interrupted
        } else if self.meter.problems() > 0 {
            Outcome::Incomplete
        } else {
            Outcome::Done
        }
    }
}

/// Walks, with a progress line, until the end or Ctrl-C. `shares` is whether commands or questions
/// write to the terminal meanwhile. `make` makes a visitor for each thread.
///
/// # Errors
/// When the walk is not complete for another reason than that some entries cannot be read.
pub(crate) fn run<V: Visitor>(
    executor: &mut Executor<'_>,
    roots: &[OsString],
    options: &Options,
    shares: bool,
    make: impl FnMut(usize) -> V,
) -> Result<Ran<V>> {
    let shows = Shows::of(executor, shares);
    let attended = attended(
        &options.meter,
        options.saved.as_ref(),
        shows,
        || match executor {
            Executor::Alone => walk(roots, options, make),
            Executor::Together(processes) => processes.walk(roots, options, make),
        },
    )?;
    attended.ran(options)
}

/// The same from where an earlier walk was interrupted, which the first process reads.
///
/// # Errors
/// As [`run`].
pub(crate) fn go_on<V: Visitor>(
    executor: &mut Executor<'_>,
    saved: &mut (impl Read + Seek + ?Sized),
    options: &Options,
    shares: bool,
    make: impl FnMut(usize) -> V,
) -> Result<Ran<V>> {
    let shows = Shows::of(executor, shares);
    let attended = attended(
        &options.meter,
        options.saved.as_ref(),
        shows,
        || match executor {
            Executor::Alone => pandofs_walk_fs::go_on(saved, options, make),
            Executor::Together(processes) => processes.go_on(saved, options, make),
        },
    )?;
    attended.ran(options)
}

/// Display of a walk for its user.
#[derive(Clone, Copy)]
pub(crate) struct Shows {
    /// Commands and questions write to the same terminal.
    pub shares: bool,
    pub is_first: bool,
}

impl Shows {
    fn of(executor: &Executor<'_>, shares: bool) -> Shows {
        Shows {
            shares,
            // The others tell the first how far they are.
            is_first: executor.is_first(),
        }
    }
}

/// Something that was done with a progress line, until its end or Ctrl-C.
pub(crate) struct Attended<R> {
    pub done: R,
    pub elapsed: Duration,
    pub interrupted: bool,
}

impl<V: Visitor> Attended<Result<Walked<V>, WalkError>> {
    fn ran(self, options: &Options) -> Result<Ran<V>> {
        let walked = self.done?;
        Ok(Ran {
            visitors: walked.visitors,
            top: walked.top,
            meter: Arc::clone(&options.meter),
            elapsed: self.elapsed,
            interrupted: self.interrupted,
        })
    }
}

/// Does something that looks at its meter, with a progress line. Ctrl-C stops the meter, or asks
/// for what is left.
///
/// # Errors
/// When signals cannot be taken.
pub(crate) fn attended<R>(
    meter: &Arc<Meter>,
    saved: Option<&Arc<Saved>>,
    shows: Shows,
    work: impl FnOnce() -> R,
) -> Result<Attended<R>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(taken()).context("cannot take signals")?;
    let handle = signals.handle();
    let listener = {
        let (meter, interrupted) = (Arc::clone(meter), Arc::clone(&interrupted));
        let saved = saved.cloned();
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
    let done = {
        let _progress = shows.is_first.then(|| Progress::start(meter, shows.shares));
        work()
    };
    handle.close();
    let _ = listener.join();
    Ok(Attended {
        done,
        elapsed: started.elapsed(),
        interrupted: interrupted.load(Ordering::Relaxed),
    })
}

/// Signals that end a walk as Ctrl-C does: also the end of the terminal or of the connection that
/// it was started from, but under nohup.
fn taken() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut signals = vec![SIGINT, SIGTERM];
    if !ignores(&status, SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// Returns whether a `/proc/PID/status` says that the process ignores the signal
/// (proc_pid_status(5)).
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether there was a Ctrl-C, also between two walks, where no walk attends to it.
pub(crate) struct Interrupts {
    was_one: Arc<AtomicBool>,
    taken: Vec<SigId>,
}

impl Interrupts {
    /// # Errors
    /// When signals cannot be taken.
    pub(crate) fn take() -> Result<Interrupts> {
        let mut interrupts = Interrupts {
            was_one: Arc::default(),
            taken: Vec::new(),
        };
        for signal in taken() {
            let was_one = Arc::clone(&interrupts.was_one);
            let taken = signal_hook::flag::register(signal, was_one);
            interrupts.taken.push(taken.context("cannot take signals")?);
        }
        Ok(interrupts)
    }

    pub(crate) fn was_one(&self) -> bool {
        self.was_one.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for taken in self.taken.drain(..) {
            signal_hook::low_level::unregister(taken);
        }
    }
}

/// The walk's outcome, unless what it printed could not be written.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn finish(outcome: Outcome, output: &Output) -> Result<Outcome> {
    output.finish().context("standard output")?;
    Ok(outcome)
}

/// Says what was done by Ctrl-C, by a tool whose output does not.
pub(crate) fn interrupted(tool: &str, what: impl std::fmt::Display) {
    print_error_line(&format!("pandofs {tool}: interrupted: {what}\n"));
}

/// Says what could not be done.
pub(crate) fn complain(tool: &str, problem: Problem<'_>) {
    say(tool, problem.path, problem.kind);
}

/// The same, of anything. In one piece, so that lines of several processes do not mix.
pub(crate) fn say(tool: &str, path: &[u8], what: impl std::fmt::Display) {
    print_error_line(&format!("pandofs {tool}: {}: {what}\n", shown(path)));
}

fn print_error_line(line: &str) {
    let _ = apart(|| std::io::stderr().lock().write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_has_ignored_stays_so() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }
}
