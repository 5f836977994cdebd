//! Families of a mount.

use super::{build_info, process};
use pandofs_client::{Client, Counters, Levels};
use pandofs_fuse::RequestTimes;
use pandofs_metrics::{Family, Snapshot, Source, Unread, Values, sample};
use pandofs_spans::Spans;
use std::sync::Arc;

/// The mount of this process.
pub(crate) struct MountSource {
    pub client: Client,
    pub times: Arc<RequestTimes>,
    /// Requests come over io_uring, not by `/dev/fuse`.
    pub over_io_uring: bool,
    /// Memory that it may take.
    pub memory_bytes: u64,
    pub spans: Option<Spans>,
}

/// A mount at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub file_system: String,
    pub requests: Vec<(String, Snapshot)>,
    pub under_way: u64,
    pub over_io_uring: bool,
    pub counters: Counters,
    pub levels: Levels,
    pub memory_bytes: u64,
}

impl Source for MountSource {
    fn read(&self) -> Result<Vec<Family>, Unread> {
        let seen = Seen {
            file_system: self.client.cluster_map().fs.to_string(),
            requests: self.times.read(),
            under_way: self.times.under_way(),
            over_io_uring: self.over_io_uring,
            counters: self.client.counters(),
            levels: self.client.levels(),
            memory_bytes: self.memory_bytes,
        };
        let mut families = families(&seen);
        families.extend(process::families(self.spans.as_ref()));
        Ok(families)
    }
}

/// All but those of any process.
pub(super) fn families(seen: &Seen) -> Vec<Family> {
    let info = build_info("mount", String::new(), seen.file_system.clone());
    [
        vec![info],
        of_requests(seen),
        of_caches(seen),
        of_calls(seen),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_requests(seen: &Seen) -> Vec<Family> {
    let requests = seen.requests.iter();
    let requests = requests.map(|(operation, times)| sample("operation", operation, times.clone()));
    vec![
        Family {
            name: "pandofs_mount_request_duration_seconds",
            help: "Time that the mount took for a request of the kernel, by operation, servers included. A lock that is \
                   waited for is not in it.",
            values: Values::Histograms(requests.collect()),
        },
        Family::gauge(
            "pandofs_mount_requests_under_way",
            "Requests of the kernel that threads of the mount have now: programs that wait.",
            seen.under_way,
        ),
        Family::gauge(
            "pandofs_mount_over_io_uring",
            "1 if requests of the kernel come over io_uring, 0 if by /dev/fuse.",
            u64::from(seen.over_io_uring),
        ),
        Family::gauge(
            "pandofs_mount_open_inodes",
            "Files and directories that programs have open through this mount.",
            seen.levels.open_inodes,
        ),
        Family::gauge(
            "pandofs_mount_memory_limit_bytes",
            "Memory that this mount may take (--memory).",
            seen.memory_bytes,
        ),
    ]
}

fn of_caches(seen: &Seen) -> Vec<Family> {
    let Seen {
        counters, levels, ..
    } = seen;
    vec![
        Family::gauge(
            "pandofs_mount_cached",
            "Names and attributes that this mount has under leases.",
            levels.cached,
        ),
        Family::counter(
            "pandofs_mount_cache_hits",
            "Questions that were answered from these, without a server.",
            counters.cache_hits,
        ),
        Family::counter(
            "pandofs_mount_leases_recalled",
            "Leases that servers have asked this mount to give back.",
            counters.recalled,
        ),
        Family::gauge(
            "pandofs_mount_granted_directories",
            "Directories that this mount was granted, in which it executes operations itself.",
            levels.granted_directories,
        ),
        Family::counter(
            "pandofs_mount_early_operations",
            "Operations that were executed in such directories, before servers had them (early names).",
            counters.early,
        ),
        Family::gauge(
            "pandofs_mount_early_queued",
            "Of these, those that are not with their servers yet: a crash of this machine would take them along.",
            levels.early_queued,
        ),
    ]
}

fn of_calls(seen: &Seen) -> Vec<Family> {
    let Seen {
        counters, levels, ..
    } = seen;
    vec![
        Family::counter(
            "pandofs_mount_calls",
            "Requests that this mount sent to servers, those that it sent again included.",
            counters.requests,
        ),
        Family::counter(
            "pandofs_mount_calls_redirected",
            "Of these, those that went to a shard that had not (or no longer) what was asked for.",
            counters.redirects,
        ),
        Family::counter(
            "pandofs_mount_calls_put_off",
            "Of these, those that were answered with 'try again'.",
            counters.busy,
        ),
        Family::counter(
            "pandofs_mount_calls_resent",
            "Calls that were lost without an answer and sent again.",
            counters.resent,
        ),
        Family::gauge(
            "pandofs_mount_calls_under_way",
            "Calls to shards that are not answered yet: those that wait for a server that is away, too.",
            levels.requests_under_way,
        ),
        Family::counter(
            "pandofs_mount_connections",
            "Connections to servers that this mount has made.",
            counters.connections,
        ),
        Family::gauge(
            "pandofs_mount_servers_away",
            "Servers that did not answer when they were last asked.",
            levels.servers_away,
        ),
    ]
}
