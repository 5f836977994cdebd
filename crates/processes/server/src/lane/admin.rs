//! The server as it sees itself.

use super::Lane;
use pandofs_api::ServerStatus;

impl Lane {
    pub(super) fn status(&self) -> ServerStatus {
        let finished = self.shards.finished();
        ServerStatus {
            id: self.id,
            fs: self.map.fs,
            epoch: self.map.epoch,
            pid: std::process::id(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            shards: self.shards.status(),
            connections: self.connections.len() as u64,
            sessions: self.sessions.len() as u64,
            requests: self.counters.requests,
            redirected: self.counters.redirected,
            data_requests: self.counters.data_requests,
            data_read: self.counters.data_read,
            data_written: self.counters.data_written,
            peer_messages: self.counters.peer_messages,
            distributed: finished.committed + finished.aborted,
            aborted: finished.aborted,
            log_bytes: self.flush.unflushed_bytes,
            log_syncs: self.counters.log_syncs,
            log_records: self.counters.log_records,
            log_batches: self.counters.log_batches,
            store_bytes: self.store.size_bytes(),
            granularity: self.shards.granularity(),
        }
    }
}
