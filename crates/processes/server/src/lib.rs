//! One server of a file system: the process that leads shards and holds data objects.
//!
//! A [`Server`] has one *lane*, a thread that owns its sockets, shards, log and store handle and runs
//! to completion. Beside it are helper threads for what waits for the disk: syncing the log, flushing
//! the store, reading keys that are not in memory, and the data objects. They share nothing with the
//! lane but the store and the log, which are made for it, and report through a mailbox.
//!
//! Invariant: the lane never waits for a sync of the log, nothing is acknowledged as durable before a
//! sync of the log that began after its append has ended, the log keeps what the store has not flushed,
//! and no peer's bytes harm another's connection.
//!
//! Not in here: what a request means (`pandofs-shard` and below), how frames look (`pandofs-wire`).

mod clock;
mod connection;
mod data;
mod descriptors;
mod directory;
mod disk;
mod dump;
mod error;
mod faults;
mod flusher;
mod helper;
mod lane;
pub mod limits;
mod log_syncer;
mod mailbox;
mod memory;
mod observer;
mod peers;
mod readers;
mod scrub;
mod server;
mod slowest;
mod store;
mod stored;
#[cfg(test)]
mod testing;
mod times;
mod unlogged;

pub use error::{ServerError, StartError};
pub use faults::FOLDER_VARIABLE;
pub use observer::{More, Observed, Observer, Unobserved};
pub use server::{Options, Replayed, Server, ServerHandle, Stopper};
pub use stored::{Pairs, stored};
pub use times::Timed;
pub use unlogged::UNLOGGED_VARIABLE;
