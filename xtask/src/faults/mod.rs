//! Planted faults: rules that patches skip, each by itself, and what finds that (`tests/faults`).
//!
//! All patches are applied to one copy of the sources, in which a variable of the environment says which rule is skipped. So
//! one build serves all.

pub(crate) mod patch;
mod run;
mod tree;

use crate::workspace::{Problem, Workspace};
use patch::Fault;
use run::{Outcome, Runner};
use std::path::Path;
use std::process::ExitCode;

/// Seeds of the simulator that are tried, unless it is said how many.
const SEEDS: u64 = 300;

/// Wishes of the command line.
#[derive(Debug, Default)]
struct Options {
    /// Only the finder that a patch names is run.
    named: bool,
    seeds: Option<u64>,
    names: Vec<String>,
}

/// Runs `cargo xtask faults` with these arguments.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(options) = parse(arguments) else {
        eprintln!("cargo xtask faults: [--named] [--seeds N] [NAME...]");
        return ExitCode::from(2);
    };
    let done = std::env::current_dir()
        .map_err(|error| Problem::Read(Path::new(".").to_owned(), error))
        .and_then(|here| Workspace::load(&here))
        .and_then(|workspace| find_all(&workspace, &options));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("xtask faults: {problem}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--named" => options.named = true,
            "--seeds" => options.seeds = Some(arguments.next()?.parse().ok()?),
            other if other.starts_with('-') => return None,
            name => options.names.push(name.to_owned()),
        }
    }
    Some(options)
}

/// Looks for each fault, and prints a line for each. Returns whether all were found, and nothing where nothing was planted.
fn find_all(workspace: &Workspace, options: &Options) -> Result<bool, Problem> {
    let mut faults = patch::all(&workspace.root)?;
    for name in &options.names {
        if !faults.iter().any(|fault| fault.name == *name) {
            return Err(Problem::Faults(format!("there is no fault {name}")));
        }
    }
    if !options.names.is_empty() {
        faults.retain(|fault| options.names.contains(&fault.name));
    }
    let tree = tree::make(workspace)?;
    let mut runner = Runner::build(&tree, options.seeds.unwrap_or(SEEDS))?;
    if let Some(failure) = runner.find_nothing()? {
        println!("with nothing planted {failure} fails");
        return Ok(false);
    }
    let mut lives: Vec<&Fault> = Vec::new();
    println!("{:<50} {:>7}  found by", "fault", "seconds");
    for fault in &faults {
        let outcome = match options.named {
            true => runner.find_as_named(fault)?,
            false => runner.find(fault)?,
        };
        let Outcome { by, took } = outcome;
        let seconds = took.as_secs_f64();
        let by = by.unwrap_or_else(|| {
            lives.push(fault);
            "NOTHING".to_owned()
        });
        println!("{:<50} {seconds:>7.1}  {by}", fault.name);
    }
    println!("{} faults, {} live", faults.len(), lives.len());
    Ok(lives.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_which_and_how() {
        let parse = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            parse(&words)
        };
        let options = parse("a --named --seeds 7 b").expect("well formed");
        assert!(options.named);
        assert_eq!(options.seeds, Some(7));
        assert_eq!(options.names, ["a", "b"]);
        assert!(parse("--seeds").is_none() && parse("--seeds x").is_none());
        assert!(parse("--unknown").is_none());
    }
}
