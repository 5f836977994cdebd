//! `pandofs demo`

use crate::demo::{self, Job, Plan, Work};
use crate::exit::Outcome;
use crate::mounts;
use crate::source::Source;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pandofs up --servers 4 --data /tmp/p --mount /mnt/p -- pandofs demo --data /tmp/p --mount /mnt/p
  pandofs demo --data /tmp/p --mount /mnt/p --files 20000 --tar linux.tar.xz

It unpacks a source tree and compares it, makes many files in one directory from several
processes, lists and stats them, kills a server in the middle of the work, removes everything, and
checks the file system. It wants an empty file system run by 'pandofs up', which starts the killed
server again.";

/// Show a file system at work, and check that all of it is right
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    #[command(flatten)]
    source: Source,
    /// Where it is mounted
    #[arg(long, value_name = "DIR")]
    mount: PathBuf,
    /// A source tree to unpack [default: /usr/include]
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    /// Files to make in one directory
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    files: u64,
    /// Processes that make them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    processes: u64,
}

impl Demo {
    /// # Errors
    /// The first thing that is not as it must be.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let cluster = self.source.find(Some(&self.mount))?;
        let held = cluster
            .data
            .as_ref()
            .map(|data| data.is_held())
            .transpose()?;
        if held != Some(true) {
            bail!(
                "the demo kills a server, which somebody has to start again: run the cluster with \
                 'pandofs up' and give its --data"
            );
        }
        let mount = mounts::absolute(&self.mount)
            .with_context(|| format!("cannot find --mount {}", self.mount.display()))?;
        let mounted = mounts::all()?;
        if !mounts::at(&mounted, &mount).is_some_and(mounts::Mount::is_pandofs) {
            bail!("no PandoFS is mounted on {}", mount.display());
        }
        demo::run(&Plan {
            cluster,
            mount,
            tar: self.tar.clone(),
            files: self.files,
            processes: self.processes,
        })
    }
}

/// One process of the demo
#[derive(Args, Clone, Debug)]
pub(crate) struct Worker {
    #[arg(value_enum)]
    job: Job,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    first: u64,
    #[arg(long)]
    end: u64,
    #[arg(long)]
    every: u64,
}

impl Worker {
    /// # Errors
    /// The first call that fails.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let part = Work {
            job: self.job,
            dir: self.dir.clone(),
            files: self.first..self.end,
            every: self.every,
        };
        demo::work(&part, &mut std::io::stdout().lock())?;
        Ok(Outcome::Done)
    }
}
