//! Connections to servers, each used by one thread at a time.
//!
//! The thread writes its requests, reads their answers, and puts the connection back for the next
//! one.

use crate::boottime::{self, Boottime};
use crate::cancellation;
use crate::limits::{MAX_IDLE_CONNECTIONS, MUCH_TO_SEND_BYTES};
use pandofs_placement::ServerInfo;
use pandofs_session::Registration;
use pandofs_types::limits::{ANSWER_TIMEOUT, CANCELLATION_INTERVAL, CONNECT_TIMEOUT};
use pandofs_types::{FsId, ServerId, SessionId, TraceContext};
use pandofs_wire::address::{self, Address, OUT_OF_FILES, Stream};
use pandofs_wire::buffer::{ReadBuffer, WriteBuffer};
use pandofs_wire::frame::FrameError;
use pandofs_wire::hello::{Hello, HelloAnswer, Machine, Peer};
use pandofs_wire::message::{AnswerFrame, RequestBody, RequestFrame};
use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The client's identity in every handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub fs: FsId,
    pub session: SessionId,
    /// Time limits for making a connection and for an answer.
    pub timeouts: Timeouts,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub connect: Duration,
    pub answer: Duration,
}

impl Timeouts {
    /// No attempt takes longer than a client with this limit is willing to wait at all.
    pub(crate) fn within(soft: Option<Duration>) -> Timeouts {
        // The system takes a limit of 0 for none.
        let limit = soft.map_or(Duration::MAX, |soft| soft.max(Duration::from_millis(1)));
        Timeouts {
            connect: CONNECT_TIMEOUT.min(limit),
            answer: ANSWER_TIMEOUT.min(limit),
        }
    }
}

/// A server's word of itself and of what it knows of this session. Another one than last time: it
/// has nothing (any more) of what the session had there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acquaintance {
    /// Drawn when its process started.
    pub boot: u64,
    /// Drawn when that process first heard of the session, and anew after it had let go of it.
    pub known_since: u64,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// It may work later.
    Unreachable(String),
    /// This process may open no more files at the moment.
    OutOfFiles(String),
    /// It will not.
    Refused(String),
    /// The caller is gone ([`crate::Cancellation`]), which says nothing of the server.
    Abandoned,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum LostAnswer {
    /// The connection is gone.
    Connection(io::Error),
    /// The bytes received are no answer.
    Broken(FrameError),
    /// The caller is gone ([`crate::Cancellation`]).
    Abandoned,
}

/// The reason why not all was sent. A part of a request is not executed, and nothing can be sent
/// behind it.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The connection is gone, or nothing is taken from it.
    Connection(io::Error),
    /// The caller is gone ([`crate::Cancellation`]).
    Abandoned,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    incoming: ReadBuffer,
    outgoing: WriteBuffer,
    next_id: u64,
    /// Time limit for something to read, or for something to be taken.
    patience: Duration,
    /// The time of the last requests.
    asked: Boottime,
    /// Number of times that the session's opens had been registered with the server when this
    /// connection came into use ([`Server::registrations`]).
    pub registration: u64,
    /// As it was said in the handshake ([`Server::abandoned`]).
    pub generation: u64,
    /// In which start of its machine the server runs.
    pub machine: Machine,
}

/// Errors of a write to a connection that the other side has closed.
const CLOSED: [io::ErrorKind; 2] = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];

impl Connection {
    fn open(
        address: &Address,
        server: ServerId,
        who: &Identity,
        generation: u64,
    ) -> Result<(Connection, Acquaintance), ConnectError> {
        let lost = |error: io::Error| ConnectError::Unreachable(error.to_string());
        let deadline = Instant::now() + who.timeouts.connect;
        cancellation::about_to_wait();
        let is_abandoned = Cell::new(false);
        let may_wait = |waited| {
            is_abandoned.set(!cancellation::may_wait(waited));
            !is_abandoned.get()
        };
        let stream = address::connect_while(
            address,
            who.timeouts.connect,
            CANCELLATION_INTERVAL,
            &may_wait,
        );
        let stream = stream.map_err(|error| match error.kind() {
            _ if is_abandoned.get() => ConnectError::Abandoned,
            OUT_OF_FILES => ConnectError::OutOfFiles(error.to_string()),
            _ => lost(error),
        })?;
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        Connection::on(stream, left, generation)
            .map_err(lost)?
            .greet(address, server, who)
    }

    fn on(stream: Stream, patience: Duration, generation: u64) -> io::Result<Connection> {
        let mut connection = Connection {
            incoming: ReadBuffer::of(&stream),
            outgoing: WriteBuffer::of(&stream),
            stream,
            next_id: 0,
            patience,
            asked: boottime::now(),
            registration: 0,
            generation,
            machine: Machine::default(),
        };
        connection.be_patient(patience)?;
        Ok(connection)
    }

