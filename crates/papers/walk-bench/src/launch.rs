//! Launch of `mpirun`, also when it hangs.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts at most.
const LAUNCHES: usize = 2;
/// Time that it may be there after its last process has ended: that of Open MPI 4.1 at times waits
/// for ever in `PMIx_server_finalize` (openpmix's issue 1244).
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(10);
/// The longest that its processes may take.
const RUN_PATIENCE: Duration = Duration::from_secs(3600);
/// Between two looks at what it does. Measurements of its time come from its processes.
const LOOK: Duration = Duration::from_millis(10);

/// A run that came to its end.
pub(crate) struct Launched {
    pub stdout: Vec<u8>,
    /// Of all processors, the launcher's own included.
    pub processor_seconds: f64,
}

/// Starts so many processes, as root too, and more than there are processors; once more if it
/// hangs.
///
/// # Errors
/// When it cannot be started, does not succeed, or hangs each time.
pub(crate) fn mpirun(ranks: u32, program: &Path, arguments: &[&OsStr]) -> Result<Launched> {
    for _ in 0..LAUNCHES {
        let mut command = Command::new("mpirun");
        command
            .args(["-n", &ranks.to_string()])
            .arg(program)
            .args(arguments)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            // Open MPI keeps its sockets there, under names that must not become too long.
            .env("TMPDIR", "/tmp");
        if let Some(launched) = run(command, LAUNCHER_PATIENCE, RUN_PATIENCE)? {
            return Ok(launched);
        }
        eprintln!("mpirun hung");
    }
    bail!("mpirun hung {LAUNCHES} times")
}

/// Nothing if it hung: it or what it started was there for too long.
fn run(
    mut command: Command,
    after_its_last: Duration,
    in_all: Duration,
) -> Result<Option<Launched>> {
    let before = children_seconds();
    let started = Instant::now();
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("mpirun")?;
    let out = reader(child.stdout.take());
    let err = reader(child.stderr.take());
    let (mut had_children, mut alone_since) = (false, None);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let has_children = has_living_children(&child);
        had_children |= has_children;
        if has_children || !had_children {
            alone_since = None;
        } else if alone_since.get_or_insert_with(Instant::now).elapsed() >= after_its_last {
            break None;
        }
        if started.elapsed() >= in_all {
            break None;
        }
        std::thread::sleep(LOOK);
    };
    let Some(status) = status else {
        // Its processes notice that it is gone, and end.
        child.kill()?;
        child.wait()?;
        return Ok(None);
    };
    let (stdout, stderr) = (joined(out)?, joined(err)?);
    if !status.success() {
        bail!("mpirun: {status}: {}", String::from_utf8_lossy(&stderr));
    }
    Ok(Some(Launched {
        stdout,
        processor_seconds: children_seconds() - before,
    }))
}

fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut all)?;
        }
        Ok(all)
    })
}

fn joined(thread: JoinHandle<std::io::Result<Vec<u8>>>) -> Result<Vec<u8>> {
    match thread.join() {
        Ok(read) => Ok(read?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn has_living_children(process: &Child) -> bool {
    let id = process.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    children
        .unwrap_or_default()
        .split_whitespace()
        .any(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        })
}

/// Returns the processor time of ended children, in seconds: fields 16 and 17 of `/proc/self/stat`,
/// in hundredths.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn what_ends_is_read_and_what_fails_is_an_error() {
        let launched = run(shell("sleep 0.05; echo done"), LONG, LONG).unwrap();
        assert_eq!(launched.unwrap().stdout, b"done\n");
        let error = run(shell("echo why >&2; exit 3"), LONG, LONG);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("why"), "{error}");
    }

    /// The shell's `read` waits for a pipe without a writer, and has no child meanwhile.
    #[test]
    fn a_launcher_that_stays_when_its_processes_are_gone_hangs() {
        let mut command = shell("sleep 1; read line");
        command.stdin(Stdio::piped());
        assert!(run(command, SHORT, LONG).unwrap().is_none());
    }

    #[test]
    fn processes_that_take_too_long_hang() {
        assert!(run(shell("exec sleep 600"), LONG, SHORT).unwrap().is_none());
    }
}
