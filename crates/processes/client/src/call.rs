//! Calls: single requests on their way, with their targets, attempts and answers.

use crate::pool::Server;
use crate::slots::Slot;
use crate::spans::OpenSpan;
use pandofs_api::{AdminRequest, DataRequest, Request, RequestKey, ShardRequest};
use pandofs_session::Target;
use pandofs_session::{LeaseGrant, Sent};
use pandofs_types::{Credentials, Epoch, Ino, Leased, ServerId, SessionId, ShardId, SlotId};
use pandofs_wire::hello::Machine;
use pandofs_wire::message::{RequestBody, RequestFrame};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request, kept until it is answered for good: a repetition sends the same one.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    /// How far it has come.
    pub progress: pandofs_session::Call,
    pub frame: RequestFrame,
    /// The bytes at the end of the request, which `frame` does not have: what is written to a file
    /// stays where the caller has it.
    pub payload: Vec<&'d [u8]>,
    /// Of a request to a shard, while it is under way.
    pub slot: Option<Slot>,
    /// Made in the course of another call.
    pub inner: bool,
    /// The key it has, when that is not of a slot of its own.
    pub key: Option<RequestKey>,
    /// Time limit for a server that does not answer; `None` is for ever.
    pub patience: Option<Duration>,

    /// When it was sent first.
    pub begun: Option<Instant>,

    /// It may be answered from the lease cache.
    pub uses_lease_cache: bool,
    /// The moment at which it was sent last.
    pub sent: Option<Sent>,
    /// Leases of the answer.
    pub leased: Vec<Leased>,

    /// The server that it was sent to last.
    pub asked: Option<ServerId>,
    /// The server that answered, and the registration of the connection.
    pub answered_by: Option<(Arc<Server>, u64)>,
    /// In which start of its machine.
    pub machine: Machine,
    /// Of the connection over which it was sent last.
    pub generation: u64,
    /// Of its last sending, while that is under way and followed.
    pub span: Option<Box<dyn OpenSpan>>,
}

impl Call<'static> {
    pub(crate) fn shard(target: Target, caller: &Credentials, request: Request) -> Call<'static> {
        // Shard, epoch and key are filled in when it is sent.
        let unset = RequestKey {
            session: SessionId(0),
            slot: SlotId(0),
            sequence: 0,
        };
        let request = ShardRequest {
            shard: ShardId(0),
            epoch: Epoch(0),
            key: unset,
            caller: caller.clone(),
            request,
        };
        Call::new(target, RequestBody::Shard(request))
    }

    pub(crate) fn data(server: ServerId, request: DataRequest) -> Call<'static> {
        Call::new(Target::Server(server), RequestBody::Data(request))
    }

    pub(crate) fn admin(server: ServerId, request: AdminRequest) -> Call<'static> {
        Call::new(Target::Server(server), RequestBody::Admin(request))
    }
}

