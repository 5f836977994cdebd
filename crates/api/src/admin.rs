//! What `status`, `fsck` and the like ask of a server.

use pandofs_types::{Epoch, FsId, ServerId, ShardId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// Answers `Status`.
    Status,
    /// The cluster map as JSON. Answers `Map`.
    Map,
    /// Stored pairs of one shard in key order after `after` (none: from the start), as they are now.
    /// Answers `Pairs`.
    Dump {
        shard: ShardId,
        #[serde(with = "serde_bytes")]
        after: Vec<u8>,
        max_bytes: u32,
    },
    /// Data objects on this server. Answers `Objects`.
    Objects { after: u64, max: u32 },
    /// Forces log and store. Answers `Done`.
    Flush,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AdminReply {
    Done,
    Status(Box<ServerStatus>),
    Map(String),
    Pairs {
        pairs: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
        more: bool,
    },
    /// Inode numbers of data objects and their bytes.
    Objects {
        objects: Vec<(u64, u64)>,
        more: bool,
    },
    Failed(String),
}

/// A server as it sees itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub id: ServerId,
    pub fs: FsId,
    pub epoch: Epoch,
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    pub shards: Vec<ShardStatus>,
    pub connections: u64,
    pub sessions: u64,
    /// Requests to shards since it started.
    pub requests: u64,
    /// Of these, answered with `Misdirected`, `NewNameMisdirected` or `Moved`.
    pub redirected: u64,
    /// Requests to data objects.
    pub data_requests: u64,
    /// Bytes.
    pub data_read: u64,
    /// Bytes.
    pub data_written: u64,
    /// Messages to other servers.
    pub peer_messages: u64,
    /// Distributed operations this server coordinated and finished.
    pub distributed: u64,
    /// Of these, aborted.
    pub aborted: u64,
    /// Bytes of log that the store does not hold yet.
    pub log_bytes: u64,
    /// Forced writes of the log.
    pub log_forces: u64,
    /// Records.
    pub log_records: u64,
    /// Batches in which they were written.
    pub log_batches: u64,
    /// Bytes, about.
    pub store_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardStatus {
    pub shard: u16,
    pub entries: u64,
    pub inodes: u64,
    pub partitions: u64,
    /// Partitions this shard split off since it was made.
    pub splits: u64,
    /// Index of the last applied record.
    pub applied: u64,
    /// Index of the last forced record.
    pub forced: u64,
    /// Distributed operations without a decision or an acknowledgement.
    pub undecided: u64,
    pub waiting: u64,
    /// Removed files whose data or forwarding records are still to go.
    pub reclaiming: u64,
    pub opens: u64,
    /// Locked ranges of files.
    pub locks: u64,
    /// Requests that wait for one.
    pub lock_waiters: u64,
}
