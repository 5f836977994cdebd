//! A walk that does what `walk` does to count, and measures itself.
//!
//! It tells how long each process looked at entries, read directories and spoke with the others,
//! and how much it sent to each of them. `pandofs-walk-bench` draws it.

use anyhow::{Result, bail};
use clap::Args;
use pandofs_walk_fs::{Entry, FileType, Flow, Problem, StatxFlags, Visitor};
use pandofs_walk_mpi::{Sent, Traffic};
use pandofs_walk_tools::{CommonArgs, Executor, Outcome};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Walk, and print as JSON what each process took for it
#[derive(Args, Clone, Debug)]
pub(crate) struct Measure {
    #[command(flatten)]
    common_args: CommonArgs,
    /// Take so many processes in a row to be on a host of their own, wherever they are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: Option<u32>,
    root: OsString,
}

/// Work of one process.
#[derive(Debug, Serialize, Deserialize)]
struct Share {
    entries: u64,
    bytes: u64,
    disk_bytes: u64,
    problems: u64,
    /// Of all its threads, by the clock, in nanoseconds.
    callback_ns: u64,
    lstat_ns: u64,
    readdir_ns: u64,
    /// Processor time of the threads that do that.
    working_ns: u64,
    /// Processor time of the thread that speaks with other processes.
    speaking_ns: u64,
    /// To each process.
    sent: Vec<Sent>,
}

#[derive(Serialize)]
struct Report {
    seconds: f64,
    ranks: Vec<Share>,
}

impl Measure {
    /// The name of the host of a process.
    pub(crate) fn host(&self, name: &str, rank: u32) -> String {
        match self.ranks_per_host {
            Some(ranks) => format!("{name} {}", rank / ranks),
            None => name.to_owned(),
        }
    }

    /// # Errors
    /// When the walk fails.
    pub(crate) fn run(&self, executor: &mut Executor<'_>, traffic: &Traffic) -> Result<Outcome> {
        let mut options = self.common_args.options(executor)?;
        options.leaves = false;
        options.fields = StatxFlags::TYPE
            | StatxFlags::SIZE
            | StatxFlags::BLOCKS
            | StatxFlags::NLINK
            | StatxFlags::INO;
        let Executor::Together(processes) = executor else {
            bail!("there is nothing to measure without MPI");
        };
        let roots = [self.root.clone()];
        let (started, before) = (Instant::now(), of_this_thread());
        let walked = processes.walk(&roots, &options, |_| Measurer::default())?;
        // The thread that called this walk does nothing but speak meanwhile.
        let speaking = of_this_thread() - before;
        let elapsed = started.elapsed();
        let sum = |of: fn(&Measurer) -> u64| walked.visitors.iter().map(of).sum();
        let share = Share {
            entries: sum(|it| it.entries),
            bytes: sum(|it| it.bytes),
            disk_bytes: sum(|it| it.disk_bytes),
            problems: options.meter.problems(),
            callback_ns: sum(|it| nanoseconds(it.callback)),
            lstat_ns: sum(|it| nanoseconds(it.lstat)),
            readdir_ns: sum(|it| nanoseconds(it.readdir)),
            working_ns: sum(|it| nanoseconds(it.working)),
            speaking_ns: nanoseconds(speaking),
            sent: traffic.sent(),
        };
        if let Some(ranks) = executor.gather(share, &options.meter)? {
            let seconds = elapsed.as_secs_f64();
            println!("{}", serde_json::to_string(&Report { seconds, ranks })?);
        }
        Ok(Outcome::Done)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Returns the processor time of the calling thread since it began.
fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Does what `walk` does for its counts, with a clock.
#[derive(Default)]
struct Measurer {
    entries: u64,
    bytes: u64,
    disk_bytes: u64,
    callback: Duration,
    lstat: Duration,
    readdir: Duration,
    working: Duration,
    reads_since: Option<Instant>,
}

impl Visitor for Measurer {
    type Dir = ();

    #[inline(always)]
    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        let begun = Instant::now();
        let stat = entry.stat();
        let looked = Instant::now();
        if let Ok(stat) = stat {
            self.entries += 1;
            self.disk_bytes += stat.blocks() * 512;
            if stat.kind() == FileType::RegularFile {
                self.bytes += stat.size();
            }
        }
        self.lstat += looked - begun;
        self.callback += looked.elapsed();
        Flow::Descend([0, 0])
    }

    fn pause(&mut self) {
        self.working = of_this_thread();
    }

    fn reads(&mut self, begins: bool) {
        match (begins, self.reads_since.take()) {
            (true, _) => self.reads_since = Some(Instant::now()),
            (false, Some(since)) => self.readdir += since.elapsed(),
            (false, None) => {}
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        eprintln!("{}: {}", problem.path.escape_ascii(), problem.kind);
    }
}
