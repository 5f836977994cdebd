//! Program that runs beside the measurements.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a program until it is ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks whether it is.
const PAUSE: Duration = Duration::from_millis(20);

/// It is ended when this goes.
pub(crate) struct Running {
    child: Option<Child>,
    what: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        let what = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("cannot start {what}"))?;
        Ok(Running {
            child: Some(child),
            what,
        })
    }

    /// Until another file system than its parent's is at `root`.
    pub(crate) fn wait_for_mount(&mut self, root: &Path) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let below = root.parent().context("a mount point has a parent")?;
        let below = std::fs::metadata(below)?.dev();
        self.wait_until(|| Ok(std::fs::metadata(root).is_ok_and(|at| at.dev() != below)))
    }

    pub(crate) fn wait_until(&mut self, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !ready()? {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                bail!("{} ended with {status} before it was ready", self.what);
            }
            if begun.elapsed() > START_LIMIT {
                let limit = START_LIMIT.as_secs();
                bail!("{} is not ready after {limit} s", self.what);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends it, and waits for it. Not as Ctrl-C does: what a shell runs in the background ignores
    /// that, and so does what that starts.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::TERM)?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{} is not stopped: {error:#}", self.what);
        }
    }
}
