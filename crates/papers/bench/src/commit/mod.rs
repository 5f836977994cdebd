//! Cost of an operation over two servers with each of the commit protocols.
//!
//! The figures stand beside section 5.2 of Xiong et al.
//!
//! Operations are counted one at a time: of each that turned out to need both servers, what the
//! servers' counters rose by until nothing was under way any more. Throughput is that of several
//! clients at once.

mod cluster;
mod counts;
mod disk;
mod recovery;
mod throughput;
mod undecided;

use crate::report::machine;
use crate::target::Setup;
use anyhow::{Context, Result};
use pandofs_model::report::{Figure, json_lines, svg, text};
use std::fs;
use std::path::PathBuf;

/// Those that are compared, in the paper's order.
const PROTOCOLS: [&str; 3] = ["s2pc-mp", "2pc", "3pc"];

/// Costs of the commit protocols and the log, and the time of a recovery.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    setup: Setup,
    /// Operations over both servers of each protocol that are counted in each round.
    #[arg(long, default_value_t = 300)]
    operations: u64,
    /// Files of each throughput, all clients together.
    #[arg(long, default_value_t = 20_000)]
    files: u64,
    /// Clients of the throughputs.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Rounds in which protocols take turns; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Lengths of the logs from which a server is recovered, in MiB.
    #[arg(long, value_delimiter = ',', default_values_t = [10.0, 20.0, 30.0, 40.0, 48.0])]
    log: Vec<f64>,
    /// Recoveries of each kind; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    recoveries: u32,
    /// Numbers of undecided operations from which a server is recovered.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 720, 1446, 2178, 2912, 3655, 7440])]
    undecided: Vec<u64>,
    /// Length of the log in those recoveries, in MiB.
    #[arg(long, default_value_t = 10.0)]
    undecided_log: f64,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write every figure here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also draw every figure, as an SVG file in this folder.
    #[arg(long)]
    plots: Option<PathBuf>,
}

/// # Errors
/// When a cluster does not start, or an operation fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let scratch = options.setup.scratch()?;
    let context = pandofs_model::report::Context {
        commit: options.setup.commit.clone(),
        machine: machine(),
        seed: options.seed,
    };
    println!(
        "commit {}, {}, seed {}",
        context.commit, context.machine, context.seed
    );
    let mut json = options
        .json
        .as_ref()
        .map(|path| fs::File::create(path).with_context(|| path.display().to_string()))
        .transpose()?;
    let mut show = |figure: Figure| -> Result<()> {
        println!("\n{}", text(&figure));
        if let Some(file) = &mut json {
            use std::io::Write;
            file.write_all(json_lines(&figure, &context)?.as_bytes())?;
        }
        if let Some(folder) = &options.plots {
            fs::create_dir_all(folder)?;
            fs::write(folder.join(format!("{}.svg", figure.id)), svg(&figure)?)?;
        }
        Ok(())
    };
    show(disk::forced_write(scratch.path())?)?;
    for measured in [
        counts::of_protocols,
        throughput::of_protocols,
        throughput::with_and_without_log,
    ] {
        for figure in measured(options, scratch.path())? {
            show(figure)?;
        }
    }
    show(recovery::by_length(options, scratch.path())?)?;
    show(undecided::by_number(options, scratch.path())?)
}
