//! `pandofs trace`

use super::bench::{TargetArgs, at_most_64, write_trace};
use crate::exit::Outcome;
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use pandofs_workload::{Recorder, Summary, Trace, replay, summarize, synthetic};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs trace synthetic --scale 0.001 --clients 8 fpfs.trace
      a trace with the mix of FPFS's HP trace, a thousandth of its length
  pandofs trace replay --data /var/tmp/pando fpfs.trace
      do it in a new directory, through the library, clients side by side
  pandofs trace replay --on /mnt/pando fpfs.trace
      the same below a mount
  pandofs trace record --data /var/tmp/pando --to new.trace fpfs.trace
      replay it, and write down in which order things were done
  pandofs trace summarize fpfs.trace
      what is in it

What a benchmark does is recorded by 'pandofs bench … --record FILE'.";

/// Record, replay and sum up operations, with what each depends on
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TraceCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Do what is in a trace, in a new directory, which stays
    Replay {
        #[command(flatten)]
        target: TargetArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
        trace: PathBuf,
    },
    /// Replay a trace and write down what was done
    Record {
        #[command(flatten)]
        target: TargetArgs,
        /// The new trace
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        trace: PathBuf,
    },
    /// Count what is in a trace
    Summarize {
        /// Print JSON
        #[arg(long)]
        json: bool,
        trace: PathBuf,
    },
    /// Make a trace with the mix of FPFS's table I
    Synthetic {
        /// Its length, of the 19.4 million operations of the original
        #[arg(long, value_name = "FACTOR", default_value_t = 0.001)]
        scale: f64,
        /// Clients, 1 to 64
        #[arg(long, value_name = "N", default_value_t = 8)]
        clients: u32,
        /// Whatever is drawn at random follows from it
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        trace: PathBuf,
    },
}

impl TraceCommand {
    /// # Errors
    /// When a trace cannot be read, written or done.
    pub fn run(&self) -> Result<Outcome> {
        match &self.what {
            What::Summarize { json, trace } => show(&summarize(&read(trace)?), *json)?,
            What::Synthetic {
                scale,
                clients,
                seed,
                trace,
            } => {
                at_most_64(*clients)?;
                anyhow::ensure!(
                    *scale > 0.0 && *scale <= 10.0,
                    "a scale of 0 to 10, not {scale}"
                );
                let made = synthetic(*scale, *clients, *seed);
                write_trace(trace, &made)?;
                show(&summarize(&made), false)?;
            }
            What::Replay {
                target,
                json,
                trace,
            } => {
                let trace = read(trace)?;
                let mut started = target.start(&directory(), trace.clients as usize)?;
                show(&replay(&trace, &mut started.targets)?, *json)?;
            }
            What::Record { target, to, trace } => {
                let trace = read(trace)?;
                let mut started = target.start(&directory(), trace.clients as usize)?;
                let recorder = Recorder::default();
                let watched = (0..).zip(std::mem::take(&mut started.targets));
                let mut targets: Vec<_> = watched
                    .map(|(client, target)| recorder.watch(client, target))
                    .collect();
                show(&replay(&trace, &mut targets)?, false)?;
                let mut recorded = recorder.finish(trace.clients);
                recorded.prepare = trace.prepare;
                write_trace(to, &recorded)?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn directory() -> String {
    format!("pandofs-trace-{}", std::process::id())
}

fn read(path: &Path) -> Result<Trace> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let trace = Trace::read(BufReader::new(file)).with_context(|| path.display().to_string())?;
    at_most_64(trace.clients)?;
    Ok(trace)
}

fn show(summary: &Summary, json: bool) -> Result<()> {
    if json {
        let text = serde_json::to_string_pretty(summary).context("cannot write JSON")?;
        return crate::print(&format!("{text}\n"));
    }
    let mut table = Table::new(&[("operation", Align::Left), ("times", Align::Right)]);
    for (kind, count) in &summary.operations {
        table.row(vec![kind.to_string(), count.to_string()]);
    }
    let total: u64 = summary.operations.values().sum();
    let mut text = format!(
        "{table}{total} operations of {} clients after {} that prepare; {} wait for another client's\n",
        summary.clients, summary.prepared, summary.dependent
    );
    if summary.seconds > 0.0 {
        let rate = total as f64 / summary.seconds;
        text += &format!("{:.3} s, {rate:.0} operations a second\n", summary.seconds);
    }
    crate::print(&text)
}
