//! Activity of a server: hot directories, slow operations, and who waits for whom.

use pandofs_types::{Ino, Name, ServerId, SessionId, ShardId, TxId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Cause for which a request waits before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The end of an operation over several shards that has locked what it needs.
    Operation(TxId),
    /// Records of its shard that were proposed before it.
    Records,
    /// A split of this directory that is taking its locks.
    Split(Ino),
    /// Clients that are to give leases or grants back.
    Recall {
        /// One of them.
        session: SessionId,
        /// How many there are besides.
        others: u32,
    },
    /// Clients that have not come back since the server's restart.
    Returning,
    /// A lock of a file that a program has.
    FileLock {
        /// The client that the program uses.
        session: SessionId,
    },
    /// A key that is read from the disk of the store.
    Store,
    /// The log, which is being forced to its disk.
    Log,
    /// A server, of which a shard has a part in the operation.
    Server {
        /// Where the shard is.
        server: ServerId,
        /// The shard.
        shard: ShardId,
    },
    /// Data objects that are to follow a change.
    Objects,
    /// A pause, after it gave way to an older operation.
    Pause,
}

/// A server's doings of late. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Since its start: by two answers it follows what there was in a second.
    pub at: u64,
    /// Time that processors have worked for its process.
    pub cpu: u64,
    /// Of these, for the thread that does all work on metadata: a second in a second is all it can do.
    pub lane_cpu: u64,
    /// Memory of its process, in bytes.
    pub memory_bytes: u64,
    /// Requests of clients to its shards that are not answered yet.
    pub under_way: u64,
    /// The longest that a request of late had to wait until its turn came.
    pub lag: u64,
    /// Directories that are asked for most, at most [`MAX_HOT_DIRS`](pandofs_types::limits::MAX_HOT_DIRS).
    pub hot: Vec<HotDir>,
    /// Requests that are not answered yet, the longest first, at most
    /// [`MAX_OPERATIONS_TOLD`](pandofs_types::limits::MAX_OPERATIONS_TOLD).
    pub waiting: Vec<SeenOperation>,
    /// Requests answered of late that took longest, as many.
    pub slow: Vec<SeenOperation>,
    /// The clients that all of these speak of, and how a person finds them.
    pub clients: Vec<(SessionId, String)>,
}

/// How often a directory is asked for on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotDir {
    /// The directory.
    pub dir: Ino,
    /// Requests in a second of late that name something in it or list it; at least so many.
    pub per_second: u64,
}

/// A request, and where its time went. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenOperation {
    /// As metrics call it: `create`.
    pub kind: String,
    /// The directory that it names something in or lists.
    pub dir: Option<Ino>,
    /// The name in it.
    pub name: Option<Name>,
    /// The inode, where it is about one by its number.
    pub ino: Option<Ino>,
    /// The client that asked.
    pub session: SessionId,
    /// Time since it came.
    pub ago: u64,
    /// Time until it was answered; of one that is not, until now.
    pub took: u64,
    /// The cause that it waits for now.
    pub waits: Option<Cause>,
    /// Causes that it has waited for, and for how long, at most
    /// [`MAX_PARTS_TOLD`](pandofs_types::limits::MAX_PARTS_TOLD). The rest was waiting for its turn, and work.
    pub parts: Vec<(Cause, u64)>,
}

impl Cause {
    /// The client that has what is waited for, if one has.
    pub fn session(self) -> Option<SessionId> {
        match self {
            Cause::Recall { session, .. } | Cause::FileLock { session } => Some(session),
            _ => None,
        }
    }
}

/// The words after "waits for".
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Operation(tx) => write!(f, "operation {tx}"),
            Cause::Records => f.write_str("changes before it"),
            Cause::Split(dir) => write!(f, "a split of directory {dir}"),
            Cause::Recall { session, others: 0 } => write!(f, "leases of client {session}"),
            Cause::Recall { session, others } => {
                write!(f, "leases of client {session} and {others} others")
            }
            Cause::Returning => f.write_str("clients to come back"),
            Cause::FileLock { session } => write!(f, "a lock of client {session}"),
            Cause::Store => f.write_str("the store's disk"),
            Cause::Log => f.write_str("the log's disk"),
            Cause::Server { server, .. } => write!(f, "server {server}"),
            Cause::Objects => f.write_str("data objects"),
            Cause::Pause => f.write_str("a pause"),
        }
    }
}
