//! Options that all tools have.

use crate::executor::Executor;
use crate::outcome::wrong;
use anyhow::Result;
use clap::Args;
use pandofs_walk::Algorithm;
use pandofs_walk_fs::Options;
use std::path::PathBuf;

/// Options of the walk of a tool.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Threads [default: one for each processor, over several processes its share of them]; more
    /// help where each call waits for a network
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// How work is shared: h-deqs, h-drqs (threads with one queue), drqs, deqs, pa-drqs (each
    /// thread with its own), cp, cp-keep-one (one thread hands it out) [default: h-deqs]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<Algorithm>,
    /// Where a queue goes that does not fit in memory [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Show how far it is even where standard error seems to be no terminal, as below mpirun
    #[arg(long)]
    pub progress: bool,
    /// Over several processes: how long nothing may be heard of one of them before the run ends
    /// with an error; 0 for ever [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub silence: Option<u64>,
}

impl CommonArgs {
    /// # Errors
    /// When each of several processes is to have threads with queues of their own.
    pub fn options(&self, executor: &Executor<'_>) -> Result<Options> {
        let mut options = Options::default();
        if let Some(algorithm) = self.algorithm {
            options.algorithm = algorithm;
        }
        let share = (options.workers as usize / executor.on_this_host()).max(1);
        let threads = self.threads.unwrap_or(share as u32);
        if executor.is_several() {
            if !options.algorithm.shares_queue() && self.threads.is_some_and(|it| it > 1) {
                return Err(wrong(
                    "threads of one process share its queue: choose h-drqs or h-deqs",
                ));
            }
            options.workers = if options.algorithm.shares_queue() {
                threads
            } else {
                1
            };
        } else if options.algorithm.shares_queue() {
            options.workers = threads;
        } else {
            (options.ranks, options.workers) = (threads, 1);
        }
        if self.progress {
            options.meter.watch();
        }
        if let Some(spill) = &self.spill {
            options.spill_directory.clone_from(spill);
        }
        Ok(options)
    }
}
