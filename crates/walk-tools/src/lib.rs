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
mod mirror;
mod mode;
mod outcome;
mod output;
mod parquet;
mod parts;
mod progress;
mod session;
mod tar;
mod text;

pub use crew::Crew;
pub use outcome::Outcome;

use anyhow::Result;
use clap::Subcommand;

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
    /// When it could not begin, or came to an end that is none.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        match self {
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
        }
    }
}
