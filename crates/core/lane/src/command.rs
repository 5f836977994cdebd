//! Commands: what a lane has its surroundings do.

use crate::delays::Delays;
use crate::flush::Written;
use pandofs_api::{DataRequest, PeerMessage, Refusal, Reply};
use pandofs_shard::{Input, Ticket};
use pandofs_storage::store::StoreError;
use pandofs_types::{LeaseKey, Leased, ServerId, SessionId, ShardId, TxId};

/// One thing to do, in the order in which they are given. `W` is where an answer goes to somebody who waits for
/// something other than a shard.
#[derive(Debug)]
pub enum Command<W> {
    /// Answer a request of a client.
    Answer {
        /// As it was given with the request.
        ticket: Ticket,
        /// Sent to the client as it is.
        result: Result<Reply, Refusal>,
        /// For one thing, or for each entry of a listing; empty for nothing.
        leased: Vec<Leased>,
        /// Causes that it has waited for, if any.
        delays: Option<Delays>,
    },
    /// The ticket is not answered: the request has come again, and the answer goes there.
    Replaced {
        /// As it was given with the earlier request.
        ticket: Ticket,
    },
    /// A request is carried out by an operation over several shards, whose messages follow: for a trace of requests.
    Coordinates {
        /// As it was given with the request.
        ticket: Ticket,
        /// Another one takes its place when it has to begin again.
        tx: TxId,
    },
    /// A key that the request needs is damaged: tell the administrator, and refuse the request.
    Unreadable {
        /// The shard that read it.
        shard: ShardId,
        /// As it was given with the request.
        ticket: Ticket,
        /// The damage, with the key.
        error: StoreError,
    },
    /// Send to another server.
    Send {
        /// Another one of the cluster map.
        server: ServerId,
        /// May be lost: a shard that needs an answer sends it again.
        message: PeerMessage,
    },
    /// Do this to a data object of this server, and report to [`Lane::data_done`](crate::Lane::data_done).
    Data {
        /// Told with the reply.
        origin: DataOrigin,
        /// Carried out as a client's would be.
        request: DataRequest,
    },
    /// The shard has a data object on a server that is not on the cluster map. It asks again; perhaps a later map has
    /// that server.
    UnknownServer {
        /// The shard that asks for it.
        shard: ShardId,
        /// Its number, for which the map has no address.
        server: ServerId,
    },
    /// Read the last of these keys where that holds up nobody, and report to [`Lane::warmed`](crate::Lane::warmed) or
    /// [`Lane::unreadable`](crate::Lane::unreadable).
    Warm {
        /// The shard that reads them.
        shard: ShardId,
        /// Those before the last were read for the same input already.
        keys: Vec<Vec<u8>>,
        /// Given to the shard again afterwards.
        input: Input,
    },
    /// The session was silent for too long and is let go of: nothing that comes over its connections counts any more.
    Expired {
        /// The client.
        session: SessionId,
    },
    /// Tell a client what is recalled.
    Recall {
        /// Where its connection was said to be.
        to: W,
        /// Told back when the client has let go of them.
        number: u64,
        /// Not leased to the client any more once it has answered.
        keys: Vec<LeaseKey>,
    },
    /// Tell a client that it is to take leases anew, if it has not done so.
    BeginAnew {
        /// Where its connection was said to be.
        to: W,
    },
    /// Sync the log where that holds up nobody, and report to [`Lane::synced`](crate::Lane::synced).
    Sync,
    /// Call [`flush`](crate::flush()) with this where that holds up nobody, and report to
    /// [`Lane::flushed`](crate::Lane::flushed).
    Flush {
        /// Applied records up to which the store is to have everything.
        written: Written,
    },
    /// The flush that was asked for is done.
    FlushDone {
        /// As it was given with the wish.
        to: W,
    },
}

/// The source of a request to a data object of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOrigin {
    /// A shard of this server, by the lane's number.
    Shard {
        /// Unique since the server's start.
        number: u64,
    },
    /// Another server, by its number.
    Server {
        /// The server that asked.
        server: ServerId,
        /// Told back to it in the answer.
        ticket: u64,
    },
}
