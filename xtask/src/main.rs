//! House rules that neither the compiler nor clippy checks: `cargo xtask check`.
//!
//! Invariant: every rule has a test that feeds it something that breaks it.

mod check;
mod dependencies;
mod documents;
mod finding;
mod purity;
mod source;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask check

Checks which crate may depend on which, that the inner crates do without the outside world, and how
sources are kept. Prints each place that breaks a rule; exit code 1 if there is one.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check::run(),
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
