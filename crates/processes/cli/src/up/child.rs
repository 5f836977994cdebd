//! One child process: how it is started, and how its end reads.

use crate::daemon::READY;
use crate::processes::this_program;
use anyhow::{Context, Result};
use pandofs_types::ServerId;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

/// Role of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Server(ServerId),
    Mount,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Server(id) => write!(f, "server {id}"),
            Role::Mount => f.write_str("the mount"),
        }
    }
}

/// How a child is started.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub role: Role,
    /// Of this program.
    pub arguments: Vec<OsString>,
    pub log: PathBuf,
    pub pid_file: PathBuf,
}

/// A child that was started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pid_file: PathBuf,
}

impl Recipe {
    /// Starts the child in a process group of its own, so that a Ctrl-C in the terminal reaches only
    /// us: the servers must outlive the mount. `ready` is called from another thread once the child
    /// serves.
    ///
    /// # Errors
    /// When it cannot be started, with the path.
    pub(crate) fn start(&self, ready: impl FnOnce() + Send + 'static) -> Result<Running> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot open the log {}", self.log.display()))?;
        let mut child = this_program()?
            .args(&self.arguments)
            .arg("--report-ready")
            .arg("--stop-with-parent")
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.role))?;
        fs::write(&self.pid_file, format!("{}\n", child.id()))
            .with_context(|| format!("cannot write {}", self.pid_file.display()))?;
        if let Some(out) = child.stdout.take() {
            std::thread::Builder::new()
                .name(format!("ready {}", self.role))
                .spawn(move || {
                    let mut line = String::new();
                    if BufReader::new(out).read_line(&mut line).is_ok() && line.trim() == READY {
                        ready();
                    }
                })
                .context("cannot start a thread")?;
        }
        Ok(Running {
            child,
            pid_file: self.pid_file.clone(),
        })
    }

    /// The last lines of the child's log, for a message.
    pub(crate) fn log_end(&self) -> String {
        log_end(&self.log, 5)
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did. The pid file is gone from then on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self
            .child
            .try_wait()
            .context("cannot ask for a child's end")?;
        if ended.is_some() {
            // Removed by another process is removed, too.
            let _ = fs::remove_file(&self.pid_file);
        }
        Ok(ended)
    }

    /// Sends a signal; a child that has just ended needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// `was killed by signal 9 (SIGKILL)`, `exited with code 1`
pub(super) fn describe_end(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
            format!("was killed by signal {signal} ({name})")
        }
        (None, None) => "ended".into(),
    }
}

/// The last `lines` lines of a file, each indented; empty when there is none.
pub(super) fn log_end(path: &Path, lines: usize) -> String {
    const TAIL_BYTES: u64 = 16 << 10;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_described() {
        assert_eq!(
            describe_end(ExitStatus::from_raw(9)),
            "was killed by signal 9 (SIGKILL)"
        );
        assert_eq!(
            describe_end(ExitStatus::from_raw(3 << 8)),
            "exited with code 3"
        );
    }

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        assert_eq!(log_end(&path, 2), "");
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(log_end(&path, 2), "\n    two\n    three");
    }
}
