//! The name space of one shard as a state machine over a key-value store: what a request reads, and
//! what a record changes.
//!
//! Invariant: no I/O, clock, randomness, threads or async; what an operation does is a function of the
//! stored state, the locks and its arguments. One operation, one file: [`ops`] holds what clients ask,
//! [`steps`] what one shard does of an operation that may span several.
//!
//! An operation that can touch several shards is a *plan*: a list of steps, each for one shard. When
//! all of them are here, the shard checks them all and executes them in one record. Otherwise each
//! shard *prepares* its steps: checks them, and locks what they depend on, so that *executing* them
//! later cannot fail. Nothing is written before the operation is decided, so nothing is ever undone;
//! requests for a locked key wait.

mod context;
pub mod keys;
pub mod locks;
mod made;
pub mod merge;
pub mod ops;
pub mod paths;
pub mod permission;
pub mod records;
pub mod split;
pub mod steps;
mod stop;
pub mod touches;
mod txn;
mod view;

pub use context::Context;
pub use locks::{LockSet, Locks};
pub use ops::{Admission, Choices, Plan, PlanAnswer};
pub use stop::Stop;
pub use txn::{Effect, Meta, Txn};
pub use view::{Owned, View};
