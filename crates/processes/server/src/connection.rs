//! One connection, incoming or outgoing.

use pandofs_types::{ServerId, SessionId, TraceContext};
use pandofs_wire::address::Stream;
use pandofs_wire::buffer::{Progress, READ_BYTES, ReadBuffer, WriteBuffer};
use std::io::{self, ErrorKind};
use std::time::Instant;

slotmap::new_key_type! {
    /// A connection of a server, in its table. The key of a closed connection never finds the one
    /// that took its place.
    pub(crate) struct ConnectionKey;
}

/// The program at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has not said.
    Unknown,
    Client {
        session: SessionId,
        /// Of its connections to this server: those of smaller ones are closed.
        generation: u64,
    },
    Admin,
    /// Another server, which opened the connection.
    Server {
        id: ServerId,
    },
    /// Another server, to which this one opened the connection.
    Link {
        server: ServerId,
    },
    /// It was refused: the connection is closed once the reason was sent.
    Refused,
}

impl Role {
    /// The client's.
    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Role::Client { session, .. } => Some(session),
            _ => None,
        }
    }
}

/// Result of a read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// There may be more.
    More,
    /// There is no more for now.
    Last,
    /// The peer has closed its end.
    End,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub stream: Stream,
    pub role: Role,
    /// When it was made.
    pub since: Instant,
    pub received: ReadBuffer,
    pub unsent: WriteBuffer,
    /// Bytes of answers still to be encoded, at most.
    pub owed: usize,
    /// It is among those that may have something to read.
    pub is_ready: bool,
    /// It is among those that have something to write.
    pub is_dirty: bool,
    /// The system tells when it takes more. Only asked for while something could not be written: a
    /// socket takes more each time its peer has read, which would wake the lane once for every answer.
    pub awaits_room: bool,
    /// Nothing is taken from it until it has read some of its answers.
    pub is_paused: bool,
    /// The client gets recalls here, and answers that it has given the leases up.
    pub hears_recalls: bool,
    /// The number of the next request, and the span that it is a part of.
    pub trace: Option<(u64, TraceContext)>,
    /// The system has said that the peer closed its end: only a read that finds the end may stop.
    pub end_announced: bool,
    /// The system's buffer may have something.
    pub may_read: bool,
}

impl Connection {
    pub(crate) fn new(stream: Stream, role: Role, now: Instant) -> Connection {
        Connection {
            received: ReadBuffer::of(&stream),
            unsent: WriteBuffer::of(&stream),
            stream,
            role,
            since: now,
            owed: 0,
            is_ready: false,
            is_dirty: false,
            awaits_room: false,
            is_paused: false,
            hears_recalls: false,
            trace: None,
            end_announced: false,
            may_read: false,
        }
    }

    /// Name of the peer, for the log.
    pub(crate) fn peer(&self) -> String {
        match self.role {
            Role::Unknown => "a connection that has not said who it is".to_owned(),
            Role::Client { session, .. } => format!("client {session}"),
            Role::Admin => "an administrator".to_owned(),
            Role::Server { id } => format!("server {id}"),
            Role::Link { server } => format!("server {server} (on the link to it)"),
            Role::Refused => "a connection that was refused".to_owned(),
        }
    }

    /// Whether a client with this session is at the other end.
    pub(crate) fn is_of(&self, session: SessionId) -> bool {
        matches!(self.role, Role::Client { session: other, .. } if other == session)
    }

    /// Whether it is of this session, and of an earlier generation.
    pub(crate) fn is_before(&self, session: SessionId, generation: u64) -> bool {
        matches!(
            self.role,
            Role::Client { session: other, generation: older } if other == session && older < generation
        )
    }

    /// Reads once.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read(&mut self) -> io::Result<Arrival> {
        // Otherwise the buffer may lend no more room than the begun frame lacks.
        let lends_all = self.received.unread() == 0;
        match self.received.fill_from_stream(&mut self.stream) {
            Ok(0) => Ok(Arrival::End),
            // A read that does not fill what it was lent has emptied the socket (epoll(7), question
            // 9), unless the end is behind the bytes.
            Ok(count) if lends_all && count < READ_BYTES && !self.end_announced => {
                Ok(Arrival::Last)
            }
            Ok(_) => Ok(Arrival::More),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Arrival::Last),
            Err(error) => Err(error),
        }
    }

    /// Writes what the system takes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn write(&mut self) -> io::Result<Progress> {
        self.unsent.write_to(&mut self.stream)
    }

    /// Bytes that the peer has coming.
    pub(crate) fn outstanding(&self) -> usize {
        self.owed + self.unsent.pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_wire::frame;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (
            Connection::new(Stream::Unix(ours), Role::Unknown, Instant::now()),
            theirs,
        )
    }

    #[test]
    fn a_short_read_is_the_last_unless_the_end_is_announced() {
        let (mut connection, mut peer) = pair();
        assert_eq!(connection.read().unwrap(), Arrival::Last);
        let mut small = Vec::new();
        frame::encode_into(&mut small, &7_u32).unwrap();
        peer.write_all(&small).unwrap();
        assert_eq!(connection.read().unwrap(), Arrival::Last);
        assert!(connection.received.next_frame().unwrap().is_some());
        assert!(connection.received.next_frame().unwrap().is_none());

        peer.write_all(&small).unwrap();
        drop(peer);
        connection.end_announced = true;
        assert_eq!(connection.read().unwrap(), Arrival::More);
        assert!(connection.received.next_frame().unwrap().is_some());
        assert!(connection.received.next_frame().unwrap().is_none());
        assert_eq!(connection.read().unwrap(), Arrival::End);
    }

    #[test]
    fn a_long_read_is_not_the_last() {
        let (mut connection, mut peer) = pair();
        let mut large = Vec::new();
        frame::encode_into(&mut large, &"x".repeat(READ_BYTES)).unwrap();
        peer.write_all(&large).unwrap();
        assert_eq!(connection.read().unwrap(), Arrival::More);
    }

    #[test]
    fn a_frame_in_two_parts_is_read_to_its_end() {
        let (mut connection, mut peer) = pair();
        let mut frames = Vec::new();
        frame::encode_into(&mut frames, &"x".repeat(READ_BYTES + 100)).unwrap();
        frame::encode_into(&mut frames, &7_u32).unwrap();
        peer.write_all(&frames[..READ_BYTES]).unwrap();
        assert_eq!(connection.read().unwrap(), Arrival::More);
        assert_eq!(connection.read().unwrap(), Arrival::Last);
        peer.write_all(&frames[READ_BYTES..]).unwrap();
        let mut seen = 0;
        for _ in 0..4 {
            while connection.received.next_frame().unwrap().is_some() {
                seen += 1;
            }
            if connection.read().unwrap() == Arrival::Last {
                break;
            }
        }
        while connection.received.next_frame().unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, 2);
    }
}
