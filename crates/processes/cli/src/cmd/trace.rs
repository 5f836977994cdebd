//! `pandofs trace`

use super::bench::{TargetArgs, check_clients, write_trace};
use super::import::Import;
use crate::exit::Outcome;
use crate::mount_options::MountOptions;
use crate::source::Source;
use crate::table::{Align, Table};
use crate::{backend, mounts, units};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use pandofs_workload::{
    AnyTrace, Counted, Kernel, Recorder, Replayed, Schedule, Summary, Trace, replay,
    replay_recording, summarize, summarize_recording, synthetic_records, write_records,
};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  pandofs trace record --data /var/tmp/pando --to make.trace /mnt/pando -- make -C /mnt/pando/src
      mount there, run a command, unmount, and write down what it did
  pandofs mount --data /var/tmp/pando --trace day.trace /mnt/pando
      the same of whatever uses the mount until it is unmounted
  pandofs trace summarize make.trace
      what is in it, beside the mix of FPFS's trace
  pandofs trace replay --data /var/tmp/other --clients 4 make.trace
      do it in a new directory, through the library, four at a time
  pandofs trace replay --on /mnt/pando make.trace
      the same below a mount
  strace -f -ttt -T -y -o make.strace make -C /home/u/src
  pandofs trace import --from strace --below /home/u/src make.strace make.trace
      a recording of what strace saw programs do in a directory of any file system
  pandofs trace import --from nfsdump anon-deasna-021016-1300.txt mail.trace
      a recording of what clients of an NFS server did
  pandofs trace synthetic --scale 0.001 --clients 8 fpfs.trace
      a trace with the counts of FPFS's HP trace, a thousandth of its length

What a benchmark does is recorded by 'pandofs bench … --record FILE'.";

/// Record what programs do, do it again, and sum it up
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Do what is in a trace, in a new directory, which stays
    ///
    /// Of a recording each operation is done when all is done that it depends on, by any client:
    /// what ended before it began, on the same names or the same inode. One that fails otherwise
    /// than it did is counted and reported. Other traces keep each client's order, and end with
    /// what fails.
    Replay {
        #[command(flatten)]
        target: TargetArgs,
        /// Clients, 1 to 256; then all that is kept of the order is what operations depend on [default: 8, or
        /// those of a trace that is no recording, each in its order]
        #[arg(long, value_name = "N")]
        clients: Option<u32>,
        /// Write down in which order things were done; of a trace that is no recording
        #[arg(long, value_name = "FILE", conflicts_with = "clients")]
        record: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// File of a recorded or generated trace
        trace: PathBuf,
    },
    /// Mount, run a command, unmount, and write down what was done through the mount
    ///
    /// A mount of its own is recorded for as long as the command runs, with all programs that use
    /// it. To record for longer, mount with 'pandofs mount --trace FILE'. Written down are names,
    /// numbers and sizes, and nothing of what files hold. Where the trace's disk is full the
    /// recording ends and the command goes on.
    Record(Box<Record>),
    /// Count what is in a trace
    Summarize {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// File of a recorded or generated trace
        trace: PathBuf,
    },
    /// Turn a trace of another program into a recording
    ///
    /// Of the output of strace, and of nfsdump's text, as it is in SNIA's repository. The trace is gone through twice, with
    /// no more in memory than the names that there are at a time. What a recording has nothing for is counted.
    Import(Import),
    /// Make a trace with the counts of FPFS's table I
    ///
    /// With a scale of 1 it has each of the table's numbers. Directories are nested as in a time-sharing system, and some files
    /// are hot; of that nothing is known of the original.
    Synthetic {
        /// Its length, of the 19.4 million operations of the original
        #[arg(long, value_name = "FACTOR", default_value_t = 0.001)]
        scale: f64,
        /// Clients, 1 to 256
        #[arg(long, value_name = "N", default_value_t = 8)]
        clients: u32,
        /// Seed from which all random choices follow
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// The file to make
        trace: PathBuf,
    },
}

