//! Limits of what a client caches.
//!
//! Each part has a number of its own; with all of them at their largest it takes some
//! [`MAX_CACHE_BYTES`].

use crate::limits::{
    MAX_BUFFERED_CONNECTIONS, MAX_CACHED_INODE_SHARDS, MAX_CACHED_PARTITIONS, MAX_UNSYNCED_INODES,
    MAX_UNTOLD_ACCESSES, MAX_WRITE_LEASES,
};
use pandofs_types::limits::{MAX_CACHE_BYTES, MAX_CACHED_DIR_MAPS, MAX_CACHED_LEASES};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Entries, and as many attributes, under leases.
    pub leases: usize,
    /// Write leases.
    pub write_leases: usize,
    /// Maps of directories.
    pub dir_maps: usize,
    /// Partitions in all of these maps.
    pub partitions: usize,
    /// Inodes that are known not to be on their birth shard.
    pub inode_shards: usize,
    /// Closed files with changes that may not be on disk yet.
    pub unsynced: usize,
    /// Inodes with reads that are still to be reported.
    pub accesses: usize,
    /// Idle connections that have their buffers all the same.
    pub buffered_connections: usize,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            leases: MAX_CACHED_LEASES,
            write_leases: MAX_WRITE_LEASES,
            dir_maps: MAX_CACHED_DIR_MAPS,
            partitions: MAX_CACHED_PARTITIONS,
            inode_shards: MAX_CACHED_INODE_SHARDS,
            unsynced: MAX_UNSYNCED_INODES,
            accesses: MAX_UNTOLD_ACCESSES,
            buffered_connections: MAX_BUFFERED_CONNECTIONS,
        }
    }
}

impl CacheLimits {
    /// As much of everything as this many bytes are of [`MAX_CACHE_BYTES`], and no more than there
    /// may be.
    pub fn within(bytes: usize) -> CacheLimits {
        let share = |most: usize| most * bytes.min(MAX_CACHE_BYTES) / MAX_CACHE_BYTES;
        let most = CacheLimits::default();
        CacheLimits {
            leases: share(most.leases),
            write_leases: share(most.write_leases),
            dir_maps: share(most.dir_maps),
            partitions: share(most.partitions),
            inode_shards: share(most.inode_shards),
            unsynced: share(most.unsynced),
            accesses: share(most.accesses),
            buffered_connections: share(most.buffered_connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_shrinks_alike_and_nothing_grows() {
        assert_eq!(CacheLimits::within(MAX_CACHE_BYTES), CacheLimits::default());
        assert_eq!(CacheLimits::within(usize::MAX), CacheLimits::default());
        let half = CacheLimits::within(MAX_CACHE_BYTES / 2);
        assert_eq!(half.leases, MAX_CACHED_LEASES / 2);
        assert_eq!(half.buffered_connections, MAX_BUFFERED_CONNECTIONS / 2);
        assert_eq!(CacheLimits::within(0).unsynced, 0);
    }
}