    /// The handshake with what was reached at that address.
    fn greet(
        mut self,
        address: &Address,
        server: ServerId,
        who: &Identity,
    ) -> Result<(Connection, Acquaintance), ConnectError> {
        let lost = |error: io::Error| ConnectError::Unreachable(error.to_string());
        let broken = |error: FrameError| ConnectError::Refused(error.to_string());
        let hello = Hello {
            fs: who.fs,
            peer: Peer::Client {
                session: who.session,
                generation: self.generation,
            },
        };
        self.outgoing.push(&hello).map_err(broken)?;
        // A server that turns connections away says why and closes without reading: that is still
        // to be read.
        let unsent = match self.send() {
            Ok(()) => None,
            Err(Unsent::Connection(error)) if CLOSED.contains(&error.kind()) => Some(error),
            Err(Unsent::Connection(error)) => return Err(lost(error)),
            Err(Unsent::Abandoned) => return Err(ConnectError::Abandoned),
        };
        let answer = match self.next(|incoming| {
            let body = incoming.next_frame()?;
            Ok(body.map(HelloAnswer::decode))
        }) {
            Ok(answer) => answer,
            Err(LostAnswer::Connection(error)) => return Err(lost(unsent.unwrap_or(error))),
            Err(LostAnswer::Broken(error)) => return Err(broken(error)),
            Err(LostAnswer::Abandoned) => return Err(ConnectError::Abandoned),
        };
        let refusal = match answer {
            Ok(HelloAnswer::Welcome {
                server: answering,
                boot,
                machine,
                known_since,
                ..
            }) => {
                if answering != server {
                    return Err(ConnectError::Refused(format!(
                        "server {answering} listens at {address}, where the cluster map has server \
                         {server}: check the addresses in the map"
                    )));
                }
                self.be_patient(who.timeouts.answer).map_err(lost)?;
                self.machine = machine;
                return Ok((self, Acquaintance { boot, known_since }));
            }
            Ok(HelloAnswer::Refused(refusal)) | Err(refusal) => refusal,
        };
        if refusal.is_temporary() {
            Err(ConnectError::Unreachable(refusal.to_string()))
        } else {
            Err(ConnectError::Refused(format!(
                "server {server} at {address}: {refusal}"
            )))
        }
    }

    /// Waits this long for an answer from now on, and for requests to be taken.
    pub(crate) fn be_patient(&mut self, patience: Duration) -> io::Result<()> {
        self.patience = patience;
        let step = Some(patience.min(CANCELLATION_INTERVAL));
        self.stream.set_write_timeout(step)?;
        self.stream.set_read_timeout(step)
    }

    /// Numbers the request and keeps it to be sent, but for its payload, with which it has to be
    /// sent next. `trace`: the span of it that the server is told.
    pub(crate) fn push(
        &mut self,
        trace: Option<TraceContext>,
        request: &mut RequestFrame,
        payload: &[&[u8]],
    ) -> Result<(), FrameError> {
        let id = self.next_id;
        // One that cannot be sent has its number all the same: the server may have been told of its span.
        self.next_id += 1;
        request.id = id;
        if let Some(context) = trace {
            let body = RequestBody::Trace(context);
            self.outgoing.push(&RequestFrame { id, body })?;
        }
        if payload.is_empty() {
            self.outgoing.push(request)?;
        } else {
            self.outgoing.push_head(request, payload)?;
        }
        Ok(())
    }

    /// When what is answered last was sent, or before: requests that were sent since are not there.
    pub(crate) fn asked(&self) -> Boottime {
        self.asked
    }

    /// Sends all that was pushed, and the payload of the last of it. All that was sent before is
    /// answered.
    pub(crate) fn send_with(&mut self, payload: &[&[u8]]) -> Result<(), Unsent> {
        self.asked = boottime::now();
        let bytes: usize = payload.iter().map(|part| part.len()).sum();
        if bytes >= MUCH_TO_SEND_BYTES {
            cancellation::about_to_wait();
        }
        let mut socket = Patient {
            stream: &mut self.stream,
            patience: self.patience,
            is_abandoned: false,
        };
        let sent = match payload {
            [] => self.outgoing.write_to(&mut socket).map(drop),
            payload => self.outgoing.write_with_tail(&mut socket, payload),
        };
        sent.map_err(|error| match socket.is_abandoned {
            true => Unsent::Abandoned,
            false => Unsent::Connection(error),
        })
    }

