//! Calls: single requests on their way, with their targets, attempts and answers.

use crate::pool::Server;
use crate::slots::Slot;
use pandofs_api::{AdminRequest, DataRequest, Request, RequestKey, ShardRequest};
use pandofs_session::Target;
use pandofs_session::{LeaseGrant, Sent};
use pandofs_types::limits::{
    MAX_RECONNECT_PAUSE, MAX_RETRY_PAUSE, MIN_RECONNECT_PAUSE, MIN_RETRY_PAUSE,
};
use pandofs_types::{Credentials, Epoch, Ino, Leased, ServerId, SessionId, ShardId, SlotId};
use pandofs_wire::hello::Machine;
use pandofs_wire::message::{RequestBody, RequestFrame};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request, kept until it is answered for good: a repetition sends the same one.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    pub target: Target,
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
    /// Go on asking when the answer is "not yet".
    pub waits: bool,
    /// Time limit for a server that does not answer; `None` is for ever.
    pub patience: Option<Duration>,

    /// Sent, and whether it was executed is not known. It is then repeated to the same shard,
    /// whatever is learnt meanwhile: the shard remembers its answer and another one does not. (The
    /// answer of a creation is lost, the partition splits, the client learns of it and asks the new
    /// shard: the name is taken.)
    pub in_doubt: bool,
    /// It was sent more than once because an answer was lost.
    pub resent: bool,
    /// Connections that were lost with it.
    pub lost: u32,
    /// Redirections that taught nothing, and those to another shard for one inode.
    pub redirects: usize,
    /// Since when its server has not answered.
    pub away_since: Option<Instant>,
    /// Since when the answer is "try again".
    pub busy_since: Option<Instant>,
    away_pause: Pause,
    busy_pause: Pause,

    /// It may be answered from the lease cache.
    pub uses_lease_cache: bool,
    /// The moment at which it was sent last.
    pub sent: Option<Sent>,
    /// Leases of the answer.
    pub leased: Vec<Leased>,

    /// The server that answered, and the registration of the connection.
    pub answered_by: Option<(Arc<Server>, u64)>,
    /// In which start of its machine.
    pub machine: Machine,
    /// Of the connection over which it was sent last.
    pub generation: u64,
}

impl Call<'static> {
    pub fn shard(target: Target, caller: &Credentials, request: Request) -> Call<'static> {
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

    pub fn data(server: ServerId, request: DataRequest) -> Call<'static> {
        Call::new(Target::Server(server), RequestBody::Data(request))
    }

    pub fn admin(server: ServerId, request: AdminRequest) -> Call<'static> {
        Call::new(Target::Server(server), RequestBody::Admin(request))
    }
}

impl<'d> Call<'d> {
    /// Writes these bytes, one after the other, to a data object that has followed so many truncations,
    /// from `offset` on.
    pub fn write(
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
        Call {
            target,
            frame: RequestFrame { id: 0, body },
            payload: Vec::new(),
            slot: None,
            inner: false,
            key: None,
            waits: true,
            patience: None,
            in_doubt: false,
            resent: false,
            lost: 0,
            redirects: 0,
            away_since: None,
            busy_since: None,
            away_pause: Pause::between(MIN_RECONNECT_PAUSE, MAX_RECONNECT_PAUSE),
            busy_pause: Pause::between(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE),
            uses_lease_cache: true,
            sent: None,
            leased: Vec::new(),
            answered_by: None,
            machine: Machine::default(),
            generation: 0,
        }
    }

    /// Has it asked without the lease cache.
    pub fn afresh(mut self) -> Call<'d> {
        self.uses_lease_cache = false;
        self
    }

    /// With a limit to how long it is tried.
    pub fn within(mut self, patience: Option<Duration>) -> Call<'d> {
        self.patience = patience;
        self
    }

    pub fn shard_request(&self) -> Option<&ShardRequest> {
        match &self.frame.body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        }
    }

    pub fn shard_request_mut(&mut self) -> Option<&mut ShardRequest> {
        match &mut self.frame.body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        }
    }

    /// The shard it was sent to last.
    pub fn asked_shard(&self) -> ShardId {
        match self.shard_request() {
            Some(request) => request.shard,
            None => unreachable!("only requests to shards are asked of one"),
        }
    }

    /// Returns whether doing it changes something.
    pub fn is_mutation(&self) -> bool {
        match &self.frame.body {
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
            | RequestBody::AwaitRecalls { .. } => false,
        }
    }

    /// Returns whether it changes a data object: its connection is not to bring it after something
    /// newer.
    pub fn changes_objects(&self) -> bool {
        matches!(self.frame.body, RequestBody::Data(_)) && self.is_mutation()
    }

    /// Returns whether it has effects beside its answer: it changes something, or what a shard
    /// remembers of this session in memory.
    pub fn leaves_something(&self) -> bool {
        self.is_mutation()
            || self
                .shard_request()
                .is_some_and(|request| request.request.operation().is_remembered())
    }

    /// Its answer's leases.
    pub fn lease_grant(&self) -> Option<LeaseGrant<'_>> {
        Some(LeaseGrant {
            asked: self.shard_request()?,
            sent: self.sent?,
            server: self.answered_by.as_ref()?.0.id,
            leased: &self.leased,
        })
    }

    /// Bytes of file data that it sends or asks for.
    pub fn data_bytes(&self) -> usize {
        match &self.frame.body {
            RequestBody::Data(DataRequest::Read { length, .. }) => *length as usize,
            RequestBody::Data(DataRequest::Write { .. }) => {
                self.payload.iter().map(|part| part.len()).sum()
            }
            _ => 0,
        }
    }

    /// The pause until a server that was not reached is asked again.
    pub fn next_away_pause(&mut self) -> Duration {
        self.away_pause.next()
    }

    /// The pause until a request with the answer "try again" is repeated.
    pub fn next_busy_pause(&mut self) -> Duration {
        self.busy_pause.next()
    }

    /// Notes that a server answered.
    pub fn reached(&mut self) {
        self.away_since = None;
        self.away_pause.reset();
    }
}

/// Pauses that double, each truncation at random to between half and the whole, so that clients that were
/// turned away together do not come back together.
#[derive(Debug)]
struct Pause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    fn between(first: Duration, longest: Duration) -> Pause {
        Pause {
            first,
            longest,
            next: first,
        }
    }

    fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        whole.mul_f64(rand::random_range(0.5..=1.0))
    }

    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::FIRST_TRUNCATIONS;
    use pandofs_api::op;
    use pandofs_types::Ino;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut pause = Pause::between(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE);
        for whole in [1, 2, 4, 8, 16, 20, 20, 20].map(Duration::from_millis) {
            let next = pause.next();
            assert!(next >= whole / 2 && next <= whole, "{next:?} for {whole:?}");
        }
        pause.reset();
        assert!(pause.next() <= MIN_RETRY_PAUSE);
    }

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
        });
        let ask = |request| Call::shard(Target::Inode(ino), &Credentials::ROOT, request);
        assert!(!ask(open.clone()).is_mutation());
        assert!(ask(open).leaves_something());
        assert!(!ask(Request::GetAttr(op::GetAttr { ino })).leaves_something());
    }
}
