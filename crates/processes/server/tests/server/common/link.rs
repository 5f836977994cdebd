//! The part of the other server, played by the test.

use super::{Connection, DEADLINE, FS, ID, Memory, socket};
use pandofs_api::{DataReply, DataRequest, PeerMessage};
use pandofs_types::{Epoch, ServerId};
use pandofs_wire::address::{Address, Listener};
use pandofs_wire::frame;
use pandofs_wire::hello::{Hello, HelloAnswer, Machine, Peer};
use pandofs_wire::message::PeerFrame;

pub(crate) const OTHER: ServerId = ServerId(1);

pub(crate) fn listen(memory: &Memory) -> Listener {
    Listener::bind(&Address::Unix(socket(memory.dir.path(), 1))).unwrap()
}

/// Takes the server's link, as server `OTHER` would.
pub(crate) fn accept(listener: &Listener) -> Connection {
    let stream = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut link = Connection::over(stream);
    let hello = Hello::decode(&link.next_body().unwrap(), FS).unwrap();
    assert_eq!(hello.peer, Peer::Server { id: ID });
    let welcome = HelloAnswer::Welcome {
        server: OTHER,
        boot: 1,
        epoch: Epoch(1),
        machine: Machine(1),
        known_since: 0,
    };
    link.write_frame(&welcome);
    link
}

pub(crate) fn messages(link: &mut Connection) -> Vec<PeerMessage> {
    let frame: PeerFrame = frame::decode(&link.next_body().expect("a frame")).unwrap();
    frame.messages
}

pub(crate) fn send(connection: &mut Connection, messages: Vec<PeerMessage>) {
    connection.write_frame(&PeerFrame { messages });
}

/// The other server's shards, which have promised that something will be done to the server's data objects.
pub(crate) struct Shards {
    listener: Listener,
    to_server: Connection,
    /// Answers come over it.
    link: Option<Connection>,
    ticket: u64,
}

impl Shards {
    /// `memory`: of a server that knows the other one.
    pub(crate) fn connect(memory: &Memory, server: &Address) -> Shards {
        Shards {
            listener: listen(memory),
            to_server: Connection::welcomed(server, Peer::Server { id: OTHER }),
            link: None,
            ticket: 0,
        }
    }

    pub(crate) fn ask(&mut self, request: DataRequest) -> DataReply {
        self.ticket += 1;
        let ticket = self.ticket;
        send(
            &mut self.to_server,
            vec![PeerMessage::Data { ticket, request }],
        );
        let link = self.link.get_or_insert_with(|| accept(&self.listener));
        loop {
            for message in messages(link) {
                if let PeerMessage::DataDone {
                    ticket: done,
                    reply,
                } = message
                    && done == ticket
                {
                    return reply;
                }
            }
        }
    }
}