#[derive(Args, Clone, Debug)]
struct Record {
    #[command(flatten)]
    source: Source,
    /// The trace
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Where to mount it: a directory that is there
    mountpoint: PathBuf,
    /// Command to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    options: MountOptions,
}

/// Clients of a replay that does not say.
const CLIENTS: u32 = 8;

impl TraceCommand {
    /// # Errors
    /// When a trace cannot be read, written or done.
    pub(crate) fn run(&self) -> Result<Outcome> {
        match &self.what {
            What::Summarize { json, trace } => {
                let summary = match read(trace)? {
                    AnyTrace::Trace(trace) => summarize(&trace),
                    AnyTrace::Recording(recording) => summarize_recording(&recording),
                };
                show(&summary, None, *json)?;
            }
            What::Synthetic {
                scale,
                clients,
                seed,
                trace,
            } => {
                check_clients(*clients)?;
                ensure!(
                    *scale > 0.0 && *scale <= 10.0,
                    "a scale of 0 to 10, not {scale}"
                );
                let (prepare, records) = synthetic_records(*scale, *clients, *seed);
                let mut counted = Counted::new(*clients, prepare);
                let records = records.inspect(|record| counted.add(record));
                let file = File::create(trace);
                file.and_then(|file| {
                    write_records(BufWriter::new(file), *clients, prepare, records)
                })
                .with_context(|| format!("cannot write {}", trace.display()))?;
                show(&counted.finish(), None, false)?;
            }
            What::Replay {
                target,
                clients,
                record,
                json,
                trace,
            } => match (read(trace)?, clients) {
                (AnyTrace::Recording(_), _) if record.is_some() => {
                    bail!(
                        "--record is for traces that are no recordings: {}",
                        trace.display()
                    )
                }
                (AnyTrace::Trace(trace), None) => {
                    replay_in_order(target, &trace, record.as_deref(), *json)?;
                }
                (AnyTrace::Trace(trace), Some(clients)) => {
                    let mut summary = summarize(&trace);
                    summary.clients = *clients;
                    let schedule = Schedule::of_trace(&trace);
                    replay_freely(target, &schedule, *clients, summary, *json)?;
                }
                (AnyTrace::Recording(recording), clients) => {
                    let summary = summarize_recording(&recording);
                    let clients = clients.unwrap_or(CLIENTS);
                    replay_freely(target, &recording, clients, summary, *json)?;
                }
            },
            What::Import(import) => import.run()?,
            What::Record(record) => return record.run(),
        }
        Ok(Outcome::Done)
    }
}

impl Record {
    fn run(&self) -> Result<Outcome> {
        let mut options = self.options.clone();
        ensure!(options.trace.is_none(), "--to says where the trace goes");
        options.trace = Some(self.to.clone());
        let options = options.resolved()?;
        let point = mounts::absolute(&self.mountpoint)
            .with_context(|| format!("cannot find {}", self.mountpoint.display()))?;
        ensure!(
            !mounts::at(&mounts::all()?, &point).is_some_and(mounts::Mount::is_pandofs),
            "a PandoFS is mounted on {} already: what uses it is recorded by 'pandofs mount --trace'",
            point.display()
        );
        let cluster = self.source.find(None)?;
        let Some((program, arguments)) = self.command.split_first() else {
            bail!("no command");
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let (status, operations) = backend::record(&cluster, &point, &options, command)?;
        let said = units::plural(operations, "operation", "operations");
        tracing::info!("{said} are in {}", self.to.display());
        // As a shell has it.
        let code = status.code().or_else(|| Some(128 + status.signal()?));
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(0) => Ok(Outcome::Done),
            Some(code) => Ok(Outcome::Other(code)),
            None => Ok(Outcome::Failed),
        }
    }
}

