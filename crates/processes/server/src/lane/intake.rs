//! Intake of frames from connections.

use super::activity::About;
use super::rights::{may_ask, refusal};
use super::{LaneThread, Pending, steady};
use crate::connection::{Arrival, Connection, ConnectionKey, Role};
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::limits::MAX_OWED_BYTES;
use crate::limits::STILL_SLOW;
use crate::readers::ReadJob;
use crate::times::{DataKind, Kind};
use pandofs_api::{AdminReply, AdminRequest, DataRequest, Refusal, Request, ShardRequest};
use pandofs_shard::Ticket;
use pandofs_types::limits::MAX_LANE_BATCH;
use pandofs_types::{ServerId, SessionId, TraceContext};
use pandofs_wire::address::Address;
use pandofs_wire::frame::{self, FrameError};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{AnswerBody, PeerFrame, RequestBody, RequestFrame};
use slotmap::Key;
use std::net::IpAddr;
use std::time::Instant;

/// A decoded frame.
enum Taken {
    Hello(Result<Hello, HelloRefusal>),
    Request(RequestFrame),
    Peer(PeerFrame),
    /// Something where nothing is to be said.
    Unexpected,
    /// From a connection that is about to be closed.
    Ignored,
}

/// Why no more frames are taken from a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// There is none left that is whole.
    Empty,
    /// The batch is full; there may be more.
    Full,
    /// The connection is paused or closed.
    Stopped,
}

impl LaneThread {
    /// Reads from the connections that have something, in turn, until the batch is full.
    pub(super) fn take_requests(&mut self, now: Instant) -> Result<(), ServerError> {
        for _ in 0..self.ready.len() {
            if self.lane.inputs() >= MAX_LANE_BATCH {
                break;
            }
            let Some(key) = self.ready.pop_front() else {
                break;
            };
            if let Some(connection) = self.connections.get_mut(key) {
                connection.is_ready = false;
            }
            if self.take_turn(key, now)? {
                self.make_ready(key);
            }
        }
        Ok(())
    }

    /// Takes the frames that are there, reads once, and takes what has come. Answers whether there may
    /// be more.
    fn take_turn(&mut self, key: ConnectionKey, now: Instant) -> Result<bool, ServerError> {
        match self.take_frames(key, now)? {
            Pause::Full => return Ok(true),
            Pause::Stopped => return Ok(false),
            Pause::Empty => {}
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(false);
        };
        if !connection.may_read {
            return Ok(false);
        }
        match connection.read() {
            Ok(Arrival::More) => {}
            Ok(Arrival::Last) => connection.may_read = false,
            Ok(Arrival::End) => {
                let unread = connection.received.unread();
                if unread > 0 {
                    tracing::warn!(
                        "{} closed its connection within a message, after {unread} bytes of it",
                        connection.peer()
                    );
                }
                self.close(key, now);
                return Ok(false);
            }
            Err(error) => {
                tracing::debug!("cannot read from {}: {error}", connection.peer());
                self.close(key, now);
                return Ok(false);
            }
        }
        match self.take_frames(key, now)? {
            Pause::Full => Ok(true),
            Pause::Stopped => Ok(false),
            Pause::Empty => Ok(self
                .connections
                .get_mut(key)
                .is_some_and(|connection| connection.may_read)),
        }
    }

    fn take_frames(&mut self, key: ConnectionKey, now: Instant) -> Result<Pause, ServerError> {
        let mut heard = None;
        let pause = loop {
            if self.lane.inputs() >= MAX_LANE_BATCH {
                break Pause::Full;
            }
            let Some(connection) = self.connections.get_mut(key) else {
                break Pause::Stopped;
            };
            // Data waits for the disk alone, so that this ends. Others may wait for a message of
            // another server, or for a client to let go of a lease.
            let may_wait = matches!(connection.role, Role::Client { .. });
            if may_wait && !connection.hears_recalls && self.owed > self.max_owed {
                connection.is_paused = true;
                self.held_up.push(key);
                break Pause::Stopped;
            }
            if connection.outstanding() > MAX_OWED_BYTES.min(self.max_owed) {
                connection.is_paused = true;
                break Pause::Stopped;
            }
            match next(connection, self.lane.map().fs) {
                Ok(None) => break Pause::Empty,
                Ok(Some(taken)) => {
                    if let Role::Client { session, .. } = connection.role {
                        heard = Some(session);
                    }
                    self.take_frame(key, taken, &mut heard, now)?;
                }
                Err(error) => {
                    tracing::warn!("closing the connection of {}: {error}", connection.peer());
                    self.close(key, now);
                    break Pause::Stopped;
                }
            }
        };
        if let Some(session) = heard {
            self.lane.heard(session, steady(self.started, now));
        }
        Ok(pause)
    }

