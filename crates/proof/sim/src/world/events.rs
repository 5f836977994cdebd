//! Events of a run, one after the other.

use crate::client::Hearer;
use crate::scenario::{End, Moment};
use crate::server::{Acquaintance, Asker, DataSync};
use pandofs_api::{DataReply, DataRequest, PeerMessage, Refusal, Reply, ShardRequest};
use pandofs_lane::Written;
use pandofs_placement::ClusterMap;
use pandofs_shard::Input;
use pandofs_types::{LeaseKey, Leased, ServerId, SessionId, ShardId};
use std::sync::Arc;

/// Something on its way.
#[derive(Clone, Debug)]
pub(super) enum Letter {
    Request {
        asker: Asker,
        request: ShardRequest,
        /// The other end of the connection, which ends with it.
        known: Acquaintance,
    },
    Answer {
        asker: Asker,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
        /// Which start of the server's machine it is from.
        machine: u64,
    },
    /// A client waits for recalls.
    Hear {
        hearer: Hearer,
        done: Option<u64>,
        known: Acquaintance,
    },
    Recall {
        hearer: Hearer,
        told: Option<(u64, Vec<LeaseKey>)>,
    },
    /// A client asks for the cluster map.
    AskMap {
        asker: Asker,
        known: Acquaintance,
    },
    /// A client says that it lives.
    Ping {
        session: SessionId,
        known: Acquaintance,
    },
    Map {
        asker: Asker,
        map: Arc<ClusterMap>,
    },
    /// A client asks for a data object.
    Data {
        asker: Asker,
        connection: u64,
        request: DataRequest,
        /// The process that the connection is with, which ends with it.
        boot: u64,
    },
    DataAnswer {
        asker: Asker,
        reply: DataReply,
        /// Which start of the server's machine it is from.
        machine: u64,
    },
    Peer {
        from: ServerId,
        message: PeerMessage,
        /// The process that it was sent to.
        boot: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Issue(usize),
    Deliver {
        to: End,
        letter: Box<Letter>,
    },
    /// It was lost.
    MailAgain {
        from: End,
        to: End,
        letter: Box<Letter>,
    },
    Run {
        server: usize,
        boot: u64,
    },
    Tick {
        server: usize,
        boot: u64,
    },
    Synced {
        server: usize,
        boot: u64,
    },
    Flushed {
        server: usize,
        boot: u64,
        written: Written,
    },
    DataSynced {
        server: usize,
        boot: u64,
        sync: DataSync,
    },
    Warmed {
        server: usize,
        boot: u64,
        shard: ShardId,
        keys: Vec<Vec<u8>>,
        input: Box<Input>,
    },
    Send {
        asker: Asker,
        pause: u64,
    },
    Silence {
        asker: Asker,
    },
    Release {
        client: usize,
        session: SessionId,
    },
    Ping {
        client: usize,
        session: SessionId,
    },
    Wake {
        client: usize,
        session: SessionId,
    },
    LookAtRecalls {
        client: usize,
        session: SessionId,
        server: usize,
    },
    Leave {
        client: usize,
    },
    Listen {
        client: usize,
        session: SessionId,
        server: usize,
    },
    /// Nothing has come of recalls for long.
    Deaf {
        hearer: Hearer,
    },
    /// The system tells a client that a connection is closed, or the process at its other end has ended.
    CutOff {
        client: usize,
        session: SessionId,
        server: usize,
        known: Acquaintance,
    },
    /// The client has been away for so long that what it has open may be gone.
    Lapse {
        client: usize,
    },
    /// The administrator tells a server of the newest map.
    Announce {
        server: usize,
    },
    /// A server has looked for a newer map.
    LookForMap {
        server: usize,
        boot: u64,
    },
    /// From here on what is made is placed by the newest map, if all servers have taken it up.
    Afterwards,
    Begin(usize),
    End(usize),
    Start {
        server: usize,
        boot: u64,
    },
    Heal,
}

/// An event in the queue; of two of the same time the one that was put in first comes first.
pub(super) struct Queued {
    pub at: Moment,
    pub number: u64,
    pub event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.number == other.number
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
