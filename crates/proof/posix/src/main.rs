//! Test of the promises of POSIX.1-2017 and the Linux man pages, call by call.
//!
//! Invariant: a case knows nothing of the file system that it runs on. It expects what the clause
//! says that it names; where that leaves a choice, every choice passes. Nothing depends on how fast
//! the machine is: times are compared with the file system's own clock, and what has to happen is
//! waited for.

mod case;
mod cases;
mod errno;
mod files;
mod known;
mod process;
mod run;
mod sys;
mod times;

use anyhow::{Result, ensure};
use clap::Parser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Puts a file system to the test, call by call, as root. Every case runs in a new directory below
/// DIR, which is removed after it.
#[derive(Parser)]
#[command(name = "pandofs-posix")]
struct Arguments {
    /// A directory on the file system.
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,
    /// Only the cases with this in their names; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// None of the cases with this in their names; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    except: Vec<String>,
    /// Print the cases and their clauses instead of running them.
    #[arg(long)]
    list: bool,
    /// Print one JSON object for each case.
    #[arg(long)]
    json: bool,
    /// A list of cases that do not pass on this file system, a line each: the name, and why; `not
    /// offered: ` and why if it does not have what the case is about. That one of them passes is
    /// wrong, too: it is to be taken off the list.
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    /// The same directory on another mount of the same file system: what one mount does the other
    /// sees.
    #[arg(long, value_name = "DIR")]
    second_mount: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut chosen = cases::all();
    let is_of = |patterns: &[String], name: &str| patterns.iter().any(|part| name.contains(part));
    chosen.retain(|case| {
        (arguments.only.is_empty() || is_of(&arguments.only, case.name))
            && !is_of(&arguments.except, case.name)
    });
    if arguments.list {
        for case in &chosen {
            println!("{:<44} {}", case.name, case.clause);
        }
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can act as other users"
    );
    ensure!(
        !chosen.is_empty(),
        "no case has that in its name: see --list"
    );
    let known = match &arguments.known {
        Some(file) => known::read(file, &cases::all())?,
        None => BTreeMap::new(),
    };
    let dir = arguments.dir.unwrap_or_default();
    run::run(
        &chosen,
        &dir,
        arguments.second_mount.as_deref(),
        arguments.json,
        &known,
    )
}
