//! A whole cluster in one thread, from one seed: servers with their shards, logs and stores, clients with what they
//! remember, a network between them, and every fault that a scenario has. The parts are those of production; what is
//! simulated is what is outside of them: sockets, disks, clocks and threads.
//!
//! Invariant: a run is a function of its [`Scenario`]. Nothing in here reads a clock, draws a random number that does
//! not follow from the seed, or goes through a table whose order changes from run to run.
//!
//! | file | job |
//! | --- | --- |
//! | `scenario` | what happens in a run, as lists that can be made smaller |
//! | `server`, `disk`, `store` | a server: a lane, and what a crash leaves of its log and store |
//! | `client`, `program` | a client: operations as requests, where they go, what is done about answers |
//! | `network`, `world` | what becomes of messages; events in the order of time |
//! | `history`, `early`, `oracles` | what clients were told, and what of it before servers had it; what must hold of it and of what is stored |
//! | `shrink` | the smallest scenario that fails in the same way |
//! | `plant` | wrong things done on purpose, which the oracles must find |

mod client;
mod disk;
mod early;
mod history;
mod network;
mod oracles;
mod plant;
mod program;
pub mod scenario;
mod server;
pub mod shrink;
mod store;
mod trace;
mod world;

pub use oracles::Finding;
pub use scenario::{Plant, Scenario};
pub use trace::Trace;
pub use world::Counted;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Counts of a run that held, or the first thing that must not be.
    pub result: Result<Counted, Finding>,
    /// Empty unless it was to be kept.
    pub trace: String,
}

/// Runs a scenario.
pub fn run(scenario: &Scenario, trace: Trace) -> Outcome {
    let keeps = trace.clone();
    let run = AssertUnwindSafe(|| World::new(scenario.clone(), keeps).run());
    match catch_unwind(run) {
        Ok((result, trace, counted)) => Outcome {
            result: result.map(|()| counted),
            trace: trace.into_text(),
        },
        Err(panic) => Outcome {
            result: Err(Finding::new("panic", message(&*panic))),
            trace: String::new(),
        },
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}
