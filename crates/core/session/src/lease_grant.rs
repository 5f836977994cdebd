//! Leases that a reply gives, with the request that it answers.

use crate::boottime::Boottime;
use pandofs_api::ShardRequest;
use pandofs_types::{Leased, ServerId};

/// The moment at which a request was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub(crate) at: Boottime,
    /// Events of the lease cache until then.
    pub(crate) events: u64,
}

impl Sent {
    /// At this moment, after so many events of the lease cache.
    pub fn after(events: u64, at: Boottime) -> Sent {
        Sent { at, events }
    }
}

/// The leases of a reply.
#[derive(Clone, Copy, Debug)]
pub struct LeaseGrant<'a> {
    /// The request, with its shard.
    pub asked: &'a ShardRequest,
    /// When, and after which events, the request was sent.
    pub sent: Sent,
    /// The server that answered.
    pub server: ServerId,
    /// In the order of what the reply tells; empty if nothing is leased.
    pub leased: &'a [Leased],
}