    fn take_frame(
        &mut self,
        key: ConnectionKey,
        taken: Taken,
        heard: &mut Option<SessionId>,
        now: Instant,
    ) -> Result<(), ServerError> {
        match taken {
            Taken::Hello(hello) => self.take_hello(key, hello, heard, now),
            Taken::Request(frame) => {
                if let RequestBody::Goodbye { session } = frame.body
                    && heard.is_some()
                {
                    *heard = None;
                    self.take_goodbye(key, frame.id, session);
                    return Ok(());
                }
                return self.take_request(key, frame, now);
            }
            Taken::Peer(frame) => {
                for message in frame.messages {
                    self.take_peer_message(key, message)?;
                }
            }
            Taken::Unexpected => {
                if let Some(connection) = self.connections.get_mut(key) {
                    tracing::warn!(
                        "closing the connection of {}: unexpected data on an outgoing link",
                        connection.peer()
                    );
                }
                self.close(key, now);
            }
            Taken::Ignored => {}
        }
        Ok(())
    }

    fn take_hello(
        &mut self,
        key: ConnectionKey,
        hello: Result<Hello, HelloRefusal>,
        heard: &mut Option<SessionId>,
        now: Instant,
    ) {
        let hello = hello.and_then(|hello| match hello.peer {
            Peer::Client {
                session,
                generation,
            } if !self.lane.is_current(session, generation) => Err(HelloRefusal::Superseded),
            _ => Ok(hello),
        });
        let (role, answer) = match hello {
            Ok(Hello { peer, .. }) => {
                let mut known_since = 0;
                let role = match peer {
                    Peer::Client {
                        session,
                        generation,
                    } => {
                        *heard = Some(session);
                        let at = steady(self.started, now);
                        known_since = self.lane.heard(session, at);
                        self.lane.begin_generation(session, generation, at);
                        // Requests that they still bring were given up, and may have been done again over this one.
                        self.close_all(now, |other| other.is_before(session, generation));
                        Role::Client {
                            session,
                            generation,
                        }
                    }
                    Peer::Admin => Role::Admin,
                    Peer::Server { id } if self.peers.knows(id) && !self.may_be(id, key) => {
                        tracing::warn!(
                            "closing a connection that says it is server {id}, which is connected from elsewhere"
                        );
                        self.close(key, now);
                        return;
                    }
                    Peer::Server { id } if self.peers.knows(id) => {
                        // It opens one connection at a time: an older one is dead.
                        self.close_all(now, |other| other.role == Role::Server { id });
                        self.peers.is_up(id, now);
                        Role::Server { id }
                    }
                    Peer::Server { id } => {
                        tracing::warn!("server {id} connects, which is not in the cluster map");
                        self.look_for_map(now);
                        self.close(key, now);
                        return;
                    }
                };
                let (server, boot, epoch) = (self.lane.id(), self.boot, self.lane.map().epoch);
                (
                    role,
                    HelloAnswer::Welcome {
                        server,
                        boot,
                        epoch,
                        machine: self.holdings.generations.machine(),
                        known_since,
                    },
                )
            }
            Err(refusal) => {
                tracing::warn!("refused a connection: {refusal}");
                (Role::Refused, HelloAnswer::Refused(refusal))
            }
        };
        if let Some(connection) = self.connections.get_mut(key) {
            connection.role = role;
            if let Err(error) = connection.unsent.push(&answer) {
                tracing::error!("the answer to a hello cannot be sent: {error}");
            }
            self.make_dirty(key);
        }
    }

