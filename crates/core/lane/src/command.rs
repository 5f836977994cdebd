//! Commands: what a lane has its surroundings do.

use crate::flush::Written;
use pandofs_api::{DataRequest, PeerMessage, Refusal, Reply};
use pandofs_shard::{Input, Ticket};
use pandofs_store::StoreError;
use pandofs_types::{LeaseKey, Leased, ServerId, SessionId, ShardId};

/// One thing to do, in the order in which they are given. `W` is where an answer goes to somebody who waits for
/// something other than a shard.
#[derive(Debug)]
pub enum Command<W> {
    /// Answer a request of a client.
    Answer {
        ticket: Ticket,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
    },
    /// The ticket is not answered: the request has come again, and the answer goes there.
    Replaced { ticket: Ticket },
    /// A key that the request needs is damaged: tell who looks after the server, and refuse the request.
    Unreadable {
        shard: ShardId,
        ticket: Ticket,
        error: StoreError,
    },
    /// Send to another server.
    Send {
        server: ServerId,
        message: PeerMessage,
    },
    /// Do this to a data object of this server, and report to [`Lane::data_done`](crate::Lane::data_done).
    Data {
        origin: DataOrigin,
        request: DataRequest,
    },
    /// The shard has a data object on a server that is not on the cluster map. It asks again; perhaps a later map has
    /// that server.
    UnknownServer { shard: ShardId, server: ServerId },
    /// Read the last of these keys where that holds up nobody, and report to [`Lane::warmed`](crate::Lane::warmed) or
    /// [`Lane::unreadable`](crate::Lane::unreadable).
    Warm {
        shard: ShardId,
        keys: Vec<Vec<u8>>,
        input: Input,
    },
    /// The session may never be heard of here: it counts as heard of now.
    Watch { session: SessionId },
    /// Tell a client what is recalled.
    Recall {
        to: W,
        number: u64,
        keys: Vec<LeaseKey>,
    },
    /// Tell a client that it is to take leases anew, if it has not done so.
    BeginAnew { to: W },
    /// Sync the log where that holds up nobody, and report to [`Lane::synced`](crate::Lane::synced).
    Sync,
    /// Call [`flush`](crate::flush()) with this where that holds up nobody, and report to
    /// [`Lane::flushed`](crate::Lane::flushed).
    Flush { written: Written },
    /// The flush that was asked for is done.
    FlushDone { to: W },
}

/// Whoever wants something done to a data object of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOrigin {
    /// A shard of this server, by the lane's number.
    Shard { number: u64 },
    /// Another server, by its number.
    Server { server: ServerId, ticket: u64 },
}
