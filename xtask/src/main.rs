//! House rules that neither the compiler nor clippy checks: `cargo xtask check`.
//!
//! Invariant: every rule has a test that feeds it something that breaks it.

mod check;
mod clocks;
mod dependencies;
mod documents;
mod faults;
mod finding;
mod purity;
mod source;
mod tidy;
mod workspace;

use std::process::{Command, ExitCode};

const USAGE: &str = "\
Usage: cargo xtask check
       cargo xtask sim [--seed S | --seeds N] [OPTIONS]
       cargo xtask faults [--named] [--seeds N] [NAME...]

check: which crate may depend on which, that the inner crates do without the outside world, and how
sources are kept. Prints each place that breaks a rule; exit code 1 if there is one.

sim: simulates whole clusters, each from one seed. --seed S replays one and shows what happened;
--seeds N runs many and shows the smallest scenario of each that fails; --help tells the rest.

faults: skips each rule that a patch in tests/faults says, or those named, runs the tests of the inner crates and seeds 0 to
N - 1 of the simulator until one fails, and prints what found each and how soon; exit code 1 if one lives. With --named only
the finder that the patch names is run.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check::run(),
        ["sim", ..] => sim(&arguments[1..]),
        ["faults", ..] => faults::run(&arguments[1..]),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Builds the simulator and runs it.
fn sim(arguments: &[String]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "pandofs-sim",
            "--",
        ])
        .args(arguments)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