    /// Sends all that was pushed. All that was sent before is answered.
    pub(crate) fn send(&mut self) -> Result<(), Unsent> {
        self.send_with(&[])
    }

    /// The next answer, to whichever request.
    pub(crate) fn receive(&mut self) -> Result<AnswerFrame, LostAnswer> {
        self.next(ReadBuffer::next_message)
    }

    /// As [`Connection::receive`], if there is anything of an answer within this time.
    pub(crate) fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<Option<AnswerFrame>, LostAnswer> {
        let there = self.incoming.next_message();
        if let Some(answer) = there.map_err(LostAnswer::Broken)? {
            return Ok(Some(answer));
        }
        match self.stream.has_input_within(limit) {
            true => self.receive().map(Some),
            false => Ok(None),
        }
    }

    /// Of a connection on which nothing is under way.
    fn give_back_buffers(&mut self) {
        self.incoming.give_back();
        self.outgoing.give_back();
    }

    fn next<T>(
        &mut self,
        mut take: impl FnMut(&mut ReadBuffer) -> Result<Option<T>, FrameError>,
    ) -> Result<T, LostAnswer> {
        let end = |kind, text| LostAnswer::Connection(io::Error::new(kind, text));
        let mut since = Instant::now();
        loop {
            if let Some(taken) = take(&mut self.incoming).map_err(LostAnswer::Broken)? {
                return Ok(taken);
            }
            cancellation::about_to_wait();
            let filled = self
                .stream
                .await_input(self.patience.min(CANCELLATION_INTERVAL))
                .and_then(|()| self.incoming.fill_from_stream(&mut self.stream));
            match filled {
                Ok(0) => return Err(end(ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(_) => since = Instant::now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waited = since.elapsed();
                    if waited >= self.patience {
                        return Err(end(ErrorKind::TimedOut, "it sent no answer in time"));
                    }
                    if !cancellation::may_wait(waited) {
                        return Err(LostAnswer::Abandoned);
                    }
                }
                Err(error) => return Err(LostAnswer::Connection(error)),
            }
        }
    }
}

/// A socket that takes little: a write waits until it takes more, or is cancelled. Never
/// `WouldBlock`.
///
/// (A server stands still and many write 1 MiB each, more than a socket takes. Without
/// cancellation, none of them could be killed, and no other thread would take the requests of those
/// who need other servers.)
struct Patient<'a> {
    stream: &'a mut Stream,
    /// From one byte to the next.
    patience: Duration,
    is_abandoned: bool,
}