    /// Whether this connection may take the place of the one that server `id` has, if it has one. A server connects anew
    /// when it was started anew, or has noticed first that its connection is broken, and without authentication nothing
    /// but where it comes from tells it from somebody else: from where the other one does, or an address that the cluster
    /// map gives it. (Only who may use this server's Unix socket comes from there.)
    fn may_be(&mut self, id: ServerId, key: ConnectionKey) -> bool {
        let comes_from = |connection: &Connection| connection.stream.peer_ip();
        let Some(from) = self
            .connections
            .get_mut(key)
            .and_then(|new| comes_from(new))
        else {
            return true;
        };
        let others = self.connections.iter().map(|(_, other)| other);
        let mut genuine = others.filter(|other| other.role == Role::Server { id });
        let Some(genuine) = genuine.next() else {
            return true;
        };
        let addresses = self
            .lane
            .map()
            .server(id)
            .map(|server| &server.addresses[..]);
        comes_from(genuine) == Some(from) || is_of(from, addresses.unwrap_or_default())
    }

    fn take_goodbye(&mut self, key: ConnectionKey, id: u64, session: SessionId) {
        let is_its_own = self
            .connections
            .get_mut(key)
            .is_some_and(|connection| connection.is_of(session));
        if is_its_own {
            self.lane.goodbye(session);
        }
        self.answer(key, id, AnswerBody::Done);
    }

    fn take_request(
        &mut self,
        key: ConnectionKey,
        frame: RequestFrame,
        now: Instant,
    ) -> Result<(), ServerError> {
        let RequestFrame { id, body } = frame;
        let role = self.connections.get_mut(key).map(|known| known.role);
        if let Some(role) = role.filter(|&role| !may_ask(role, &body)) {
            tracing::warn!("refused a request that {role:?} may not make");
            self.answer(key, id, refusal(&body));
            return Ok(());
        }
        let trace = self.connections.get_mut(key).and_then(|it| it.trace.take());
        let trace = trace
            .filter(|&(of, _)| of == id)
            .map(|(_, context)| context);
        match body {
            RequestBody::Shard(request) => self.take_shard_request(key, id, trace, request, now),
            RequestBody::Data(request) => {
                return self.take_data_request(key, id, trace, request, now);
            }
            RequestBody::Admin(request) => return self.take_admin_request(key, id, request),
            RequestBody::Ping | RequestBody::Goodbye { .. } => {
                self.answer(key, id, AnswerBody::Done);
            }
            RequestBody::Trace(context) => {
                if let Some(known) = self.connections.get_mut(key) {
                    known.trace = self.traces.are_on().then_some((id, context));
                }
            }
            RequestBody::AwaitRecalls { done } => {
                if let Some(Role::Client { session, .. }) = role
                    && let Some(known) = self.connections.get_mut(key)
                {
                    known.hears_recalls = true;
                    let connected = steady(self.started, known.since);
                    let now = steady(self.started, now);
                    self.lane
                        .await_recalls(session, connected, (key, id), done, now);
                }
            }
        }
        Ok(())
    }

    fn take_shard_request(
        &mut self,
        key: ConnectionKey,
        id: u64,
        trace: Option<TraceContext>,
        request: ShardRequest,
        now: Instant,
    ) {
        if request.epoch > self.lane.map().epoch {
            self.look_for_map(now);
        }
        let is_its_own = self
            .connections
            .get_mut(key)
            .is_some_and(|connection| connection.is_of(request.key.session));
        let admitted = self.lane.admit(&request);
        let refusal = match is_its_own {
            true => admitted.err(),
            false => Some(Refusal::Malformed(
                "not the session that said hello".to_owned(),
            )),
        };
        if let Some(refusal) = refusal {
            self.answer(key, id, AnswerBody::Shard(Err(refusal)));
            return;
        }
        let owed = request.request.operation().max_answer_bytes();
        if let Some(connection) = self.connections.get_mut(key) {
            connection.owed += owed;
        }
        if let Request::Batch(batch) = &request.request {
            self.times.count_early(batch);
        }
        let about = About::of(request.key.session, &request.request);
        let kind = Kind::of(&request.request);
        let followed = trace.and_then(|trace| {
            self.traces
                .request(trace, kind.name(), &about, request.shard)
        });
        let is_followed = followed.is_some();
        let pending = self.pending.insert(Pending {
            connection: key,
            id,
            owed,
            kind,
            came: now,
            about,
            told_next: STILL_SLOW,
            followed,
        });
        if is_followed {
            self.traces.waits_for_batch(pending, Instant::now());
        }
        self.lane.request(Ticket(pending.data().as_ffi()), request);
    }

