//! Signals as events on a channel, so that one thread deals with one thing after the other.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;

/// A signal that was sent to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Interrupt (Ctrl-C), terminate or hang-up.
    Stop(&'static str),
    /// A child process ended.
    Child,
}

/// Sends every signal on, for the rest of the process's life.
///
/// # Errors
/// The system's.
pub(crate) fn forward<E: From<Signal> + Send + 'static>(to: Sender<E>) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]).context("cannot take signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let event = match signal {
                    SIGCHLD => Signal::Child,
                    SIGINT => Signal::Stop("SIGINT"),
                    SIGTERM => Signal::Stop("SIGTERM"),
                    _ => Signal::Stop("SIGHUP"),
                };
                if to.send(event.into()).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}
