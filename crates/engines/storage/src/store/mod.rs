//! The key-value port: what the namespace reads and writes, without knowing what keeps it.
//!
//! A shard's state is a [`Store`]: keys in the order of their bytes, atomic batches, durable up to
//! the last flush. The log replays what came after. [`Overlay`] holds the writes of applied records
//! until they become one batch, and remembers what was read through it.
//!
//! Every implementation of [`Store`] passes the conformance suite (feature `suite`).

mod batch;
mod cache;
mod error;
mod memory;
mod overlay;
mod port;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use batch::Batch;
pub use cache::ReadCache;
pub use error::StoreError;
pub use memory::MemoryStore;
pub use overlay::Overlay;
pub use port::{Cached, KvRead, Store, Visit};
