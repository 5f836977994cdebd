//! Runs scenarios from the command line: one, to be looked at, or many, to find those that fail.

use clap::Parser;
use pandofs_sim::shrink::shrink;
use pandofs_sim::{Plant, Scenario, Trace, run};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs of a failing scenario while it is made smaller.
const SHRINK_RUNS: usize = 400;

/// Simulates whole clusters, each from one seed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim")]
struct Options {
    /// Replay this seed, and show what happened
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run so many seeds, and show the smallest scenario of each that failed
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin no further seed after so many seconds
    #[arg(long)]
    within: Option<u64>,
    /// End at the first that fails, and do not make its scenario smaller
    #[arg(long, conflicts_with = "seed")]
    first: bool,
    /// Do this wrong
    #[arg(long, value_parser = plant)]
    plant: Option<Plant>,
    /// With `--seed`: make the scenario smaller first, if it fails
    #[arg(long)]
    shrink: bool,
}

fn plant(name: &str) -> Result<Plant, String> {
    let found = Plant::ALL
        .into_iter()
        .find(|plant| format!("{plant:?}") == name);
    found.ok_or_else(|| format!("one of {:?}", Plant::ALL))
}

fn main() -> ExitCode {
    let options = Options::parse();
    // A panic is a finding like others, and shrinking makes many.
    std::panic::set_hook(Box::new(|_| {}));
    let done = match options.seed {
        Some(seed) => replay(seed, &options),
        None => many(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the output has seen enough.
        Err(_) => ExitCode::SUCCESS,
    }
}

fn scenario(seed: u64, options: &Options) -> Scenario {
    Scenario {
        plant: options.plant,
        ..Scenario::from_seed(seed)
    }
}

fn replay(seed: u64, options: &Options) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let mut scenario = scenario(seed, options);
    if options.shrink
        && let Err(finding) = run(&scenario, Trace::none()).result
    {
        scenario = shrink(&scenario, &finding, SHRINK_RUNS).0;
    }
    write!(out, "{scenario}")?;
    let outcome = run(&scenario, Trace::kept());
    write!(out, "{}", outcome.trace)?;
    match outcome.result {
        Ok(counted) => {
            writeln!(out, "seed {seed} passed: {counted:?}")?;
            Ok(true)
        }
        Err(finding) => {
            writeln!(out, "seed {seed} failed: {finding}")?;
            Ok(false)
        }
    }
}

fn many(options: &Options) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let start = Instant::now();
    let limit = options.within.map(Duration::from_secs);
    let (mut passed, mut failed) = (0, Vec::new());
    for seed in options.from..options.from + options.seeds {
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        let scenario = scenario(seed, options);
        match run(&scenario, Trace::none()).result {
            Ok(_) => passed += 1,
            Err(finding) => {
                writeln!(out, "seed {seed} failed: {finding}")?;
                failed.push(seed);
                if options.first {
                    break;
                }
                let (smallest, finding) = shrink(&scenario, &finding, SHRINK_RUNS);
                writeln!(out, "{smallest}=> {finding}\n")?;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    writeln!(
        out,
        "{passed} seeds passed, {} failed in {seconds:.1} s: {failed:?}",
        failed.len()
    )?;
    Ok(failed.is_empty())
}
