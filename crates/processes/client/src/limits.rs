//! Limits of the client library that nothing else uses, and their relations.

use pandofs_types::limits::{
    DEFAULT_MOUNT_THREADS, LEASE, MAX_IO_BYTES, PING_INTERVAL, SESSION_TIMEOUT,
};
use std::time::Duration;

/// Inodes with reads that a client reports later; reads of further ones are not reported.
pub(crate) const MAX_UNTOLD_ACCESSES: usize = 65_536;
/// Partitions in all directory maps that a client caches.
pub(crate) const MAX_CACHED_PARTITIONS: usize = 1 << 20;
/// Inodes of which a client caches that they are not on their birth shard.
pub(crate) const MAX_CACHED_INODE_SHARDS: usize = 262_144;
/// Connections to one server that a client keeps for later.
pub(crate) const MAX_IDLE_CONNECTIONS: usize = 64;
/// Connections, to all servers, that keep their buffers though they are idle. Others take them anew
/// when they are used, which is far less than making a connection.
pub(crate) const MAX_BUFFERED_CONNECTIONS: usize = 256;
/// Bytes of file data that one call of a client has under way at once.
pub(crate) const MAX_PIPELINED_BYTES: usize = 16 << 20;
/// Writes of one open file that were answered before its servers have them. Each is of
/// [`MAX_IO_BYTES`] at most and kept by the thread that carries it out.
pub(crate) const MAX_WRITES_BEHIND_PER_FILE: usize = 4;
/// The same of all files of one client; further ones are answered when the servers have them. It is
/// less than the threads of a mount, so that some are left for programs that write nothing.
pub(crate) const MAX_WRITES_BEHIND: usize = 12;
/// How long after a write failed all are answered only when the servers have them: the disk that
/// was full will be full for the next one, and a program had better hear of it where it writes.
pub(crate) const WRITE_THROUGH_AFTER_FAILURE: Duration = Duration::from_secs(30);
/// Symbolic links followed in one path (Linux `MAXSYMLINKS`).
pub(crate) const MAX_SYMLINKS: usize = 40;
/// How often a client that has something open and asks nothing looks for a newer cluster map; well
/// below `SESSION_TIMEOUT`.
pub(crate) const MAP_LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Files of which one client knows at once under which lease it writes to them; writes to further
/// ones are not answered early.
pub(crate) const MAX_WRITE_LEASES: usize = 16_384;
/// How long a recall waits for writes that were answered early under the lease. One that takes
/// longer, and finds the file truncated, has failed.
pub(crate) const MAX_WRITE_LEASE_WAIT: Duration = Duration::from_secs(4);
/// The first of the pauses after which a recall looks whether such writes have ended, each twice as
/// long as the one before.
pub(crate) const MIN_WRITE_LEASE_PAUSE: Duration = Duration::from_millis(1);
/// The longest of them.
pub(crate) const MAX_WRITE_LEASE_PAUSE: Duration = Duration::from_millis(32);
/// How long after a lease was asked for in vain a client answers no write early before it asks
/// again.
pub(crate) const WRITE_LEASE_RETRY: Duration = Duration::from_millis(250);
/// When it caches one in so many of what it may, all but directories are cached for as long
/// as a brief lease lasts: the time in which `ls -l` or `find` look at their own results.
pub(crate) const MANY_LEASES_FRACTION: usize = 2;
/// Ends of leases that one client waits for at once, for each that it may cache: those that are
/// cached, and those that were cached and were recalled or learnt again before their end.
pub(crate) const LEASE_ENDS_PER_LEASE: usize = 4;
/// Inodes that are not open of which one client remembers unsynced changes, some 130 bytes each:
/// not quite half of what a hash table with 65,536 places holds: one that is fuller, and in which
/// much comes and goes, doubles.
pub(crate) const MAX_UNSYNCED_INODES: usize = 28_000;
/// Silence after which a server may have let go of what the session has open.
pub(crate) const DOUBTFUL_SILENCE: Duration = SESSION_TIMEOUT.saturating_sub(PING_INTERVAL);

const _: () = {
    assert!(MAX_WRITE_LEASE_WAIT.as_millis() * 2 < LEASE.as_millis());
    assert!(MAX_IO_BYTES <= MAX_PIPELINED_BYTES);
    assert!(MAX_WRITES_BEHIND < DEFAULT_MOUNT_THREADS);
    assert!(MAX_WRITES_BEHIND_PER_FILE <= MAX_WRITES_BEHIND);
};
