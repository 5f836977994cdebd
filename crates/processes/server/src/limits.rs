//! Limits of a server, with their units and how they depend on one another.

use pandofs_types::limits::{
    CHECKSUM_BLOCK_BYTES, LOG_FILE_BYTES, MAX_FRAME_BYTES, MAX_IO_BYTES, UNSYNCED_TERM,
};
use std::time::Duration;

/// Lines about slow operations that a server writes to its log in one period.
pub const MAX_SLOW_LINES: u32 = 10;
/// That period.
pub const SLOW_LINES_PERIOD: Duration = Duration::from_secs(10);
/// A server logs an operation that is not answered when it has taken so many times as long as a slow one, and then
/// each time that it has taken twice as long.
pub const STILL_SLOW: u32 = 5;
/// Connections of one lane.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Bytes a lane holds back for one connection whose peer does not read; then it is closed.
pub const MAX_UNSENT_BYTES: usize = 64 << 20;
/// Bytes of answers that one connection may have outstanding, encoded or still to come, before a lane
/// takes up no more of its requests until some have gone out.
pub const MAX_OWED_BYTES: usize = 16 << 20;
/// Bytes of messages kept for a server that cannot be reached; beyond, the oldest are dropped, and
/// their shards send them again.
pub const MAX_LINK_BACKLOG_BYTES: usize = 8 << 20;
/// How long a data object has to be left unchanged before its server says on disk that it is all there:
/// the next change then costs one more synced write.
pub const SETTLE_AFTER: Duration = Duration::from_secs(60);
/// Data objects of which one thread of a server knows that they are to be settled; of others the next scrub
/// finds out.
pub const MAX_UNSETTLED_KNOWN: usize = 65_536;
/// Data objects with a sync that failed that a server keeps apart from all others; beyond, it takes none for synced
/// before it has written it once more.
pub const MAX_REWRITES_KNOWN: usize = 65_536;
/// Damaged blocks of data objects that a server tells of; more are only counted.
pub const MAX_DAMAGE_LISTED: usize = 16_384;
/// Data objects with which the disk failed that a server tells of; the log has all of them.
pub const MAX_FAILING_LISTED: usize = 256;
/// Bytes that a scrub reads at once.
pub const SCRUB_CHUNK_BYTES: usize = 1 << 20;
/// Data objects that a server keeps open, if the system lets it.
pub const MAX_OPEN_OBJECTS: usize = 1_024;
/// Files that the system must let a server open: with fewer there is none for clients besides those that it needs.
pub const MIN_SERVER_OPEN_FILES: usize = 192;
/// Data objects in one answer to an administrator's listing.
pub const MAX_OBJECTS_LISTED: usize = 65_536;
/// Threads of one server that read and write data objects.
pub const DATA_THREADS: usize = 4;
/// Threads of one server that sync data objects.
pub const DATA_SYNC_THREADS: usize = 2;
/// Threads of one lane that read its store where the lane would have to wait for the disk.
pub const READ_THREADS: usize = 2;
/// From one search of a server for a newer cluster map to the next, however many speak of one.
pub const MAP_LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long a new connection may take to say who it is.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server tries to connect to another one and waits for its welcome.
pub const LINK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server waits before it connects again to one it could not reach, the first time; each
/// further time twice as long.
pub const MIN_LINK_PAUSE: Duration = Duration::from_millis(50);
/// The longest it waits.
pub const MAX_LINK_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of one log file on the smallest disk.
pub const MIN_LOG_FILE_BYTES: u64 = 1 << 20;
/// A log takes no more than one in so many bytes of its disk, or four of the smallest files.
pub const SMALL_DISK_LOG_SHARE: u64 = 16;
/// Steps of operations that this server performs for others and follows at once; further ones are in no trace.
pub const MAX_TRACED_STEPS: usize = 4_096;
/// Time after which a step that was not answered is followed no longer.
pub const TRACED_STEP_TIME: Duration = Duration::from_secs(60);
/// One in so many bytes of a disk that a server uses are kept back, within the next two limits: what needs
/// space is refused when no more is left, so that there is room to make room.
pub const DISK_RESERVE_SHARE: u64 = 20;
/// Bytes of a disk that are kept back at least, but for small disks: there, one in
/// `MIN_DISK_RESERVE_SHARE`.
pub const MIN_DISK_RESERVE_BYTES: u64 = 64 << 20;
/// See `MIN_DISK_RESERVE_BYTES`.
pub const MIN_DISK_RESERVE_SHARE: u64 = 4;
/// Bytes of a disk that are kept back at most.
pub const MAX_DISK_RESERVE_BYTES: u64 = 1 << 30;
/// One in so many inodes of a disk are kept back, up to the next limit.
pub const DISK_INODE_RESERVE_SHARE: u64 = 20;
/// Inodes of a disk that are kept back at most.
pub const MAX_DISK_INODE_RESERVE: u64 = 4_096;
/// Time after which a server that writes little looks at a disk's space again.
pub const DISK_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a disk that a server takes in one step when it is asked for much at once: others may be using
/// the disk, and it looks again before each step.
pub const MAX_ALLOCATION_STEP_BYTES: u64 = 256 << 20;
/// A step takes no more than one in so many bytes of the disk's reserve: that many servers on a disk may
/// take one at the same time.
pub const ALLOCATION_STEP_SHARE: u64 = 8;

const _: () = {
    assert!(UNSYNCED_TERM.as_millis() >= SETTLE_AFTER.as_millis() * 2);
    assert!(MIN_LOG_FILE_BYTES <= LOG_FILE_BYTES);
    assert!(MIN_DISK_RESERVE_BYTES <= MAX_DISK_RESERVE_BYTES);
    assert!(MIN_DISK_RESERVE_SHARE < DISK_RESERVE_SHARE);
    assert!(MAX_IO_BYTES <= MAX_OWED_BYTES && MAX_OWED_BYTES * 2 <= MAX_UNSENT_BYTES);
    assert!(MAX_LINK_BACKLOG_BYTES >= MAX_FRAME_BYTES);
    assert!(MAX_OBJECTS_LISTED * 20 <= MAX_FRAME_BYTES);
    assert!(MAX_OPEN_OBJECTS >= DATA_THREADS);
    // A path and an error of the system are reported of each failing object.
    assert!(MAX_DAMAGE_LISTED * 20 + MAX_FAILING_LISTED * 8_192 <= MAX_FRAME_BYTES);
    assert!(SCRUB_CHUNK_BYTES.is_multiple_of(CHECKSUM_BLOCK_BYTES));
};
