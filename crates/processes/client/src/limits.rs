//! Limits of the client library that nothing else uses, and their relations.

pub(crate) use pandofs_session::limits::{
    MAX_CACHED_INODE_SHARDS, MAX_CACHED_PARTITIONS, MAX_WRITE_LEASES,
};
use pandofs_types::limits::{DEFAULT_MOUNT_THREADS, MAX_IO_BYTES, PING_INTERVAL, SESSION_TIMEOUT};
use std::time::Duration;

/// Inodes with reads that a client reports later; reads of further ones are not reported.
pub(crate) const MAX_UNTOLD_ACCESSES: usize = 65_536;
/// Connections to one server that a client keeps for later.
pub(crate) const MAX_IDLE_CONNECTIONS: usize = 64;
/// A request of so many bytes waits for the server that takes them, as a rule.
pub(crate) const MUCH_TO_SEND_BYTES: usize = 64 << 10;
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
/// Bytes of all new files that are kept until they are closed; and as many of files that openings have brought.
pub(crate) const MAX_KEPT_BYTES: usize = 16 << 20;
/// How often who waits for the end of such operations looks whether its caller still does.
pub(crate) const DRAIN_LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Symbolic links followed in one path (Linux `MAXSYMLINKS`).
pub(crate) const MAX_SYMLINKS: usize = 40;
/// How often a client that has something open and asks nothing looks for a newer cluster map; well
/// below `SESSION_TIMEOUT`.
pub(crate) const MAP_LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Servers that a client without a cluster file asks for a newer map at a time.
pub(crate) const SERVERS_ASKED_FOR_MAPS: usize = 3;
/// How long it waits for each of them.
pub(crate) const MAP_PATIENCE: Duration = Duration::from_secs(1);
/// The first of the pauses after which a recall looks whether writes under its lease have ended, each twice as
/// long as the one before.
pub(crate) const MIN_WRITE_LEASE_PAUSE: Duration = Duration::from_millis(1);
/// The longest of them.
pub(crate) const MAX_WRITE_LEASE_PAUSE: Duration = Duration::from_millis(32);
/// Inodes that are not open of which one client remembers unsynced changes, some 130 bytes each:
/// not quite half of what a hash table with 65,536 places holds: one that is fuller, and in which
/// much comes and goes, doubles.
pub(crate) const MAX_UNSYNCED_INODES: usize = 28_000;
/// Silence after which a server may have let go of what the session has open.
pub(crate) const DOUBTFUL_SILENCE: Duration = SESSION_TIMEOUT.saturating_sub(PING_INTERVAL);

const _: () = {
    assert!(MAX_IO_BYTES <= MAX_PIPELINED_BYTES);
    assert!(MAX_WRITES_BEHIND < DEFAULT_MOUNT_THREADS);
    assert!(MAX_WRITES_BEHIND_PER_FILE <= MAX_WRITES_BEHIND);
};
