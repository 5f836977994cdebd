//! Sockets: accepting, noticing what arrived, writing, closing.

use super::LaneThread;
use crate::connection::{Connection, ConnectionKey, Role};
use crate::limits::{HELLO_TIMEOUT, MAX_OWED_BYTES, MAX_UNSENT_BYTES};
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};
use pandofs_types::SessionId;
use pandofs_wire::address::Stream;
use pandofs_wire::buffer::{Progress, WriteBuffer};
use pandofs_wire::hello::{HelloAnswer, HelloRefusal};
use slotmap::{Key, KeyData};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Token of the mailbox's waker.
pub(crate) const WAKER: Token = Token(0);
/// Token of a listener.
const LISTENER: Token = Token(1);
/// The tokens from here on are connections'.
const FIRST_CONNECTION: usize = 2;

fn token(key: ConnectionKey) -> Token {
    Token((key.data().as_ffi() as usize).wrapping_add(FIRST_CONNECTION))
}

fn key(token: Token) -> ConnectionKey {
    KeyData::from_ffi(token.0.wrapping_sub(FIRST_CONNECTION) as u64).into()
}

impl LaneThread {
    pub(super) fn listen(&mut self) -> io::Result<()> {
        for listener in &self.listeners {
            listener.set_nonblocking(true)?;
            let fd = listener.as_raw_fd();
            self.poll
                .registry()
                .register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        }
        Ok(())
    }