    fn take_data_request(
        &mut self,
        key: ConnectionKey,
        id: u64,
        trace: Option<TraceContext>,
        request: DataRequest,
        now: Instant,
    ) -> Result<(), ServerError> {
        self.counters.data_requests += 1;
        let kind = DataKind::of(&request);
        if let Some(trace) = trace {
            let role = self.connections.get_mut(key).map(|known| known.role);
            let session = role.and_then(Role::session).unwrap_or(SessionId(0));
            let about = About::of_data(session, request.ino());
            self.traces
                .data_request(trace, &kind.name(), &about, (key, id));
        }
        let owed = match &request {
            DataRequest::Read { length, .. } => (*length as usize).min(MAX_OWED_BYTES),
            DataRequest::Write { data, .. } => {
                self.counters.data_written += data.len() as u64;
                data.len()
            }
            _ => 0,
        };
        self.owed += owed;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.owed += owed;
        }
        self.data.request(
            DataOrigin::Client {
                connection: key,
                id,
                owed,
                kind,
                ino: request.ino(),
                came: now,
            },
            request,
        )
    }

    fn take_admin_request(
        &mut self,
        key: ConnectionKey,
        id: u64,
        request: AdminRequest,
    ) -> Result<(), ServerError> {
        let reply = match request {
            AdminRequest::Status => AdminReply::Status(Box::new(self.status())),
            AdminRequest::Activity => AdminReply::Activity(Box::new(self.activity())),
            AdminRequest::Map => AdminReply::Map(self.lane.map().to_json()),
            AdminRequest::Dump { shard, .. } if !self.lane.shards().leads(shard) => {
                AdminReply::Failed(format!(
                    "server {} does not lead shard {shard}",
                    self.lane.id()
                ))
            }
            AdminRequest::Dump {
                shard,
                after,
                max_bytes,
            } => {
                let connection = key;
                let job = ReadJob::Dump {
                    connection,
                    id,
                    shard,
                    after,
                    max_bytes,
                };
                self.dumps.push(job);
                return Ok(());
            }
            AdminRequest::Objects { after, max } => return self.data.list(key, id, after, max),
            AdminRequest::Scrub(order) => {
                let report = self.scrubber.order(order, &self.holdings);
                AdminReply::Scrub(Box::new(report))
            }
            AdminRequest::TakeMap(text) => {
                self.take_map(key, id, &text);
                return Ok(());
            }
            AdminRequest::Flush => {
                self.lane.want_flush((key, id));
                return Ok(());
            }
        };
        self.answer(key, id, AnswerBody::Admin(reply));
        Ok(())
    }
}

/// Whether one of these addresses of a server says that it is there. Names are not looked up: that may take long.
fn is_of(ip: IpAddr, addresses: &[String]) -> bool {
    let parsed = addresses.iter().filter_map(|text| text.parse().ok());
    parsed.into_iter().any(|address: Address| match address {
        Address::Tcp { host, .. } => host.parse().is_ok_and(|known: IpAddr| known == ip),
        Address::Unix(_) => false,
    })
}

/// The next whole frame of a connection, decoded as what its peer may say.
fn next(connection: &mut Connection, fs: pandofs_types::FsId) -> Result<Option<Taken>, FrameError> {
    let role = connection.role;
    if matches!(role, Role::Client { .. } | Role::Admin) {
        let request = connection.received.next_message()?;
        return Ok(request.map(Taken::Request));
    }
    let Some(body) = connection.received.next_frame()? else {
        return Ok(None);
    };
    Ok(Some(match role {
        Role::Unknown => Taken::Hello(Hello::decode(body, fs)),
        Role::Client { .. } | Role::Admin => unreachable!("these send requests"),
        Role::Server { .. } => Taken::Peer(frame::decode(body)?),
        Role::Link { .. } => Taken::Unexpected,
        Role::Refused => Taken::Ignored,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_where_its_addresses_say() {
        let addresses = [
            "tcp:192.0.2.7:7400",
            "unix:/run/7",
            "tcp:[2001:db8::7]:7400",
        ];
        let addresses = addresses.map(str::to_owned);
        for (ip, is_there) in [
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8::7", true),
        ] {
            assert_eq!(is_of(ip.parse().unwrap(), &addresses), is_there, "{ip}");
        }
        assert!(!is_of(
            "192.0.2.7".parse().unwrap(),
            &["tcp:seven:7400".to_owned()]
        ));
    }
}