impl Patient<'_> {
    fn write_once(
        &mut self,
        mut write: impl FnMut(&mut Stream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            match write(self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            let waited = since.elapsed();
            if waited >= self.patience {
                let error = "it takes no requests";
                return Err(io::Error::new(ErrorKind::TimedOut, error));
            }
            if !cancellation::may_wait(waited) {
                self.is_abandoned = true;
                return Err(io::Error::other("the caller is gone"));
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_once(|stream| stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_once(|stream| stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One server, and the idle connections to it.
#[derive(Debug)]
pub(crate) struct Server {
    pub id: ServerId,
    /// At least one; the first that answers is used.
    addresses: Vec<Address>,
    idle: Mutex<Vec<Connection>>,
    /// So many of them keep their buffers, those that were used last.
    buffered: AtomicUsize,
    /// The process that the session's opens are registered with; none before the first connection.
    /// Held while they are being registered, so that no request gets ahead.
    pub registered: Mutex<Registration<Acquaintance>>,
    /// Number of times that it was begun to register the opens. A connection of an earlier count
    /// reached an earlier process.
    pub registrations: AtomicU64,
    /// The generation that the next connection names in its handshake.
    generation: AtomicU64,
    /// When what was answered last had been asked, in milliseconds after `begun`.
    last_answer: AtomicU64,
    begun: Boottime,
    presence: Mutex<Presence>,
}

#[derive(Debug, Default)]
struct Presence {
    away: bool,
    /// Number of times that it was found to be there.
    seen: u64,
}

impl Server {
    /// # Errors
    /// A text when none of the addresses is one.
    pub(crate) fn new(info: &ServerInfo) -> Result<Server, String> {
        let addresses = info.addresses.iter().map(|text| text.parse::<Address>());
        let mut addresses = addresses
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        if addresses.is_empty() {
            return Err(format!(
                "the cluster map has no address of server {}",
                info.id
            ));
        }
        // A Unix socket costs less and is there only on the server's own machine.
        addresses.sort_by_key(|address| matches!(address, Address::Tcp { .. }));
        Ok(Server {
            id: info.id,
            addresses,
            idle: Mutex::new(Vec::new()),
            buffered: AtomicUsize::new(MAX_IDLE_CONNECTIONS),
            registered: Mutex::new(Registration::default()),
            registrations: AtomicU64::new(0),
            generation: AtomicU64::new(1),
            last_answer: AtomicU64::new(0),
            begun: boottime::now(),
            presence: Mutex::new(Presence::default()),
        })
    }

    /// At least one.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it has heard of this session since it was asked something: when it has answered.
    /// That the answer is only read now says nothing. A process that was stopped for a minute finds
    /// answers of a minute ago, and the server has let go of what the session had.
    pub(crate) fn heard(&self, asked: Boottime) {
        let asked = asked.saturating_duration_since(self.begun).as_millis() as u64;
        self.last_answer.fetch_max(asked, Ordering::Relaxed);
    }

    /// For how long it is not known that it has heard of this session.
    pub(crate) fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.last_answer.load(Ordering::Relaxed));
        boottime::elapsed(self.begun).saturating_sub(last)
    }

    /// Returns whether it has closed an idle connection, as it does when it ends.
    pub(crate) fn is_cut_off(&self) -> bool {
        let idle = self.idle();
        idle.iter().any(|connection| connection.stream.has_input())
    }

    /// The connection that was used last.
    pub(crate) fn take_idle(&self) -> Option<Connection> {
        self.idle().pop()
    }

    /// Keeps a connection for later, unless the server was restarted since it was made.
    pub(crate) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle();
        // Under the lock: otherwise it could be put back just after `close_idle`.
        let current = self.registrations.load(Ordering::SeqCst);
        let is_current = connection.registration == current
            && connection.generation == self.generation.load(Ordering::SeqCst);
        if is_current && idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
            let buffered = self.buffered.load(Ordering::Relaxed);
            if let Some(last) = idle.len().checked_sub(buffered + 1) {
                idle[last].give_back_buffers();
            }
        }
    }

    /// Lets so many of its idle connections keep their buffers.
    pub(crate) fn keep_buffers(&self, connections: usize) {
        self.buffered.store(connections, Ordering::Relaxed);
    }

    /// A connection of this generation was given up before a change of a data object was answered
    /// that it carried. Requests that the network still delivers over it must not be done after
    /// those sent from now on: the server closes it, and all others that were made before, when the
    /// next one is made.
    pub(crate) fn abandoned(&self, generation: u64) {
        self.generation.fetch_max(generation + 1, Ordering::SeqCst);
    }

    /// Closes the idle connections: when one is lost the others are, too, as a rule.
    pub(crate) fn close_idle(&self) {
        let closed = std::mem::take(&mut *self.idle());
        drop(closed);
    }

    /// Gives back memory that idle connections do not need. To be called every few
    /// seconds.
    pub(crate) fn trim_idle(&self) {
        for connection in self.idle().iter_mut() {
            connection.incoming.trim();
            connection.outgoing.trim();
        }
    }

    /// A new connection, and what the server knows of the session. Its opens are not registered
    /// yet.
    pub(crate) fn connect(
        &self,
        who: &Identity,
    ) -> Result<(Connection, Acquaintance), ConnectError> {
        let mut causes = Vec::new();
        for address in &self.addresses {
            let generation = self.generation.load(Ordering::SeqCst);
            match Connection::open(address, self.id, who, generation) {
                Ok(opened) => return Ok(opened),
                Err(ConnectError::Unreachable(cause)) => causes.push(cause),
                Err(error) => return Err(error),
            }
        }
        Err(ConnectError::Unreachable(causes.join("; ")))
    }

    fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how often it was found to be there: to be taken before it is looked for.
    pub(crate) fn times_seen(&self) -> u64 {
        self.presence().seen
    }

    /// It was looked for in vain since it had been seen `times_seen` times. Says so once. (What
    /// another thread saw meanwhile is newer: the server is back.)
    pub(crate) fn note_away(&self, times_seen: u64, cause: &str) {
        let mut presence = self.presence();
        if presence.seen == times_seen && !presence.away {
            presence.away = true;
            tracing::warn!(
                "server {} at {} does not answer: waiting, will go on when it is back ({cause})",
                self.id,
                self.addresses[0]
            );
        }
    }

    /// It is there. Says so once after it was away.
    pub(crate) fn note_back(&self) {
        let mut presence = self.presence();
        presence.seen += 1;
        if presence.away {
            presence.away = false;
            tracing::info!("server {} at {} answers again", self.id, self.addresses[0]);
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.presence().away
    }

    /// Returns whether it was reached at least once.
    pub(crate) fn was_reached(&self) -> bool {
        self.presence().seen > 0
    }
}

#[cfg(test)]
mod tests;