    pub(super) fn take_events(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                // Mail is looked for in every round.
                WAKER => {}
                LISTENER => self.may_accept = true,
                other => self.take_event(key(other), event),
            }
        }
    }

    fn take_event(&mut self, key: ConnectionKey, event: &Event) {
        let Some(connection) = self.connections.get_mut(key) else {
            // It was closed in the same round.
            return;
        };
        if event.is_read_closed() || event.is_write_closed() || event.is_error() {
            connection.end_announced = true;
            connection.may_read = true;
        }
        if event.is_readable() {
            connection.may_read = true;
        }
        let has_unsent = connection.unsent.pending() > 0;
        if connection.may_read {
            self.make_ready(key);
        }
        if event.is_writable() && has_unsent {
            self.make_dirty(key);
        }
    }

    pub(super) fn make_ready(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.is_ready
            && !connection.is_paused
        {
            connection.is_ready = true;
            self.ready.push_back(key);
        }
    }

    pub(super) fn make_dirty(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Takes the connections that wait at the listeners.
    pub(super) fn accept(&mut self, now: Instant) {
        if !std::mem::take(&mut self.may_accept) {
            return;
        }
        for place in 0..self.listeners.len() {
            loop {
                match self.listeners[place].accept() {
                    Ok(stream) => self.welcome(stream, now),
                    Err(error) => match error.kind() {
                        ErrorKind::WouldBlock => break,
                        // The peer went away before it was its turn.
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                        _ => {
                            tracing::warn!("cannot accept a connection: {error}");
                            self.accept_failed = true;
                            break;
                        }
                    },
                }
            }
        }
    }

    fn welcome(&mut self, stream: Stream, now: Instant) {
        match stream.peer_user() {
            Ok(user) if may_connect(user, rustix::process::geteuid().as_raw()) => {}
            Ok(user) => {
                tracing::warn!(
                    "refused a connection of user {user:?}, which may not use the socket"
                );
                return;
            }
            Err(error) => {
                tracing::warn!("refused a connection: cannot find out its user: {error}");
                return;
            }
        }
        if self.connections.len() >= self.max_connections {
            turn_away(stream, self.max_connections);
            return;
        }
        if let Err(error) = self.add_connection(stream, Role::Unknown, now) {
            tracing::warn!("cannot accept a connection: {error}");
        }
    }

    pub(super) fn add_connection(
        &mut self,
        stream: Stream,
        role: Role,
        now: Instant,
    ) -> io::Result<ConnectionKey> {
        stream.set_nonblocking(true)?;
        let fd = stream.as_raw_fd();
        let key = self.connections.insert(Connection::new(stream, role, now));
        let registered =
            self.poll
                .registry()
                .register(&mut SourceFd(&fd), token(key), Interest::READABLE);
        if let Err(error) = registered {
            self.connections.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    /// Closes a connection. Answers to what it asked are dropped when they come.
    pub(super) fn close(&mut self, key: ConnectionKey, now: Instant) {
        let Some(connection) = self.connections.remove(key) else {
            return;
        };
        let fd = connection.stream.as_raw_fd();
        if let Err(error) = self.poll.registry().deregister(&mut SourceFd(&fd)) {
            tracing::warn!(
                "cannot stop polling the socket of {}: {error}",
                connection.peer()
            );
        }
        if let Role::Link { server } = connection.role {
            self.link_lost(server, now);
        }
    }

    /// Writes to each connection what has gathered for it.
    pub(super) fn write_dirty(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.connections.get_mut(key) else {
                continue;
            };
            connection.is_dirty = false;
            let written = connection.write().and_then(|progress| {
                let blocked = matches!(progress, Progress::Blocked);
                if blocked != connection.awaits_room {
                    let interest = match blocked {
                        true => Interest::READABLE | Interest::WRITABLE,
                        false => Interest::READABLE,
                    };
                    let fd = connection.stream.as_raw_fd();
                    self.poll
                        .registry()
                        .reregister(&mut SourceFd(&fd), token(key), interest)?;
                    connection.awaits_room = blocked;
                }
                Ok(progress)
            });
            match written {
                Ok(Progress::Done) if connection.role == Role::Refused => self.close(key, now),
                Ok(_) if connection.unsent.pending() > MAX_UNSENT_BYTES => {
                    tracing::warn!(
                        "closing the connection of {}: it has not read {} bytes",
                        connection.peer(),
                        connection.unsent.pending()
                    );
                    self.close(key, now);
                }
                Ok(_) => self.unpause(key),
                Err(error) => {
                    tracing::debug!("cannot write to {}: {error}", connection.peer());
                    self.close(key, now);
                }
            }
        }
    }

    /// Takes up a paused connection's requests again if it has less to come.
    pub(super) fn unpause(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.is_paused
            && connection.outstanding() <= MAX_OWED_BYTES.min(self.max_owed) / 2
        {
            connection.is_paused = false;
            self.make_ready(key);
        }
    }

    /// The lane has let go of a session, whose client may still send without knowing it.
    pub(super) fn expired(&mut self, session: SessionId, now: Instant) {
        tracing::info!(
            "client {session} has been silent for too long; its open files are released"
        );
        self.close_all(now, |connection| connection.is_of(session));
    }

    /// Lets go of connections that do not say who they are.
    pub(super) fn drop_unknown(&mut self, now: Instant) {
        self.close_all(now, |connection| {
            matches!(connection.role, Role::Unknown | Role::Refused)
                && now.saturating_duration_since(connection.since) >= HELLO_TIMEOUT
        });
    }

    pub(super) fn close_all(&mut self, now: Instant, which: impl Fn(&Connection) -> bool) {
        let keys: Vec<ConnectionKey> = self
            .connections
            .iter()
            .filter(|(_, connection)| which(connection))
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.close(key, now);
        }
    }
}

/// Whether a program of this user may connect to a server of `own`: root's and its own. Over TCP the user is not known.
fn may_connect(user: Option<u32>, own: u32) -> bool {
    user.is_none_or(|user| user == 0 || user == own)
}

/// Refuses a connection, as there are too many, with a reason if it takes the few bytes at once.
fn turn_away(mut stream: Stream, limit: usize) {
    tracing::warn!("refused a connection: all {limit} allowed ones are in use");
    let refusal = HelloRefusal::TooManyConnections {
        limit: limit as u32,
    };
    let mut unsent = WriteBuffer::new();
    let sent = stream.set_nonblocking(true).is_ok()
        && unsent.push(&HelloAnswer::Refused(refusal)).is_ok()
        && matches!(unsent.write_to(&mut stream), Ok(Progress::Done));
    if !sent {
        tracing::debug!("the reason for a refused connection could not be sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_for_root_and_who_runs_the_server() {
        assert!(may_connect(Some(0), 1_000) && may_connect(Some(1_000), 1_000));
        assert!(!may_connect(Some(1_001), 1_000) && !may_connect(Some(1_000), 0));
        assert!(may_connect(None, 1_000));
    }
}
