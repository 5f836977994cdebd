//! Limits of a walk on real trees, with their units.

use std::time::Duration;

/// Between two looks of a process of a tree walk at what others have sent, while there is much to
/// do.
pub const SHORTEST_POLL: Duration = Duration::from_micros(50);
/// The same while there is little; each look in vain doubles the time.
pub const LONGEST_POLL: Duration = Duration::from_millis(2);
/// Between two times that a process of a tree walk that is watched tells the first one how far it
/// is.
pub const BETWEEN_REPORTS: Duration = Duration::from_millis(500);
/// Pieces of output of one process of a tree walk that the first one has not received yet.
pub const UNRECEIVED_OUTPUTS: usize = 4;
/// Pieces of output that wait for that; a thread with more waits.
pub const WAITING_OUTPUTS: usize = 16;
/// Bytes of a checkpoint that one process of a tree walk sends to the first one in one message.
pub const CHECKPOINT_PIECE_BYTES: usize = 1 << 20;
/// Pieces of a checkpoint under way that the first process has not received yet.
pub const UNRECEIVED_PIECES: usize = 4;
/// Bytes of items that a walk that goes on reads from its checkpoint at once.
pub const LOADED_BYTES: usize = 1 << 20;
/// Directories that a tree walk keeps open for those below them, if the process may have that many.
pub const OPEN_DIRECTORIES: usize = 512;
/// Bytes into which each thread of a tree walk reads a directory.
pub const LISTING_BYTES: usize = 64 << 10;
/// Entries of a slice of a large directory: what one thread of a tree walk hands to another at
/// once.
pub const SLICE_ENTRIES: usize = 256;
/// A directory's rest with fewer entries is no slice: each slice costs its receiver an open.
pub const LEAST_SLICE_ENTRIES: usize = 32;

const _: () = {
    assert!(SHORTEST_POLL.as_nanos() <= LONGEST_POLL.as_nanos());
    assert!(LEAST_SLICE_ENTRIES <= SLICE_ENTRIES);
};
