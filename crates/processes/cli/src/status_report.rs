//! Output of `pandofs status --json`.

use crate::admin::ServerView;
use crate::branch_points::BranchReport;
use crate::new_cluster::policy_text;
use crate::shares::{self, Share};
use crate::source::Cluster;
use crate::weights::Weight;
use pandofs_api::{ScrubReport, ScrubState, ShardStatus};
use pandofs_placement::Granularity;
use serde::Serialize;

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: String,
    file_system: String,
    epoch: u64,
    shards: u16,
    policy: String,
    split_threshold: u32,
    max_partitions: u32,
    servers: Vec<ServerReport>,
    /// With `--branch-points`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_points: Option<Vec<BranchReport>>,
}

#[derive(Debug, Serialize)]
struct ServerReport {
    id: u16,
    address: String,
    addresses: Vec<String>,
    /// 1 for an ordinary server.
    weight: f64,
    /// Servers of one name may fail together.
    domain: String,
    share: Share,
    /// `up` or `away`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    up: Option<UpReport>,
}

/// Missing while the server is away.
#[derive(Debug, Serialize)]
struct UpReport {
    pid: u32,
    uptime_ms: u64,
    epoch: u64,
    /// How many it leads.
    shards: usize,
    entries: u64,
    inodes: u64,
    partitions: u64,
    splits: u64,
    requests: u64,
    redirected: u64,
    distributed: u64,
    aborted: u64,
    undecided: u64,
    waiting: u64,
    reclaiming: u64,
    opens: u64,
    locks: u64,
    lock_waiters: u64,
    /// Leases of clients.
    leases: u64,
    /// Leases that were recalled since the start.
    recalled: u64,
    /// Requests by path that were answered since the start.
    paths_answered: u64,
    /// Requests by path that were led on to another shard.
    paths_led_on: u64,
    /// Requests by path whose path was not known to be right.
    paths_unknown: u64,
    connections: u64,
    sessions: u64,
    data_requests: u64,
    data_read: u64,
    data_written: u64,
    peer_messages: u64,
    log_bytes: u64,
    log_syncs: u64,
    log_records: u64,
    log_batches: u64,
    store_bytes: u64,
    /// Granularity by which is placed at present, where the policy adapts; missing while nothing
    /// was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    granularity: Option<Granularity>,
    #[serde(flatten)]
    scrub: Option<Scrubbing>,
    shard_details: Vec<ShardStatus>,
}

#[derive(Debug, Serialize)]
struct Scrubbing {
    /// Known to be damaged: blocks of data objects, and other things.
    damaged: u64,
    /// Requests refused because of damaged blocks.
    refused_damaged: u64,
    /// `idle`, `running` or `paused`.
    scrub: &'static str,
    /// How far the pass under way or the last one is, in thousandths.
    scrub_share: u16,
    /// When the last pass ended, in seconds since 1970; 0 for never.
    scrub_ended: u64,
}

impl Scrubbing {
    fn new(scrub: &ScrubReport) -> Scrubbing {
        Scrubbing {
            damaged: damaged(scrub),
            refused_damaged: scrub.refused,
            scrub: match scrub.state {
                ScrubState::Idle => "idle",
                ScrubState::Running => "running",
                ScrubState::Paused => "paused",
            },
            scrub_share: scrub.share,
            scrub_ended: scrub.ended,
        }
    }
}

impl Report {
    pub(crate) fn new(cluster: &Cluster, views: &[ServerView]) -> Report {
        let map = &cluster.map;
        Report {
            name: map.name.clone(),
            file_system: map.fs.to_string(),
            epoch: map.epoch.0,
            shards: map.shard_count(),
            policy: policy_text(map.policy),
            split_threshold: map.settings.split_threshold,
            max_partitions: map.max_partitions(),
            servers: views
                .iter()
                .zip(shares::of_each(map, views))
                .map(|(view, share)| ServerReport::new(view, share))
                .collect(),
            branch_points: None,
        }
    }
}

impl ServerReport {
    fn new(view: &ServerView, share: Share) -> ServerReport {
        let sum = |of: fn(&ShardStatus) -> u64| view.sum(of);
        let up = view.status.as_ref().ok().map(|status| UpReport {
            pid: status.pid,
            uptime_ms: status.uptime_ms,
            epoch: status.epoch.0,
            shards: status.shards.len(),
            entries: sum(|shard| shard.entries),
            inodes: sum(|shard| shard.inodes),
            partitions: sum(|shard| shard.partitions),
            splits: sum(|shard| shard.splits),
            requests: status.requests,
            redirected: status.redirected,
            distributed: status.distributed,
            aborted: status.aborted,
            undecided: sum(|shard| shard.undecided),
            waiting: sum(|shard| shard.waiting),
            reclaiming: sum(|shard| shard.reclaiming),
            opens: sum(|shard| shard.opens),
            locks: sum(|shard| shard.locks),
            lock_waiters: sum(|shard| shard.lock_waiters),
            leases: sum(|shard| shard.leases),
            recalled: sum(|shard| shard.recalled),
            paths_answered: sum(|shard| shard.paths_answered),
            paths_led_on: sum(|shard| shard.paths_led_on),
            paths_unknown: sum(|shard| shard.paths_unknown),
            connections: status.connections,
            sessions: status.sessions,
            data_requests: status.data_requests,
            data_read: status.data_read,
            data_written: status.data_written,
            peer_messages: status.peer_messages,
            log_bytes: status.log_bytes,
            log_syncs: status.log_syncs,
            log_records: status.log_records,
            log_batches: status.log_batches,
            store_bytes: status.store_bytes,
            granularity: status.granularity,
            scrub: view.scrub.as_ref().map(Scrubbing::new),
            shard_details: status.shards.clone(),
        });
        ServerReport {
            id: view.info.id.0,
            address: view.info.addresses.first().cloned().unwrap_or_default(),
            addresses: view.info.addresses.clone(),
            weight: Weight(view.info.weight).number(),
            domain: view.info.domain.clone(),
            share,
            state: if up.is_some() { "up" } else { "away" },
            error: view.status.as_ref().err().map(ToString::to_string),
            up,
        }
    }
}

/// Blocks of data objects, and other things.
pub(crate) fn damaged(scrub: &ScrubReport) -> u64 {
    (scrub.damaged.len() + scrub.failing.len() + scrub.faults.len()) as u64
}
