//! Limits of a session that servers do not know, and their relations.

use pandofs_types::limits::LEASE;
use std::time::Duration;

/// Partitions in all directory maps that a client caches.
pub const MAX_CACHED_PARTITIONS: usize = 1 << 20;
/// Inodes of which a client caches that they are not on their birth shard.
pub const MAX_CACHED_INODE_SHARDS: usize = 262_144;
/// Files of which one client knows at once under which lease it writes to them; writes to further
/// ones are not answered early.
pub const MAX_WRITE_LEASES: usize = 16_384;
/// Time limit of a recall for writes that were answered early under the lease. One that takes
/// longer, and finds the file truncated, has failed.
pub const MAX_WRITE_LEASE_WAIT: Duration = Duration::from_secs(4);
/// Pause after a lease was asked for in vain, in which a client answers no write early and does not ask
/// again.
pub const WRITE_LEASE_RETRY: Duration = Duration::from_millis(250);
/// When it caches one in so many of what it may, all but directories are cached for as long
/// as a brief lease lasts: the time in which `ls -l` or `find` look at their own results.
pub const MANY_LEASES_FRACTION: usize = 2;
/// Ends of leases that one client waits for at once, for each that it may cache: those that are
/// cached, and those that were cached and were recalled or learnt again before their end.
pub const LEASE_ENDS_PER_LEASE: usize = 4;

const _: () = assert!(MAX_WRITE_LEASE_WAIT.as_millis() * 2 < LEASE.as_millis());
