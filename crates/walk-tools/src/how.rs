//! Options that all tools have.

use clap::Args;
use pandofs_walk::Algorithm;
use pandofs_walk_fs::Options;
use std::path::PathBuf;

/// How a tool walks.
#[derive(Args, Clone, Debug, Default)]
pub struct How {
    /// Threads [default: one for each processor]; more help where each call waits for a network
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// How work is shared: h-deqs, h-drqs (threads with one queue), drqs, deqs, pa-drqs (each thread
    /// with its own), cp, cp-keep-one (one thread hands it out) [default: h-deqs]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<Algorithm>,
    /// Where a queue goes that does not fit in memory [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
}

impl How {
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        if let Some(algorithm) = self.algorithm {
            options.algorithm = algorithm;
        }
        let threads = self.threads.unwrap_or(options.workers);
        if options.algorithm.shares_queue() {
            options.workers = threads;
        } else {
            (options.ranks, options.workers) = (threads, 1);
        }
        if let Some(spill) = &self.spill {
            options.spill_directory.clone_from(spill);
        }
        options
    }
}
