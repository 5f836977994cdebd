//! Large files, written and read from end to end by fio, through the mount and beside it.
//!
//! All targets keep their files in directories of one and the same file system, so that the disk is
//! the same for all. The state of memory when a measurement begins is brought about, not hoped for:
//!
//! - `write`: fresh files, until the last write has returned. They go to memory, as far as there is
//!   any.
//! - `write, forced`: the same and `fsync` of each file.
//! - `read, below`: the mount remembers nothing (fio's `--invalidate=1`); what is below it (the
//!   servers' data objects, the ext4 under bindfs) is in memory. ext4 has nothing below: it is read
//!   from memory, as a program would find what it has just written.
//! - `read, cold`: nothing of the files is in memory, neither above nor below
//!   (`POSIX_FADV_DONTNEED` for every file of a target after all is on the disk).
//!
//! Files are small by default. A virtual machine may have given memory that is free back to its
//! host, which takes microseconds for each page that is used again. Where one kept 1 GiB, four jobs
//! that wrote 512 MiB through the mount (as much for the kernel's cache of the mount, as much for
//! ext4's of the servers' files, and sockets) got beyond it, and bindfs did not: 0.3 of its rate,
//! and 0.8 to 0.9 with 256 MiB.

use crate::data_report::DataReport;
use crate::target::{Kind, Setup, Target};
use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, FsWord};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The type of ext4 in `statfs` (ext2 and ext3 have the same).
const EXT4: FsWord = 0xef53;

/// Options of the measurement.
#[derive(clap::Args, Clone)]
pub(crate) struct DataRun {
    #[command(flatten)]
    pub setup: Setup,
    /// MiB that all jobs of one measurement write together, and read.
    #[arg(long, default_value_t = 256)]
    pub size: u64,
    /// Bytes of one request, with fio's letters for units.
    #[arg(long, default_value = "1m")]
    pub block: String,
    /// Rounds that count; one more comes first to warm up.
    #[arg(long, default_value_t = 9)]
    pub rounds: u32,
    /// Numbers of jobs, each with a file of its own.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    pub jobs: Vec<u32>,
    /// Targets to measure.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Kind::Ext4, Kind::Bindfs, Kind::Mount])]
    pub targets: Vec<Kind>,
    /// Also write every single measurement here, a JSON object a line.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// A target of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    Write,
    WriteForced,
    ReadBelow,
    ReadCold,
}

impl Phase {
    /// In this order: what is read has been written.
    pub(crate) const ALL: [Phase; 4] = [
        Phase::Write,
        Phase::ReadBelow,
        Phase::WriteForced,
        Phase::ReadCold,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::WriteForced => "write, forced",
            Phase::ReadBelow => "read, below",
            Phase::ReadCold => "read, cold",
        }
    }
}

/// Runs the comparison.
///
/// # Errors
/// When a target cannot be set up, or fio finds an error.
pub(crate) fn compare(run: &DataRun) -> Result<()> {
    if let Some(&kind) = run
        .targets
        .iter()
        .find(|kind| matches!(kind, Kind::Memfs | Kind::Library))
    {
        bail!("{kind} has no large files to measure");
    }
    let scratch = run.setup.scratch()?;
    let is_ext4 = rustix::fs::statfs(scratch.path())?.f_type == EXT4;
    let mut targets = Vec::new();
    for &kind in &run.targets {
        eprintln!("starting {kind}");
        targets.push(Target::start_beside(kind, &run.setup, scratch.path())?);
    }
    let mut report = DataReport::new(run, is_ext4)?;
    for round in 0..=run.rounds {
        for &jobs in &run.jobs {
            for turn in 0..targets.len() {
                // The order changes, so that none always runs after the same neighbour.
                let target = &targets[(turn + round as usize) % targets.len()];
                for phase in Phase::ALL {
                    let rate = measure(run, target, jobs, phase).with_context(|| {
                        format!("{}: {} of {jobs} jobs", target.kind, phase.name())
                    })?;
                    if round > 0 {
                        report.add(target.kind, round, jobs, phase, rate)?;
                    }
                }
                remove(target)?;
            }
            eprintln!(
                "round {round} of {} done with {jobs} jobs{}",
                run.rounds,
                if round == 0 { " (not counted)" } else { "" }
            );
        }
    }
    report.print();
    targets.into_iter().try_for_each(Target::stop)
}

/// Bytes a second, all jobs together.
fn measure(run: &DataRun, target: &Target, jobs: u32, phase: Phase) -> Result<f64> {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=data",
        "--ioengine=psync",
        "--thread",
        "--group_reporting",
    ]);
    fio.args(["--output-format=json", "--fallocate=none", "--eta=never"]);
    fio.arg(format!("--directory={}", target.root.display()));
    fio.arg(format!("--bs={}", run.block));
    fio.arg(format!("--numjobs={jobs}"));
    fio.arg(format!("--size={}m", run.size / u64::from(jobs)));
    match phase {
        Phase::Write | Phase::WriteForced => {
            remove(target)?;
            // Otherwise fio makes the files as long as they are to become before the clock runs.
            fio.args(["--rw=write", "--create_on_open=1"]);
            fio.arg(format!(
                "--end_fsync={}",
                u8::from(phase == Phase::WriteForced)
            ));
        }
        Phase::ReadBelow => {
            fio.args(["--rw=read", "--invalidate=1"]);
            if target.kind == Kind::Ext4 {
                // It would drop what is to be read from memory.
                fio.arg("--invalidate=0");
            }
        }
        Phase::ReadCold => {
            // Above and below.
            forget(&target.base)?;
            fio.args(["--rw=read", "--invalidate=1"]);
        }
    }
    let output = fio.output().context("cannot run fio")?;
    if !output.status.success() {
        // Its report says what failed.
        let said = [output.stderr, output.stdout].concat();
        bail!("fio: {}: {}", output.status, String::from_utf8_lossy(&said));
    }
    let result: FioOutput = serde_json::from_slice(&output.stdout).context("fio's output")?;
    let [job] = result.jobs.as_slice() else {
        bail!("fio reports {} groups of jobs", result.jobs.len());
    };
    let side = match phase {
        Phase::Write | Phase::WriteForced => &job.write,
        Phase::ReadBelow | Phase::ReadCold => &job.read,
    };
    let wanted = (run.size / u64::from(jobs) * u64::from(jobs)) << 20;
    if job.error != 0 || side.io_bytes != wanted {
        bail!(
            "fio moved {} of {wanted} bytes, error {}",
            side.io_bytes,
            job.error
        );
    }
    Ok(side.bw_bytes as f64)
}

/// The output of fio, as far as it is used.
#[derive(Deserialize)]
struct FioOutput {
    jobs: Vec<FioGroup>,
}

#[derive(Deserialize)]
struct FioGroup {
    error: i32,
    read: FioSide,
    write: FioSide,
}

#[derive(Deserialize)]
struct FioSide {
    io_bytes: u64,
    bw_bytes: u64,
}

/// Takes the files away that were written.
fn remove(target: &Target) -> Result<()> {
    for entry in std::fs::read_dir(&target.root)? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// Has everything below `folder` on the disk and nothing of it in memory.
fn forget(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            let file = match File::open(entry.path()) {
                // A server removes files of its own.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file?,
            };
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
