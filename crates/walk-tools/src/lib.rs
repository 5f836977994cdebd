//! Tools on the parallel tree walk, for any tree, one file each in `cmd`: `walk`, `find`, `du`, `rm`, `cp`, `sync`,
//! `cmp`, `sum`, `chmod`, `chown` and `tar`.
//!
//! Invariant: a tool that did not do all it was asked says so on standard error and in its exit code; what it
//! holds in memory does not grow with the number of entries (`du` and `tar` remember files with several names,
//! unpacking directories, `-exec` a command line); nothing is written to standard output that cannot be told apart again.

mod change;
mod checkpoint;
pub mod cmd;
mod copy;
mod crew;
mod du;
mod find;
mod how;
mod job;
mod lattice;
pub mod launcher;
mod limits;
mod linked;
mod mirror;
mod mode;
mod outcome;
mod output;
mod pages;
mod parquet;
mod parts;
mod progress;
mod roots;
mod session;
mod sum;
mod tar;
mod text;
mod together;

pub use crew::Crew;
pub use how::How;
pub use outcome::Outcome;

use anyhow::Result;
use clap::Subcommand;
use outcome::Wrong;

/// The tools, as subcommands.
#[derive(Subcommand, Clone, Debug)]
pub enum Tool {
    Walk(cmd::walk::Walk),
    Find(cmd::find::Find),
    Du(cmd::du::Du),
    Rm(cmd::rm::Rm),
    Cp(cmd::cp::Cp),
    Sync(cmd::sync::Sync),
    Cmp(cmd::cmp::Cmp),
    Sum(cmd::sum::Sum),
    Tar(cmd::tar::Tar),
    Chmod(cmd::chmod::Chmod),
    Chown(cmd::chown::Chown),
}

impl Tool {
    /// Runs it to its end, by whoever is to walk. In each process of several that walk together.
    ///
    /// # Errors
    /// When it could not begin, or came to an end that is none, and that has no exit code of its own.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        pages::small_only();
        let ended = match self {
            Tool::Walk(walk) => walk.run(crew),
            Tool::Find(find) => find.run(crew),
            Tool::Du(du) => du.run(crew),
            Tool::Rm(rm) => rm.run(crew),
            Tool::Cp(cp) => cp.run(crew),
            Tool::Sync(sync) => sync.run(crew),
            Tool::Cmp(cmp) => cmp.run(crew),
            Tool::Sum(sum) => sum.run(crew),
            Tool::Tar(tar) => tar.run(crew),
            Tool::Chmod(chmod) => chmod.run(crew),
            Tool::Chown(chown) => chown.run(crew),
        };
        match ended {
            // Others have to hear of it, where there are some: see `failed`.
            Err(error) if !crew.is_several() && self.failed(&error) == Outcome::Trouble => {
                let name = self.name();
                eprintln!("pandofs {name}: {error:#}");
                if error.is::<Wrong>() {
                    eprintln!("'pandofs {name} --help' tells what it takes");
                }
                Ok(Outcome::Trouble)
            }
            Ok(Outcome::Incomplete) if matches!(self, Tool::Tar(_)) => Ok(Outcome::Trouble),
            ended => ended,
        }
    }

    /// How it walks.
    pub fn how(&self) -> &How {
        match self {
            Tool::Walk(walk) => &walk.how,
            Tool::Find(find) => &find.how,
            Tool::Du(du) => &du.how,
            Tool::Rm(rm) => &rm.how,
            Tool::Cp(cp) => &cp.how,
            Tool::Sync(sync) => &sync.how,
            Tool::Cmp(cmp) => &cmp.how,
            Tool::Sum(sum) => &sum.how,
            Tool::Tar(tar) => &tar.how,
            Tool::Chmod(chmod) => &chmod.common.how,
            Tool::Chown(chown) => &chown.common.how,
        }
    }

    /// How it ended, with this error.
    pub fn failed(&self, error: &anyhow::Error) -> Outcome {
        if matches!(self, Tool::Tar(_) | Tool::Cmp(_)) || error.is::<Wrong>() {
            Outcome::Trouble
        } else {
            Outcome::Incomplete
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Tool::Walk(_) => "walk",
            Tool::Find(_) => "find",
            Tool::Du(_) => "du",
            Tool::Rm(_) => "rm",
            Tool::Cp(_) => "cp",
            Tool::Sync(_) => "sync",
            Tool::Cmp(_) => "cmp",
            Tool::Sum(_) => "sum",
            Tool::Tar(_) => "tar",
            Tool::Chmod(_) => "chmod",
            Tool::Chown(_) => "chown",
        }
    }
}

/// The words of the command line, as they are understood: `tar xf ARCHIVE` has no dash.
pub fn arguments() -> Vec<std::ffi::OsString> {
    tar::words::plain(std::env::args_os().collect())
}
