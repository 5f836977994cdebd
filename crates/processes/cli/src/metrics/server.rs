//! Families of a server.

use super::{build_info, process};
use pandofs_api::{ScrubState, ShardStatus};
use pandofs_metrics::{Family, Source, Unread, Values, sample};
use pandofs_server::{Observed, Observer};
use pandofs_spans::Spans;
use std::time::Duration;

/// How long a server's lane is waited for. It answers between two batches, in milliseconds; what scrapes it waits for
/// ten seconds mostly.
const LANE_TIME: Duration = Duration::from_secs(2);
const MILLISECONDS: f64 = 1e3;
/// Of the share that a scrub has done.
const THOUSANDTHS: f64 = 1e3;

/// A server of this process.
pub(crate) struct ServerSource {
    pub observer: Observer,
    /// Memory that it was given for caches, writes and requests.
    pub memory_bytes: u64,
    pub spans: Option<Spans>,
}

impl Source for ServerSource {
    fn read(&self) -> Result<Vec<Family>, Unread> {
        let observed = self.observer.observe(LANE_TIME);
        let observed = observed.map_err(|error| Unread(error.to_string()))?;
        let mut families = families(&observed, self.memory_bytes);
        families.extend(process::families(self.spans.as_ref()));
        Ok(families)
    }
}

