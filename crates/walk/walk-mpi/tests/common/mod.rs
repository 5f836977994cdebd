//! Launch of processes over MPI.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of times that a hung launcher is started again, and time that one may be there after its
/// last process has ended.
const LAUNCHES: usize = 4;
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(10);

/// Amount that is read of a launcher's output.
#[derive(Clone, Copy)]
pub(crate) enum Reads {
    All,
    /// One byte; then reading ends.
    First,
}

/// Starts this many processes, as root too, and more than there are processors.
pub(crate) fn mpirun(ranks: u32, dir: &Path, arguments: &[&str]) -> Output {
    mpirun_read(ranks, dir, arguments, Reads::All)
}

/// The same, with as much of its output read.
pub(crate) fn mpirun_read(ranks: u32, dir: &Path, arguments: &[&str], reads: Reads) -> Output {
    for _ in 0..LAUNCHES {
        let mut launched = Command::new("mpirun");
        launched
            .args(["-n", &ranks.to_string()])
            .arg(env!("CARGO_BIN_EXE_pandofs-mpi"))
            .args(arguments)
            .current_dir(dir)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            // Open MPI keeps its sockets there, under names that must not become too long.
            .env("TMPDIR", "/tmp");
        if let Some(output) = output_of(launched, reads) {
            return output;
        }
        eprintln!("mpirun hung after all of its processes had ended; starting it again");
    }
    panic!("mpirun hung {LAUNCHES} times after all of its processes had ended");
}

/// Returns what the launcher prints. `None` when it is still there long after its last process has
/// ended: that of Open MPI 4.1 at times waits in `PMIx_server_finalize` for a thread of its own
/// that waits for it (as in openpmix's issue 1244). A process of ours that hung would be there
/// itself, and hang the test.
fn output_of(mut launched: Command, reads: Reads) -> Option<Output> {
    let launched = launched.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = launched.spawn().unwrap();
    let mut out = launcher.stdout.take().unwrap();
    let out = match reads {
        Reads::All => read_to_end(out),
        Reads::First => {
            let mut first = vec![0];
            out.read_exact(&mut first).unwrap();
            drop(out);
            std::thread::spawn(|| first)
        }
    };
    let err = read_to_end(launcher.stderr.take().unwrap());
    let (mut had_ranks, mut ended) = (false, None);
    let status = loop {
        if let Some(status) = launcher.try_wait().unwrap() {
            break Some(status);
        }
        let is_alive = has_living_children(launcher.id());
        had_ranks |= is_alive;
        if is_alive || !had_ranks {
            ended = None;
        } else if ended.get_or_insert_with(Instant::now).elapsed() >= LAUNCHER_PATIENCE {
            launcher.kill().unwrap();
            launcher.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
    status.map(|status| Output {
        status,
        stdout,
        stderr,
    })
}

fn read_to_end(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    })
}

fn has_living_children(process: u32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    children
        .unwrap_or_default()
        .split_whitespace()
        .any(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        })
}