fn replay_in_order(
    target: &TargetArgs,
    trace: &Trace,
    record: Option<&Path>,
    json: bool,
) -> Result<()> {
    let mut started = target.start(&directory(), trace.clients as usize, Kernel::that_asks)?;
    let recorder = Recorder::default();
    if record.is_some() {
        let watched = (0..).zip(std::mem::take(&mut started.targets));
        started.targets = watched
            .map(|(client, target)| recorder.record(client, target))
            .collect();
    }
    let summary = replay(trace, &mut started.targets)?;
    if let Some(to) = record {
        let mut recorded = recorder.finish(trace.clients);
        recorded.prepare = trace.prepare;
        write_trace(to, &recorded)?;
    }
    show(&summary, None, json)
}

fn replay_freely(
    target: &TargetArgs,
    schedule: &Schedule,
    clients: u32,
    mut summary: Summary,
    json: bool,
) -> Result<()> {
    check_clients(clients)?;
    let mut started = target.start(&directory(), clients as usize, Kernel::that_asks)?;
    let replayed = replay_recording(schedule, &mut started.targets)?;
    summary.seconds = replayed.seconds;
    show(&summary, Some(&replayed), json)
}

fn directory() -> String {
    format!("pandofs-trace-{}", std::process::id())
}

fn read(path: &Path) -> Result<AnyTrace> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let trace = AnyTrace::read(BufReader::new(file)).with_context(|| path.display().to_string())?;
    if let AnyTrace::Trace(trace) = &trace {
        check_clients(trace.clients)?;
    }
    Ok(trace)
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<&'a Replayed>,
}

fn show(summary: &Summary, replayed: Option<&Replayed>, json: bool) -> Result<()> {
    if json {
        let shown = Shown { summary, replayed };
        let text = serde_json::to_string_pretty(&shown).context("cannot write JSON")?;
        return crate::print(&format!("{text}\n"));
    }
    let mut table = Table::new(&[
        ("operation", Align::Left),
        ("times", Align::Right),
        ("failed", Align::Right),
        ("share", Align::Right),
        ("FPFS's", Align::Right),
    ]);
    let failed = |kind| summary.failed.get(kind).copied().unwrap_or(0);
    for row in &summary.table_1 {
        let name = match row.operation {
            pandofs_workload::Kind::Rename => "file rename".to_owned(),
            pandofs_workload::Kind::Renamedir => "directory rename".to_owned(),
            kind => kind.to_string(),
        };
        table.row(vec![
            name,
            row.count.to_string(),
            failed(&row.operation).to_string(),
            format!("{:.3} %", row.percent),
            format!("{:.3} %", row.percent_of_fpfs),
        ]);
    }
    let in_table = |kind| summary.table_1.iter().any(|row| row.operation == kind);
    for (kind, count) in summary
        .operations
        .iter()
        .filter(|(kind, _)| !in_table(**kind))
    {
        let (name, failed) = (kind.to_string(), failed(kind).to_string());
        table.row(vec![
            name,
            count.to_string(),
            failed,
            String::new(),
            String::new(),
        ]);
    }
    let total: u64 = summary.operations.values().sum();
    let mut text = format!(
        "{table}{total} operations of {} after {} that prepare; {} wait for others\n",
        units::plural(u64::from(summary.clients), "client", "clients"),
        summary.prepared,
        summary.dependent
    );
    let left_out: u64 = summary.left_out.values().sum();
    if left_out > 0 {
        text += &format!(
            "{left_out} of them, on files without a name and the like, are not replayed\n"
        );
    }
    if summary.cut_short {
        text += "the recording was cut short: programs went on\n";
    }
    if summary.seconds > 0.0 {
        let rate = (total - left_out) as f64 / summary.seconds;
        text += &format!("{:.3} s, {rate:.0} operations a second\n", summary.seconds);
    }
    if let Some(replayed) = replayed {
        let differing: u64 = replayed.differing.values().sum();
        text += &format!("{differing} ended otherwise than they had\n");
        for said in &replayed.examples {
            text += &format!("  {said}\n");
        }
    }
    crate::print(&text)
}