/// All but those of any process.
pub(super) fn families(observed: &Observed, memory_bytes: u64) -> Vec<Family> {
    let status = &observed.status;
    let info = build_info("server", status.id.to_string(), status.fs.to_string());
    let uptime = Family::gauge(
        "pandofs_server_uptime_seconds",
        "Time since this server began to serve.",
        status.uptime_ms as f64 / MILLISECONDS,
    );
    let epoch = Family::gauge(
        "pandofs_server_map_epoch",
        "Epoch of the cluster map that this server goes by; it grows with each change of the cluster.",
        status.epoch.0,
    );
    [
        vec![info, uptime, epoch],
        of_requests(observed),
        of_names(observed),
        of_promises(observed),
        of_log_and_store(observed),
        of_data(observed),
        of_scrubbing(observed),
        of_memory(observed, memory_bytes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn sum(observed: &Observed, of: fn(&ShardStatus) -> u64) -> u64 {
    observed.status.shards.iter().map(of).sum()
}

fn of_requests(observed: &Observed) -> Vec<Family> {
    let status = &observed.status;
    let outcome = |outcome, count: u64| sample("outcome", outcome, count);
    let operations = observed.timed.operations.iter();
    let operations =
        operations.map(|(operation, times)| sample("operation", operation, times.clone()));
    let early = observed.timed.early.iter();
    let early = early.map(|(operation, count)| sample("operation", operation, *count));
    vec![
        Family::counter(
            "pandofs_server_requests",
            "Requests of clients to the shards of this server, those that came again and those that it refused included.",
            status.requests,
        ),
        Family::counter(
            "pandofs_server_redirects",
            "Requests that were told to go to another shard, because a directory has split or an inode has moved.",
            status.redirected,
        ),
        Family {
            name: "pandofs_server_operation_duration_seconds",
            help: "Time from taking a request of a client to a shard to answering it, by operation. Waiting for locks, \
                   leases, the disk and other servers is in it; a 'batch' holds many early operations.",
            values: Values::Histograms(operations.collect()),
        },
        Family {
            name: "pandofs_server_early_operations",
            help: "Operations that clients had executed themselves, under grants, and that came in batches, by operation.",
            values: Values::Counters(early.collect()),
        },
        Family::gauge(
            "pandofs_server_requests_waiting",
            "Requests that are put aside until a lock, a lease or an operation lets them go on.",
            sum(observed, |shard| shard.waiting),
        ),
        Family {
            name: "pandofs_server_distributed_operations",
            help: "Operations over several shards that this server coordinated and that have ended, by outcome.",
            values: Values::Counters(vec![
                outcome(
                    "committed",
                    status.distributed.saturating_sub(status.aborted),
                ),
                outcome("aborted", status.aborted),
            ]),
        },
        Family::gauge(
            "pandofs_server_undecided_operations",
            "Operations over several shards that are not decided or not acknowledged by all of them.",
            sum(observed, |shard| shard.undecided),
        ),
        Family::gauge(
            "pandofs_server_connections",
            "Open connections of clients, administrators and other servers.",
            status.connections,
        ),
        Family::gauge(
            "pandofs_server_sessions",
            "Clients that are known to this server, connected or not.",
            status.sessions,
        ),
        Family::counter(
            "pandofs_server_peer_messages",
            "Messages that this server sent to other servers.",
            status.peer_messages,
        ),
    ]
}

fn of_names(observed: &Observed) -> Vec<Family> {
    vec![
        Family::gauge(
            "pandofs_server_shards",
            "Shards that this server leads.",
            observed.status.shards.len(),
        ),
        Family::gauge(
            "pandofs_server_entries",
            "Names in the parts of directories that this server has.",
            sum(observed, |shard| shard.entries),
        ),
        Family::gauge(
            "pandofs_server_inodes",
            "Files, directories and others that are on this server.",
            sum(observed, |shard| shard.inodes),
        ),
        Family::gauge(
            "pandofs_server_partitions",
            "Partitions of directories that this server has: each directory is one until it splits.",
            sum(observed, |shard| shard.partitions),
        ),
        Family::counter(
            "pandofs_server_splits",
            "Partitions that were split off here since the file system was made, restarts included.",
            sum(observed, |shard| shard.splits),
        ),
        Family::counter(
            "pandofs_server_merges",
            "Partitions that went from here back to those they were split from, since this server's start.",
            observed.more.merges,
        ),
        Family::gauge(
            "pandofs_server_reclaiming_inodes",
            "Removed files of which data or traces are still to go.",
            sum(observed, |shard| shard.reclaiming),
        ),
    ]
}

fn of_promises(observed: &Observed) -> Vec<Family> {
    vec![
        Family::gauge(
            "pandofs_server_open_inodes",
            "Files and directories that clients have open.",
            sum(observed, |shard| shard.opens),
        ),
        Family::gauge(
            "pandofs_server_leases",
            "Leases that clients have: promises to ask them before something changes.",
            sum(observed, |shard| shard.leases),
        ),
        Family::counter(
            "pandofs_server_leases_recalled",
            "Leases that clients were asked to give back.",
            sum(observed, |shard| shard.recalled),
        ),
        Family::gauge(
            "pandofs_server_grants",
            "Directories that clients are granted, in which they execute operations themselves.",
            observed.more.grants,
        ),
        Family::gauge(
            "pandofs_server_file_locks",
            "Ranges of files that programs have locked with flock or fcntl.",
            sum(observed, |shard| shard.locks),
        ),
        Family::gauge(
            "pandofs_server_file_lock_waiters",
            "Programs that wait for such a lock.",
            sum(observed, |shard| shard.lock_waiters),
        ),
    ]
}

fn of_log_and_store(observed: &Observed) -> Vec<Family> {
    let status = &observed.status;
    vec![
        Family::counter(
            "pandofs_server_log_records",
            "Records that were appended to the log: changes of shards.",
            status.log_records,
        ),
        Family::counter(
            "pandofs_server_log_batches",
            "Writes of the log, each with the records of many requests.",
            status.log_batches,
        ),
        Family::counter(
            "pandofs_server_log_appended_bytes",
            "Bytes of the records that were appended to the log.",
            observed.more.log_appended_bytes,
        ),
        Family::gauge(
            "pandofs_server_log_unflushed_bytes",
            "Bytes of records that the store has not on disk yet, and that would be replayed after a crash.",
            status.log_bytes,
        ),
        Family::histogram(
            "pandofs_server_log_force_duration_seconds",
            "Time that the disk took to force the log; what is acknowledged as durable has waited for it.",
            observed.timed.forces.clone(),
        ),
        Family::gauge(
            "pandofs_server_store_bytes",
            "Size of the store on disk, about.",
            status.store_bytes,
        ),
        Family::histogram(
            "pandofs_server_store_flush_duration_seconds",
            "Time that it took to write what the store has in memory to disk, after which the log may forget it.",
            observed.timed.flushes.clone(),
        ),
    ]
}

fn of_data(observed: &Observed) -> Vec<Family> {
    let status = &observed.status;
    let requests = observed.timed.data.iter();
    let requests = requests.map(|(operation, times)| sample("operation", operation, times.clone()));
    vec![
        Family::counter(
            "pandofs_server_data_requests",
            "Requests to data objects, of clients and of shards.",
            status.data_requests,
        ),
        Family {
            name: "pandofs_server_data_request_duration_seconds",
            help: "Time from taking a request of a client to a data object to answering it, by operation.",
            values: Values::Histograms(requests.collect()),
        },
        Family::counter(
            "pandofs_server_data_read_bytes",
            "Bytes that were read from data objects.",
            status.data_read,
        ),
        Family::counter(
            "pandofs_server_data_written_bytes",
            "Bytes that clients have written to data objects.",
            status.data_written,
        ),
    ]
}

fn of_scrubbing(observed: &Observed) -> Vec<Family> {
    let scrub = &observed.scrub;
    let state = |name, state| sample("state", name, u64::from(scrub.state == state));
    vec![
        Family {
            name: "pandofs_server_scrub_state",
            help: "Whether the server reads and checks all that it stores: 1 for the state that it is in.",
            values: Values::Gauges(vec![
                state("idle", ScrubState::Idle),
                state("running", ScrubState::Running),
                state("paused", ScrubState::Paused),
            ]),
        },
        Family::gauge(
            "pandofs_server_scrub_progress_ratio",
            "Part that is done of the scrub that is under way, or was done of the last one: 1 is all.",
            f64::from(scrub.share) / THOUSANDTHS,
        ),
        Family::counter(
            "pandofs_server_scrubs",
            "Scrubs that were begun since this server's start.",
            scrub.pass,
        ),
        Family::gauge(
            "pandofs_server_scrub_last_end_timestamp_seconds",
            "When the last scrub ended, in seconds since 1970; 0 if none ever has.",
            scrub.ended,
        ),
        Family::gauge(
            "pandofs_server_damaged",
            "Blocks of data objects and other things that are known to be damaged now: anything but 0 needs somebody.",
            crate::status_report::damaged(scrub),
        ),
        Family::counter(
            "pandofs_server_damage_refusals",
            "Requests that were refused because of damaged blocks.",
            scrub.refused,
        ),
    ]
}

fn of_memory(observed: &Observed, memory_bytes: u64) -> Vec<Family> {
    vec![
        Family::gauge(
            "pandofs_server_memory_limit_bytes",
            "Memory that this server was given for caches, writes and requests (--memory).",
            memory_bytes,
        ),
        Family::gauge(
            "pandofs_server_owed_bytes",
            "Bytes of file data that requests have brought or asked for and that are not answered yet.",
            observed.more.owed_bytes,
        ),
    ]
}
