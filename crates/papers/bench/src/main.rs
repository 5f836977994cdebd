//! Benchmark of PandoFS beside other file systems, in one run.
//!
//! Several processes create, stat and remove files in one shared directory at once; large files are
//! written and read.
//!
//! Invariant: every figure that is printed was measured in this run; targets take turns round by
//! round, so that a machine whose speed drifts treats them alike, and ratios are taken within a
//! round.

mod caches;
mod commit;
mod data;
mod data_report;
mod neighbours;
mod report;
mod rounds;
mod running;
mod target;
mod work;
mod worker;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Measures PandoFS beside other file systems.
#[derive(Parser)]
#[command(name = "pandofs-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One shared directory, several processes: creations, stats and removals a second.
    Run(Run),
    /// Waiting times of other users while one lists, searches and removes a large directory.
    Neighbours(neighbours::Options),
    /// Mounts that cache under leases beside mounts that cache until a time-out.
    Caches(caches::Options),
    /// A source tree unpacked, searched, copied, removed and cloned, and small files.
    Work(work::Options),
    /// Large files from end to end: bytes a second, by fio.
    Data(data::DataRun),
    /// The commit protocols: messages, records and forces, what the log costs, and how long a
    /// recovery takes.
    Commit(commit::Options),
    /// One process of a run.
    #[command(hide = true)]
    Worker(worker::Worker),
}

/// Options of the benchmark.
#[derive(clap::Args, Clone)]
pub struct Run {
    #[command(flatten)]
    setup: target::Setup,
    /// The in-memory file system to compare with.
    #[arg(long)]
    memfs: PathBuf,
    /// Files of one round, all processes together.
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Rounds that count; one more comes first to warm up.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Numbers of processes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 8])]
    processes: Vec<u32>,
    /// Targets to measure.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = target::Kind::ALL)]
    targets: Vec<target::Kind>,
    /// Also write every single measurement here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Worker(worker) => worker.run(),
        Command::Run(run) => compare(&run),
        Command::Neighbours(options) => neighbours::run(&options),
        Command::Caches(options) => caches::run(&options),
        Command::Work(options) => work::run(&options),
        Command::Data(run) => data::compare(&run),
        Command::Commit(options) => commit::run(&options),
    }
}

fn compare(run: &Run) -> Result<()> {
    let scratch = run.setup.scratch()?;
    let mut targets = Vec::new();
    for &kind in &run.targets {
        eprintln!("starting {kind}");
        targets.push(target::Target::start(
            kind,
            &run.setup,
            &run.memfs,
            scratch.path(),
        )?);
    }
    let mut report = report::Report::new(run);
    for round in 0..=run.rounds {
        for &processes in &run.processes {
            for turn in 0..targets.len() {
                // The order changes, so that none always runs after the same neighbour.
                let target = &targets[(turn + round as usize) % targets.len()];
                let directory = format!("round-{round}-{processes}");
                let figures = worker::measure(target, &directory, processes, run.files)
                    .with_context(|| format!("{} with {processes} processes", target.kind))?;
                if round > 0 {
                    report.add(target.kind, round, processes, figures)?;
                }
            }
            eprintln!(
                "round {round} of {} done with {processes} processes{}",
                run.rounds,
                if round == 0 { " (not counted)" } else { "" }
            );
        }
    }
    report.print(&run.targets, &run.processes);
    for target in targets {
        target.stop()?;
    }
    Ok(())
}
