//! Measurements of tree walks.
//!
//! `figures` makes those of the paper (LaFon, Misra and Bringhurst, SC 2012) again, on simulated
//! ranks and on real ones; `floor` and `ignore` do the job that walkers are measured by, the sum of
//! all sizes, as nothing but calls, and with the walker of ripgrep; `processes` says what more
//! processes cost; `tree` makes the trees for that. `scripts/bench-walk.sh` puts it together.
//!
//! Invariant: a figure says how it came about, with the seed, and its page says where the paper's
//! claims do not hold.

mod claims;
mod figures;
mod floor;
mod kept;
mod launch;
mod page;
mod real;
mod ring;
mod spread;
mod svg;
mod trees;

use anyhow::Result;
use clap::{Parser, Subcommand};
use kept::Kept;
use real::Runs;
use spread::Spread;
use std::path::PathBuf;

#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The paper's figures, as an HTML page
    Figures {
        /// Where the page goes
        #[arg(long, default_value = "walk-figures.html")]
        out: PathBuf,
        /// Nodes of the trees are those of the paper (6.5, 12 and 110 million) divided by this
        #[arg(long, default_value_t = 10)]
        divide: u64,
        /// Of trees and walks
        #[arg(long, default_value_t = 11)]
        seed: u64,
        /// A file that keeps what simulated runs came to: those that it has are not done again. It
        /// is of one version of this program
        #[arg(long)]
        keep: Option<PathBuf>,
        /// Trees that real ranks walk, from the smallest to the largest
        #[arg(long, value_delimiter = ',', requires = "pandofs_mpi")]
        real: Vec<PathBuf>,
        /// The command that is linked to MPI
        #[arg(long)]
        pandofs_mpi: Option<PathBuf>,
        /// Numbers of real processes, from the least to the most
        #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
        processes: Vec<u32>,
        /// Rounds of runs of real ranks
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// How much more of the processors several processes take than one, over MPI
    Processes {
        /// The command that is linked to MPI
        #[arg(long)]
        pandofs_mpi: PathBuf,
        #[arg(long, default_value_t = 8)]
        processes: u32,
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        root: PathBuf,
    },
    /// The sum of all sizes, by nothing but getdents64 and statx
    Floor {
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Ask for sizes by io_uring, 256 at once, with so many threads of the kernel for each of
        /// ours
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        io_uring: Option<u32>,
        root: PathBuf,
    },
    /// The same by the walker of the `ignore` crate
    Ignore {
        #[arg(long, default_value_t = 2)]
        threads: usize,
        root: PathBuf,
    },
    /// Make a tree: `balanced` (files in directories of a hundred) or `skewed` (one directory with
    /// half of them, a chain, and small ones)
    Tree {
        #[arg(value_parser = ["balanced", "skewed"])]
        shape: String,
        #[arg(long, default_value_t = 1_000_000)]
        files: u64,
        root: PathBuf,
    },
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Figures {
            out,
            divide,
            seed,
            keep,
            real,
            pandofs_mpi,
            processes,
            rounds,
        } => {
            let mut kept = match &keep {
                Some(file) => Kept::open(file)?,
                None => Kept::default(),
            };
            let simulated = figures::run(divide.max(1), seed, &mut kept)?;
            let real = match &pandofs_mpi {
                Some(program) if !real.is_empty() => {
                    let runs = Runs {
                        program,
                        trees: &real,
                        processes: &processes,
                        rounds,
                    };
                    Some(runs.run()?)
                }
                _ => None,
            };
            std::fs::write(&out, page::page(&simulated, real.as_ref()))?;
            for line in claims::lines(&simulated.figures, real.as_ref()) {
                println!("{line}");
            }
            println!("{}", out.display());
        }
        Command::Processes {
            pandofs_mpi,
            processes,
            rounds,
            root,
        } => {
            let numbers = [1, processes];
            let seconds = real::processor_seconds(&pandofs_mpi, &root, &numbers, rounds)?;
            let [one, several] = [0, 1].map(|at: usize| Spread::of(seconds[at].clone()));
            let times = Spread::of_ratios(&seconds[1], &seconds[0]);
            println!(
                "  1 process {one} s, {processes} processes {several} s: {times} times as much"
            );
        }
        Command::Floor {
            threads,
            io_uring,
            root,
        } => println!("{}", floor::floor(&root, threads, io_uring)?),
        Command::Ignore { threads, root } => println!("{}", floor::ignore(&root, threads)?),
        Command::Tree { shape, files, root } => trees::make(&shape, files, &root)?,
    }
    Ok(())
}
