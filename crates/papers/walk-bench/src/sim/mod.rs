//! Parallel tree walk on thousands of simulated ranks, in one thread.
//!
//! Trees are generated while they are walked.
//!
//! The ranks are those of `pandofs-walk`, the very ones that walk real trees. Made up are the costs
//! ([`Costs`], [`Network`]) and the tree ([`Tree`]), whose shape follows published statistics of
//! directories.
//!
//! Memory grows with what is queued, not with the tree.

mod chance;
mod network;
mod report;
mod run;
mod tree;

pub use network::Network;
pub use report::{Components, RankReport, Report};
pub use run::{Costs, Grain, Simulation, run};
pub use tree::{Directory, Tree};
