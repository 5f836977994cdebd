//! Inputs and outputs of a shard.

use pandofs_api::{DataReply, DataRequest, PeerMessage, Refusal, Reply, ShardRequest};
use pandofs_leases::Recall;
use pandofs_placement::{ClusterMap, ServerLoad};
use pandofs_storage::store::StoreError;
use pandofs_types::{Ino, Leased, ServerId, SessionId, ShardId, Steady, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where an answer goes; chosen by the lane and opaque to the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Configuration, which does not change while a shard is open.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// The one that is led.
    pub shard: ShardId,
    /// Where all shards are; its server leads `shard`.
    pub map: Arc<ClusterMap>,
    /// Answers to mutations wait until their record is synced (`flush_interval` 0).
    pub sync_every_batch: bool,
    /// How long clients that knew an earlier process have to tell what they have open and locked: as long as their sessions
    /// live, `SESSION_TIMEOUT`, but where a test has clients that tell at once.
    pub grace: Duration,
}

/// Inputs that are not determined: read once for each batch, and fixed in the records that need it.
pub struct Environment<'a> {
    /// Wall-clock time. It may be set by hours either way, and is for time stamps and the ages of operations alone.
    pub now: Time,
    /// By it goes whatever waits or runs out.
    pub steady: Steady,
    /// [`crate::Shard::objects`] of all shards of this server together.
    pub held: u64,
    /// Draws a random number.
    pub random: &'a mut dyn FnMut() -> u64,
}

/// Something a shard is to deal with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A client's.
    Request {
        /// Told back with the answer.
        ticket: Ticket,
        /// As it came from the client; its shard is this one.
        request: ShardRequest,
    },
    /// Any [`PeerMessage`] whose `to` is this shard.
    Peer(PeerMessage),
    /// The answer to an [`Output::Data`].
    DataDone {
        /// As in the output.
        ticket: u64,
        /// The server's; of one that is away `Failed`.
        reply: DataReply,
    },
    /// The session said goodbye (`ended`), or was silent for so long that what it has open is let go. A
    /// silent one may still repeat a request and then wants the first one's answer.
    SessionGone {
        /// The client.
        session: SessionId,
        /// Its answers are not kept any longer either.
        ended: bool,
    },
    /// Whether the disk of the log or of the store is `low`: what needs space on it is refused from here on.
    Space {
        /// False: there is room again.
        low: bool,
    },
    /// The session takes leases with what it reads, and has none of any that it was given before.
    TakesLeases {
        /// The client.
        session: SessionId,
    },
    /// The session has let go of what this [`Output::Recall`] was about.
    Recalled {
        /// The client.
        session: SessionId,
        /// As in the recall; a number that is not known changes nothing.
        number: u64,
    },
    /// An input again after these keys, the last of them just now, were read into memory for it.
    Warmed {
        /// As the shard gave it.
        input: Box<Input>,
        /// In the order in which they were read.
        keys: Vec<Vec<u8>>,
    },
    /// Loads of all servers, for the policies that go by them.
    Loads(Arc<BTreeMap<ServerId, ServerLoad>>),
    /// The record with this index is on disk, by which the session may have locks of files here
    /// ([`Output::WhenDurable`]).
    LockHolderKept {
        /// The client.
        session: SessionId,
        /// Index of the record that says so.
        record: u64,
    },
    /// The same of leases.
    LeaseholderKept {
        /// The client.
        session: SessionId,
        /// Index of the record that says so.
        record: u64,
    },
    /// The same of grants.
    GrantholderKept {
        /// The client.
        session: SessionId,
        /// Index of the record that says so.
        record: u64,
    },
    /// It is on disk that the session has no grants here ([`Output::WhenDurable`]).
    GrantsOver {
        /// The client.
        session: SessionId,
    },
    /// It is on disk that the file has data objects ([`Output::WhenDurable`]).
    StripingKept {
        /// The file.
        ino: Ino,
        /// Index of the record that says so.
        record: u64,
    },
    /// Every `TICK_INTERVAL`: resends, operations that start again, background work.
    Tick,
}

/// Something a lane is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a request. `durable`: only once everything this shard has applied is synced.
    Answer {
        /// As it was given with the request.
        ticket: Ticket,
        /// Sent to the client as it is.
        result: Result<Reply, Refusal>,
        /// Leases for the session: for one thing, or for each entry of a listing; empty for nothing.
        leased: Vec<Leased>,
        /// False for reads, and where the client has asked for no more than that it is applied.
        durable: bool,
    },
    /// The request has come again while it is under way, and will be answered where the repetition came from: this ticket
    /// is not answered.
    Replaced {
        /// As it was given with the earlier request.
        ticket: Ticket,
    },
    /// Send to the server that leads the message's `to` shard (perhaps this one).
    Send {
        /// A shard of any server.
        to: ShardId,
        /// May be lost: the shard sends it again until it is answered.
        message: PeerMessage,
        /// Only once everything that the shard has applied is synced.
        durable: bool,
    },
    /// Hand this input to the shard, which gave it, once everything that it has applied is synced.
    WhenDurable {
        /// The shard that gave it.
        shard: ShardId,
        /// Goes back to the shard as it is.
        input: Input,
    },
    /// Do this to the data object on that server and hand the reply back with the same number.
    Data {
        /// Any server of the cluster, this one included.
        server: ServerId,
        /// Unique among those of this shard that are under way.
        ticket: u64,
        /// The change to make.
        request: DataRequest,
        /// Only once everything that the shard has applied is synced.
        durable: bool,
    },
    /// The last of these keys is not in memory, and the input needs it: read it on a helper thread, then submit
    /// [`Input::Warmed`].
    Warm {
        /// Those before the last were read for the same input already.
        keys: Vec<Vec<u8>>,
        /// Goes back to the shard in [`Input::Warmed`].
        input: Input,
    },
    /// The session has locks here and may not know it yet: it counts as heard of now, so that it is found to
    /// be gone if it is never heard of.
    Watch {
        /// The client.
        session: SessionId,
    },
    /// Tell the session that leases end, and hand back its answer. The session makes good a lost recall: it
    /// takes leases anew when it loses a connection.
    Recall(Recall),
    /// A key that the request needs is damaged in the store. Nothing was changed; tell the sender, and the
    /// administrator.
    Unreadable {
        /// As it was given with the request.
        ticket: Ticket,
        /// The damage, with the key.
        error: StoreError,
    },
}

/// A record to append to the shard's log stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The last one's plus one.
    pub index: u64,
    /// An encoded [`Record`](crate::Record).
    pub payload: Vec<u8>,
}
