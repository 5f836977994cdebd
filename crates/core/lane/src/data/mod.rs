//! Data objects of a server without its disk: in which order changes are made, and what is said of them when.
//!
//! The objects are a port. A server has them in files, with threads that sync them; a simulator has them in memory,
//! where a crash takes what was not synced. Both are driven by [`DataThread`].

mod memory;
mod port;
#[cfg(feature = "suite")]
pub mod suite;
mod thread;

pub use memory::{Mark, MemoryObjects};
pub use port::{DataObjects, Done};
pub use thread::{DataOrder, DataThread, Purpose, Waiter, Work};
