//! Measures tree walks.
//!
//! `figures` makes those of the paper (LaFon, Misra and Bringhurst, SC 2012) again, on simulated ranks and on real
//! ones; `floor` and `ignore` do the job that walkers are measured by, the sum of all sizes, as nothing but calls, and
//! with the walker of ripgrep; `tree` makes the trees for that. `scripts/bench-walk.sh` puts it together.
//!
//! Invariant: a figure says how it came about, with the seed, and its page says where the paper's claims do not hold.

mod figures;
mod floor;
mod page;
mod real;
mod ring;
mod svg;
mod trees;

use anyhow::Result;
use clap::{Parser, Subcommand};
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
        /// A tree that real ranks walk; needs --pandofs-mpi
        #[arg(long)]
        real: Option<PathBuf>,
        /// The command that is linked to MPI
        #[arg(long)]
        pandofs_mpi: Option<PathBuf>,
        /// Numbers of real ranks
        #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
        ranks: Vec<u32>,
        /// Runs of each number of real ranks, of which the fastest counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// The sum of all sizes, by nothing but getdents64 and statx
    Floor {
        #[arg(long, default_value_t = 2)]
        threads: usize,
        /// Ask for sizes by io_uring, 128 at once
        #[arg(long)]
        io_uring: bool,
        root: PathBuf,
    },
    /// The same by the walker of the `ignore` crate
    Ignore {
        #[arg(long, default_value_t = 2)]
        threads: usize,
        root: PathBuf,
    },
    /// Make a tree: `balanced` (files in directories of a hundred) or `skewed` (one directory with half of
    /// them, a chain, and small ones)
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
            real,
            pandofs_mpi,
            ranks,
            runs,
        } => {
            let simulated = figures::run(divide.max(1), seed);
            let real = match (&real, &pandofs_mpi) {
                (Some(tree), Some(program)) => Some(real::run(program, tree, &ranks, runs)?),
                _ => None,
            };
            std::fs::write(&out, page::page(&simulated, real.as_ref()))?;
            println!("{}", out.display());
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
