//! Requests of administrators to a server, for `status`, `fsck` and the like.

use crate::activity::Activity;
use pandofs_placement::Granularity;
use pandofs_types::{Epoch, FsId, ServerId, ShardId};
use serde::{Deserialize, Serialize};

/// A question or an order of an administrator to one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// Answers `Status`.
    Status,
    /// The cluster map as JSON. Answers `Map`.
    Map,
    /// Stored pairs of one shard in key order after `after` (none: from the start), as they are now.
    /// Answers `Pairs`.
    Dump {
        /// A shard that this server leads.
        shard: ShardId,
        /// The last key of the page before; empty for the first page.
        #[serde(with = "serde_bytes")]
        after: Vec<u8>,
        /// Keys and values of a page; at least one pair comes, however large.
        max_bytes: u32,
    },
    /// Data objects on this server. Answers `Objects`.
    Objects {
        /// Inode number of the last one of the page before; 0 for the first page.
        after: u64,
        /// Objects of a page.
        max: u32,
    },
    /// Syncs log and store. Answers `Done`.
    Flush,
    /// About reading and checking everything that is stored. Answers `Scrub`.
    Scrub(ScrubOrder),
    /// Go by this newer cluster map, as JSON. Answers `Done` when the server does, or by a newer one.
    TakeMap(String),
    /// Answers `Activity`.
    Activity,
}

/// Order to a server's scrubbing. Every order is answered with how it goes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScrubOrder {
    /// Tell how it goes.
    Look,
    /// Begin a pass over everything now, reading up to this many bytes a second (0: as many as can be). One
    /// that was asked for and is under way is not begun again; it gets the higher one of the rates.
    Begin {
        /// Bytes a second; 0 for no limit.
        rate: u64,
    },
    /// Read nothing until it is told to go on, or started again.
    Pause,
    /// Go on.
    Resume,
}

/// Answer to an [`AdminRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AdminReply {
    /// It was done, and on disk where the request is about that.
    Done,
    /// The server and its shards, at the time of the answer.
    Status(Box<ServerStatus>),
    /// The cluster map that the server goes by, as JSON.
    Map(String),
    /// A page of one shard's stored pairs.
    Pairs {
        /// Keys and values, in key order.
        pairs: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
        /// Whether there are pairs after these.
        more: bool,
    },
    /// Inode numbers of data objects and their bytes.
    Objects {
        /// Inode number and bytes on disk, in the order of the numbers.
        objects: Vec<(u64, u64)>,
        /// Whether there are objects after these.
        more: bool,
    },
    /// Nothing was done, for this reason.
    Failed(String),
    /// How the scrubbing goes after the order.
    Scrub(Box<ScrubReport>),
    /// The server's activity at the time of the answer.
    Activity(Box<Activity>),
}

/// Progress of a server's scrubbing. Counts are of the pass under way, or else of the last one, unless a
/// field says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Whether a pass is under way.
    pub state: ScrubState,
    /// Passes begun since the server's start: the number of the one that is under way or was the last.
    pub pass: u64,
    /// The number of the last one that came to its end; 0 for none.
    pub finished: u64,
    /// How far it is, in thousandths.
    pub share: u16,
    /// Bytes a second that are read at most; 0: no limit.
    pub rate: u64,
    /// Data objects.
    pub objects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// When the last pass ended, in seconds since 1970 (also before the server's start); 0 for never.
    pub ended: u64,
    /// Blocks of data objects that are known to be damaged now: inode number and block.
    pub damaged: Vec<(u64, u64)>,
    /// Other faults: with the store, with the log, with what cannot be read.
    pub faults: Vec<String>,
    /// Blocks since the server's start that did not fit their checksums and may never have been synced:
    /// they were taken as they are.
    pub taken: u64,
    /// Requests since the server's start that were refused because of damaged blocks.
    pub refused: u64,
    /// Data objects with which the disk failed, or of whose checksums the header is damaged: inode number, and what the
    /// server says of it. One is told of until a pass finds nothing wrong with it, or it is removed.
    pub failing: Vec<(u64, String)>,
}

/// State of a server's scrubbing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScrubState {
    /// No pass is under way; the next one begins by itself or by order.
    #[default]
    Idle,
    /// A pass is under way.
    Running,
    /// A pass is under way and reads nothing until it is told to go on.
    Paused,
}

/// A server as it sees itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its number in the cluster map.
    pub id: ServerId,
    /// The file system that its data directory belongs to.
    pub fs: FsId,
    /// Of the cluster map that it goes by.
    pub epoch: Epoch,
    /// Of its process, on its own machine.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Those that it leads, by number.
    pub shards: Vec<ShardStatus>,
    /// Open connections of clients, administrators and other servers.
    pub connections: u64,
    /// Clients that are known to it, connected or not.
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
    /// Synced writes of the log.
    pub log_syncs: u64,
    /// Records.
    pub log_records: u64,
    /// Batches in which they were written.
    pub log_batches: u64,
    /// Bytes, about.
    pub store_bytes: u64,
    /// Granularity of directories whose policy adapts, at present, before their own bounds; `None` while none asked.
    pub granularity: Option<Granularity>,
}

/// One shard, as the server that leads it sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Its number in the cluster map.
    pub shard: u16,
    /// Names in the partitions on it.
    pub entries: u64,
    /// Inodes that are on it now, wherever they were made.
    pub inodes: u64,
    /// Active partitions of all directories.
    pub partitions: u64,
    /// Partitions this shard split off since it was made.
    pub splits: u64,
    /// Index of the last applied record.
    pub applied: u64,
    /// Index of the last synced record.
    pub synced: u64,
    /// Distributed operations without a decision or an acknowledgement.
    pub undecided: u64,
    /// Requests that are put aside until a lock, a lease or an operation lets them go on.
    pub waiting: u64,
    /// Removed files whose data or forwarding records are still to go.
    pub reclaiming: u64,
    /// Inodes that some session has open.
    pub opens: u64,
    /// Locked ranges of files.
    pub locks: u64,
    /// Requests that wait for one.
    pub lock_waiters: u64,
    /// Leases that clients have.
    pub leases: u64,
    /// Leases that were recalled since the start.
    pub recalled: u64,
    /// Requests by path that were answered since the start.
    pub paths_answered: u64,
    /// Requests by path that were led on to another shard since the start, as the name's partition is there.
    pub paths_led_on: u64,
    /// Requests by path since the start whose path was not known, so that the client went through the directories.
    pub paths_unknown: u64,
}
