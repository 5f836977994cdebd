//! Limits of a walk over MPI, with their units.

use pandofs_walk_fs::limits::{CHECKPOINT_PIECE_BYTES, SHORTEST_POLL};
use std::time::Duration;

/// Bytes of one message of MPI; longer ones are sent in pieces.
pub const MESSAGE_BYTES: usize = 4 << 20;
/// Time that a process of a tree walk may be silent before the run ends, unless another limit was
/// given.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// Heartbeats of a process in the time after which it would be missed.
pub const BEATS_IN_SILENCE: u32 = 12;
/// Between two looks of a process that has come to its end at whether the others have.
pub const LONGEST_END_POLL: Duration = Duration::from_millis(20);
/// Time that MPI has to end the run when a process is missed; then each ends itself.
pub const ABORT_PATIENCE: Duration = Duration::from_secs(10);

const _: () = {
    assert!(CHECKPOINT_PIECE_BYTES < MESSAGE_BYTES);
    assert!(SHORTEST_POLL.as_nanos() <= LONGEST_END_POLL.as_nanos());
};
