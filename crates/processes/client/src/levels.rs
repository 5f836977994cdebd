//! Levels: what a client has and waits for at a moment, for its monitoring.

use crate::Client;

/// State that a client has now, and its requests under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Names and attributes in the lease cache.
    pub cached: usize,
    /// Directories that it was granted.
    pub granted_directories: usize,
    /// Operations that were answered early and are not with their servers yet.
    pub early_queued: usize,
    /// Files and directories that are open.
    pub open_inodes: usize,
    /// Requests to shards that are not answered yet, those that wait for a server that is away included.
    pub requests_under_way: usize,
    /// Servers that did not answer when they were last asked.
    pub servers_away: usize,
}

impl Client {
    /// The levels of this client. Each lock is taken by itself, and only to count.
    pub fn levels(&self) -> Levels {
        let core = self.core();
        let (granted_directories, early_queued) = core.grants.levels();
        let cluster = core.clusters.current();
        Levels {
            cached: core.lease_cache.kept(),
            granted_directories,
            early_queued,
            open_inodes: core.opens.len(),
            requests_under_way: core.slots_taken(),
            servers_away: cluster.servers().filter(|server| server.is_away()).count(),
        }
    }
}
