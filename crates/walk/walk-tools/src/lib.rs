//! Tools on the parallel tree walk, for any tree, one file each in `cmd`.
//!
//! They are `walk`, `find`, `du`, `rm`, `cp`, `sync`, `cmp`, `sum`, `chmod`, `chown` and `tar`.
//!
//! Invariant: a tool that did not do all it was asked says so on standard error and in its exit
//! code; what it holds in memory does not grow with the number of entries (`du` and `tar` remember
//! files with several names, unpacking directories, `-exec` a command line); nothing is written to
//! standard output that cannot be parsed again.

mod change;
mod checkpoint;
mod checkpoint_merge;
pub mod cmd;
mod common_args;
mod copy;
mod du;
mod executor;
mod find;
mod job;
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
mod set_hash;
mod sum;
mod tar;
mod text;

pub use common_args::CommonArgs;
pub use executor::Executor;
pub use outcome::Outcome;

use anyhow::Result;
use clap::Subcommand;
use outcome::Wrong;

/// The tools, as subcommands.
#[derive(Subcommand, Clone, Debug)]
#[allow(
    missing_docs,
    reason = "each is told of at its arguments, and a comment here would take the place of that in the help"
)]
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
    /// Runs it to its end, by the executor. In each process of several that walk together.
    ///
    /// # Errors
    /// When it could not begin, or came to an end that is none, and that has no exit code of its
    /// own.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        pages::small_only();
        let ended = match self {
            Tool::Walk(walk) => walk.run(executor),
            Tool::Find(find) => find.run(executor),
            Tool::Du(du) => du.run(executor),
            Tool::Rm(rm) => rm.run(executor),
            Tool::Cp(cp) => cp.run(executor),
            Tool::Sync(sync) => sync.run(executor),
            Tool::Cmp(cmp) => cmp.run(executor),
            Tool::Sum(sum) => sum.run(executor),
            Tool::Tar(tar) => tar.run(executor),
            Tool::Chmod(chmod) => chmod.run(executor),
            Tool::Chown(chown) => chown.run(executor),
        };
        match ended {
            // Others have to hear of it, where there are some: see `failed`.
            Err(error) if !executor.is_several() && self.failed(&error) == Outcome::Trouble => {
                let name = self.name();
                eprintln!("pandofs {name}: {error:#}");
                if error.is::<Wrong>() {
                    eprintln!("see 'pandofs {name} --help'");
                }
                Ok(Outcome::Trouble)
            }
            Ok(Outcome::Incomplete) if matches!(self, Tool::Tar(_)) => Ok(Outcome::Trouble),
            ended => ended,
        }
    }

    /// Returns how it walks.
    pub fn common_args(&self) -> &CommonArgs {
        match self {
            Tool::Walk(walk) => &walk.common_args,
            Tool::Find(find) => &find.common_args,
            Tool::Du(du) => &du.common_args,
            Tool::Rm(rm) => &rm.common_args,
            Tool::Cp(cp) => &cp.common_args,
            Tool::Sync(sync) => &sync.common_args,
            Tool::Cmp(cmp) => &cmp.common_args,
            Tool::Sum(sum) => &sum.common_args,
            Tool::Tar(tar) => &tar.common_args,
            Tool::Chmod(chmod) => &chmod.common.common_args,
            Tool::Chown(chown) => &chown.common.common_args,
        }
    }

    /// Returns how it ended, with this error.
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
    tar::args::plain(std::env::args_os().collect())
}
