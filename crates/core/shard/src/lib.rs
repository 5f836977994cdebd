//! Drives one shard: takes requests and messages, proposes log records, applies them, and says what
//! is to be sent. Still without I/O: the lane in the server (or a simulator) carries it out.
//!
//! Invariant: between [`Shard::submit`] and [`Shard::apply`] nothing of the stored state changes; all
//! that changes it is a record, and records are applied in the order of their indexes, each once. The
//! rest of a shard's memory (who has what open, who waits for what, how far a split has copied) is
//! either found again after a restart or may be lost with it.
//!
//! Locks of files, leases and the reclaim list are machines of their own: events in, [commands](commands::Commands) out. The shard routes
//! between them, reads the store for them, and applies their records.
//!
//! How a lane uses it, for each batch of what has arrived:
//! 1. `submit` each input to its shard.
//! 2. `take_proposals` of every shard, append them to the log with one write, then `apply` each; again
//!    until no shard proposes anything.
//! 3. Keep the overlay, or write its batch to the store: at the latest before anybody else looks at it.
//! 4. `take_outputs` and carry them out; those that are `durable` once the log is synced.
//!
//! At the start: `open`, `replay` what the log holds beyond `applied`, `recover`, then a batch as above.

mod answers;
mod apply;
mod batch;
mod by_path;
mod closing;
mod commands;
mod coordinate;
mod early_votes;
mod file_locks;
mod grace;
mod grants;
mod leases;
mod map_notices;
mod notes;
mod opens;
mod operations;
mod participate;
mod placing;
mod plans;
pub mod port;
mod reclaim;
mod record;
mod sessions;
mod settle;
mod shard;
mod splits;
mod stripings;
mod submit;
mod tombstones;
mod validate;
mod validate_reply;
mod waiting;
mod warming;

pub use coordinate::{Coordinated, Origin};
pub use notes::Note;
pub use operations::Finished;
pub use pandofs_leases::Recall;
pub use port::{Environment, Input, Output, Proposal, ShardConfig, Ticket};
pub use record::{LOG_FORMAT_VERSION, Record};
pub use shard::{Shard, ShardError};
pub use validate::{Misfit, validate};
