//! The log port: records of many streams, appended in order, kept until they are pruned.
//!
//! A lane has one [`Log`]; each of its shards is a stream in it, and one append carries the
//! records of all of them (group commit). The log is the truth: what is in it can be applied again
//! to a store that lost its latest writes.
//!
//! Every implementation of [`Log`] passes the conformance suite (feature `suite`).

mod error;
mod memory;
mod port;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use error::LogError;
pub use memory::MemoryLog;
pub use port::{Entry, Log, Visit};
