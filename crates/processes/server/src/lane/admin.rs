//! The server as it sees itself.

use super::LaneThread;
use crate::observer::{More, Seen};
use pandofs_api::{ScrubOrder, ServerStatus};

impl LaneThread {
    pub(super) fn status(&self) -> ServerStatus {
        let (shards, map) = (self.lane.shards(), self.lane.map());
        let finished = shards.finished();
        let counters = self.lane.counters();
        ServerStatus {
            id: self.lane.id(),
            fs: map.fs,
            epoch: map.epoch,
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            shards: shards.status(),
            connections: self.connections.len() as u64,
            sessions: self.lane.sessions() as u64,
            requests: counters.requests,
            redirected: self.counters.redirected,
            data_requests: self.counters.data_requests,
            data_read: self.counters.data_read,
            data_written: self.counters.data_written,
            peer_messages: self.counters.peer_messages,
            distributed: finished.committed + finished.aborted,
            aborted: finished.aborted,
            log_bytes: self.lane.unflushed_bytes(),
            log_syncs: counters.log_syncs,
            log_records: counters.log_records,
            log_batches: counters.log_batches,
            store_bytes: self.store.size_bytes(),
            granularity: shards.granularity(),
        }
    }

    /// The same with what administrators ask for by itself, and with more.
    pub(super) fn seen(&mut self) -> Seen {
        let shards = self.lane.shards();
        Seen {
            more: More {
                merges: shards.merged(),
                grants: shards.granted(),
                log_appended_bytes: self.lane.counters().log_bytes,
                owed_bytes: self.owed as u64,
            },
            status: self.status(),
            scrub: self.scrubber.order(ScrubOrder::Look, &self.holdings),
        }
    }
}
