//! Limits of a lane, with their units.

use pandofs_types::limits::MAX_LANE_BATCH;
use std::time::Duration;

/// Inputs that one batch may process, those that shards of the lane sent one another included.
pub const MAX_BATCH_INPUTS: usize = 4 * MAX_LANE_BATCH;
/// Interval at which the lane looks for clients that have waited for recalls for long.
pub const RECALLS_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of applied changes that a lane keeps before its store gets them. Many records write the same
/// keys (a slot's answer, a partition's count, how far a shard has applied), which cost the store one
/// write then. The store forgets what it has not flushed at a crash as well: the log keeps it.
pub const MAX_UNWRITTEN_BYTES: usize = 64 << 10;
/// Bytes of log records that a starting server applies before it writes them to its store.
pub const REPLAY_BATCH_BYTES: usize = 4 << 20;
/// Data objects that one thread has removed and remembers, so that no request that comes late makes one anew.
pub const MAX_REMEMBERED_REMOVALS: usize = 16_384;
/// Recalls sent to one session that it has not answered: some it answers when writes have ended.
pub const MAX_RECALLS_UNDER_WAY: usize = 256;
