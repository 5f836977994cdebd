//! Daemons: duties of a process that goes on running to the one that started it.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::OpenOptions;
use std::io::Write;

/// The word on standard output that says that the process serves.
pub(crate) const READY: &str = "ready";

/// How the process was started; set by `pandofs up` and `pandofs mount --background`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StartedBy {
    /// Print 'ready' once it serves
    #[arg(long, hide = true)]
    pub report_ready: bool,
    /// Let go of standard error once it serves
    #[arg(long, hide = true)]
    pub silent_once_ready: bool,
    /// Stop when this process, the parent, is gone
    #[arg(long, hide = true, value_name = "PID")]
    pub stop_with_parent: Option<i32>,
}

/// For a unit of `Type=notify`: the process serves. Without systemd nothing happens.
pub(crate) fn tell_systemd_ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!("cannot tell systemd that this process serves: {error}");
    }
}

impl StartedBy {
    /// To be called first of all.
    ///
    /// # Errors
    /// When the parent is gone already.
    pub(crate) fn tie_to_parent(&self) -> Result<()> {
        let Some(parent) = self.stop_with_parent else {
            return Ok(());
        };
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("cannot ask for a signal at the parent's end")?;
        // It may have ended before the call, and then no signal comes any more.
        if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
            bail!("the process {parent} that started this one is gone");
        }
        Ok(())
    }

    /// Says that the process serves.
    ///
    /// # Errors
    /// When standard output is closed.
    pub(crate) fn report_ready(&self) -> Result<()> {
        // A part of a cluster is the business of the command that started that.
        if self.stop_with_parent.is_none() {
            tell_systemd_ready();
        }
        if self.silent_once_ready {
            // The other end of the pipe goes away with the parent, and a write to it then fails.
            let nowhere = OpenOptions::new()
                .write(true)
                .open("/dev/null")
                .context("/dev/null")?;
            rustix::stdio::dup2_stderr(&nowhere).context("standard error")?;
        }
        if self.report_ready {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{READY}")
                .and_then(|()| out.flush())
                .context("standard output")?;
        }
        Ok(())
    }
}
