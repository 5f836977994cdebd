//! Trials of a running cluster from outside, through the client library.
//!
//! They test what PandoFS promises of listings, of spreading, of many clients, of killed servers,
//! of lost power and of a server that is away.
//!
//! Invariant: a trial passes only if what it is about really happened (partitions split during a
//! listing, a server was killed with a full log) and every single answer was right.

mod away;
mod clients;
mod cluster;
mod fault_points;
mod history;
mod kill;
mod power_cut;
mod readdir;
mod spread;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Trials of a running PandoFS cluster. They make their own directories in its root.
#[derive(Parser)]
#[command(name = "pandofs-trials")]
struct Arguments {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    ReaddirThroughSplits(readdir::Options),
    Spread(spread::Options),
    Kill(kill::Options),
    Clients(clients::Options),
    FaultPoints(fault_points::Options),
    PowerCut(power_cut::Options),
    Away(away::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().trial {
        Trial::ReaddirThroughSplits(options) => readdir::run(&options),
        Trial::Spread(options) => spread::run(&options),
        Trial::Kill(options) => kill::run(&options),
        Trial::Clients(options) => clients::run(&options),
        Trial::FaultPoints(options) => fault_points::run(&options),
        Trial::PowerCut(options) => power_cut::run(&options),
        Trial::Away(options) => away::run(&options),
    }
}
