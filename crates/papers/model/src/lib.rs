//! Model of the production placement code on synthetic name spaces and operations.
//!
//! Without servers: the figures of the papers again, and what they would be at other sizes.
//!
//! Real: where objects, partitions and shards go ([`pandofs_placement`]). Made up:
//! the name spaces ([`space`]), what clients do, and what things cost ([`Costs`]). Its figures are shown by
//! [`report`], and so are measured ones.
//!
//! Invariant: one seed gives one result on every machine; no I/O, clock or threads. A figure that
//! differs from its paper says so, and why.

mod cache;
mod cluster;
mod costs;
mod engine;
mod figures;
mod growth;
mod macro1;
mod macro2;
mod place;
pub mod report;
mod rng;
pub mod space;

pub use costs::Costs;
pub use engine::Outcome;
pub use figures::Options;
pub use figures::live::{Bench, Live, Took, beside};
pub use growth::{Growth, Learning, Setting, grow};
pub use macro1::{Macro1, Order, macro1};
pub use macro2::macro2;
pub use place::{Placer, Policy, Tellings};
pub use rng::Rng;

use report::Figure;

/// Experiments that can be modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Dynamic Dir-Grain (Xiong et al.): figures 5 to 13.
    Ddg,
    /// Adaptive granularity against fixed ones.
    Adaptive,
    /// GIGA+: growth of one directory, balance, stale maps, servers that join.
    Giga,
    /// OrangeFS: creation and removal by servers, clients and initial partitions.
    Orangefs,
    /// A trillion files, 10,000 servers.
    Internet,
}

impl Experiment {
    /// In the order in which they are listed and run.
    pub const ALL: [Experiment; 5] = [
        Experiment::Ddg,
        Experiment::Adaptive,
        Experiment::Giga,
        Experiment::Orangefs,
        Experiment::Internet,
    ];

    /// Its figures.
    pub fn figures(self, options: &Options) -> Vec<Figure> {
        match self {
            Experiment::Ddg => figures::ddg::figures(options),
            Experiment::Adaptive => figures::adaptive::figures(options),
            Experiment::Giga => figures::giga::figures(options),
            Experiment::Orangefs => figures::orangefs::figures(options),
            Experiment::Internet => figures::internet::figures(options),
        }
    }
}
