//! A server's lane without its surroundings: how batches go through shards, log and store, and what waits for the disk.
//!
//! Requests, messages and reports of the disk go in, with the time and random numbers; answers, messages and orders for
//! the disk come out. Log and store are ports. A server carries out what comes out with sockets and threads, and a
//! simulator with a queue of events: both run this code.
//!
//! Invariant: no I/O but through the ports, no clock, randomness or threads. Nothing is acknowledged as durable before a
//! sync of the log that began after its append has ended, and the log keeps what the store has not flushed.

mod batch;
mod command;
pub mod data;
mod data_tickets;
mod delays;
mod disk;
mod durable;
mod error;
mod faults;
mod flush;
mod hot;
mod lane;
pub mod limits;
mod loads;
mod map;
mod recalls;
mod recovery;
mod removed;
mod sessions;
mod shards;

pub use command::{Command, DataOrigin};
pub use delays::Delays;
pub use error::{LaneError, RecoverError};
pub use faults::{FaultError, FaultPoints, Points, Stage, Subject};
pub use flush::{Written, flush};
pub use lane::{Counters, Heard, Lane, LaneParts};
pub use map::{MapOutcome, MapTaken};
pub use recovery::{LogBehind, Replayed, configs, recover};
pub use removed::Removed;
pub use shards::Shards;
