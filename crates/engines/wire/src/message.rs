//! Messages: the contents of frames after the handshake.
//!
//! A client's or administrator's connection carries [`RequestFrame`]s one way and [`AnswerFrame`]s the
//! other; answers come in any order. A server's connection carries [`PeerFrame`]s from the server that
//! opened it; what is said back comes over the other's own connection.

use pandofs_api::{
    AdminReply, AdminRequest, DataReply, DataRequest, PeerMessage, Refusal, Reply, ShardRequest,
};
use pandofs_types::{LeaseKey, Leased, SessionId, TraceContext};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message that may end with many bytes of file data, its tail.
pub trait Tailed: DeserializeOwned {
    /// Where the tail of this one is to be, if it has one.
    fn tail(&mut self) -> Option<&mut Vec<u8>>;

    /// Whether a message that begins so may have one. It is cheap, and wrong for none that has.
    fn may_have_tail(start: &[u8]) -> bool {
        // Number and kind: both frames have them in the same places, and data is the second kind.
        let number = start.iter().take_while(|&&byte| byte >= 0x80).count() + 1;
        start.get(number) == Some(&1)
    }
}

impl Tailed for RequestFrame {
    fn tail(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.body {
            RequestBody::Data(DataRequest::Write { data, .. }) => Some(data),
            _ => None,
        }
    }
}

impl Tailed for AnswerFrame {
    fn tail(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.body {
            AnswerBody::Data(DataReply::Data(data)) => Some(data),
            _ => None,
        }
    }
}

/// A request on a connection of a client, an administrator or a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFrame {
    /// Chosen by the client; the answer repeats it.
    pub id: u64,
    /// The request itself.
    pub body: RequestBody,
}

/// Request of a client or an administrator to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestBody {
    /// To a shard; `WrongServer` if the server does not lead it.
    Shard(ShardRequest),
    /// To one of the server's data objects.
    Data(DataRequest),
    /// Of administrators alone.
    Admin(AdminRequest),
    /// The session lives.
    Ping,
    /// The session ends: all it has open is closed.
    Goodbye {
        /// The one that said hello.
        session: SessionId,
    },
    /// The session takes leases from this server, and waits for recalls of them. `done`: it has let go of
    /// what the answer of this number was about. `None`: it has none of any lease that it was given before,
    /// and takes them from now on. Answers `Recalls`.
    AwaitRecalls {
        /// The number of a `Recalls`.
        done: Option<u64>,
    },
    /// The next request on this connection, which has the same number, is part of a trace. It is not answered, nothing goes
    /// by it, and a client without traces sends none.
    Trace(TraceContext),
}

/// An answer, in any order among those to other requests of the connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerFrame {
    /// That of the request.
    pub id: u64,
    /// The answer itself.
    pub body: AnswerBody,
}

/// Answer of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnswerBody {
    /// From the shard, with nothing under a lease.
    Shard(Result<Reply, Refusal>),
    /// From the data object.
    Data(DataReply),
    /// To an administrator.
    Admin(AdminReply),
    /// To `Ping` and `Goodbye`.
    Done,
    /// As `Shard`, and the parts of it under a lease: for one thing, or for each entry of a
    /// listing.
    Leased {
        /// From the shard.
        result: Result<Reply, Refusal>,
        /// In the order of the result's parts.
        leased: Vec<Leased>,
    },
    /// The session is to give these leases up, and to say so by this number. None after a while in
    /// which there were none.
    Recalls {
        /// Higher than that of every earlier recall.
        number: u64,
        /// Not to be believed any more once the answer to this is sent.
        keys: Vec<LeaseKey>,
    },
}

/// Message of one server to another, one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFrame {
    /// In the order in which they were given.
    pub messages: Vec<PeerMessage>,
}