impl<'d> Call<'d> {
    /// Writes these bytes, one after the other, to a data object that has followed so many truncations,
    /// from `offset` on.
    pub(crate) fn write(
        server: ServerId,
        ino: Ino,
        truncations: u32,
        offset: u64,
        bytes: Vec<&'d [u8]>,
    ) -> Call<'d> {
        let request = DataRequest::Write {
            ino,
            truncations,
            offset,
            data: Vec::new(),
        };
        let mut call = Call::new(Target::Server(server), RequestBody::Data(request));
        call.payload = bytes;
        call
    }

    fn new(target: Target, body: RequestBody) -> Call<'d> {
        let progress = pandofs_session::Call::new(target, is_mutation(&body));
        Call {
            progress,
            frame: RequestFrame { id: 0, body },
            payload: Vec::new(),
            slot: None,
            inner: false,
            key: None,
            patience: None,
            begun: None,
            uses_lease_cache: true,
            sent: None,
            leased: Vec::new(),
            asked: None,
            answered_by: None,
            machine: Machine::default(),
            generation: 0,
            span: None,
        }
    }

    /// Has it asked without the lease cache.
    pub(crate) fn afresh(mut self) -> Call<'d> {
        self.uses_lease_cache = false;
        self
    }

    /// With a limit to how long it is tried.
    pub(crate) fn within(mut self, patience: Option<Duration>) -> Call<'d> {
        self.patience = patience;
        self
    }

    pub(crate) fn shard_request(&self) -> Option<&ShardRequest> {
        match &self.frame.body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        }
    }

    pub(crate) fn shard_request_mut(&mut self) -> Option<&mut ShardRequest> {
        match &mut self.frame.body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        }
    }

    /// The shard it was sent to last.
    pub(crate) fn asked_shard(&self) -> ShardId {
        match self.shard_request() {
            Some(request) => request.shard,
            None => unreachable!("only requests to shards are asked of one"),
        }
    }

    /// Returns whether doing it changes something.
    pub(crate) fn is_mutation(&self) -> bool {
        is_mutation(&self.frame.body)
    }

    /// Returns whether it changes a data object: its connection is not to bring it after something
    /// newer.
    pub(crate) fn changes_objects(&self) -> bool {
        matches!(self.frame.body, RequestBody::Data(_)) && self.is_mutation()
    }

    /// Returns whether it has effects beside its answer: it changes something, or what a shard
    /// remembers of this session in memory.
    pub(crate) fn leaves_something(&self) -> bool {
        self.is_mutation()
            || self
                .shard_request()
                .is_some_and(|request| request.request.operation().is_remembered())
    }

    /// Its answer's leases.
    pub(crate) fn lease_grant(&self) -> Option<LeaseGrant<'_>> {
        Some(LeaseGrant {
            asked: self.shard_request()?,
            sent: self.sent?,
            server: self.answered_by.as_ref()?.0.id,
            leased: &self.leased,
        })
    }

    /// Bytes of file data that it sends or asks for.
    pub(crate) fn data_bytes(&self) -> usize {
        match &self.frame.body {
            RequestBody::Data(DataRequest::Read { length, .. }) => *length as usize,
            RequestBody::Data(DataRequest::Write { .. }) => {
                self.payload.iter().map(|part| part.len()).sum()
            }
            _ => 0,
        }
    }
}

fn is_mutation(body: &RequestBody) -> bool {
    match body {
        RequestBody::Shard(request) => request.request.is_mutation(),
        RequestBody::Data(request) => matches!(
            request,
            DataRequest::Write { .. }
                | DataRequest::Truncate { .. }
                | DataRequest::Remove { .. }
                | DataRequest::Allocate { .. }
                | DataRequest::Fill { .. }
        ),
        RequestBody::Admin(_)
        | RequestBody::Ping
        | RequestBody::Goodbye { .. }
        | RequestBody::AwaitRecalls { .. }
        | RequestBody::Trace(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::FIRST_TRUNCATIONS;
    use pandofs_api::op;
    use pandofs_types::Ino;

    #[test]
    fn what_changes_nothing_is_no_mutation() {
        let read = DataRequest::Read {
            ino: Ino(5),
            offset: 0,
            length: 7,
        };
        assert!(!Call::data(ServerId(0), read).is_mutation());
        let write = Call::write(ServerId(0), Ino(5), FIRST_TRUNCATIONS, 0, vec![&[1], &[2]]);
        assert!(write.is_mutation() && write.leaves_something());
        assert_eq!(write.data_bytes(), 2);
    }

    #[test]
    fn an_open_file_is_something() {
        let ino = Ino(5);
        let open = Request::Open(op::Open {
            ino,
            access: 4,
            truncate: false,
            data: true,
        });
        let ask = |request| Call::shard(Target::Inode(ino), &Credentials::ROOT, request);
        assert!(!ask(open.clone()).is_mutation());
        assert!(ask(open).leaves_something());
        assert!(!ask(Request::GetAttr(op::GetAttr { ino })).leaves_something());
    }
}
