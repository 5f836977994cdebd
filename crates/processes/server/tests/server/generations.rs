//! Connections that a client has given up: what the network still delivers of them is not done.

use crate::common::{Connection, FS, Memory, eventually};
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_types::{Ino, SessionId};
use pandofs_wire::buffer::{Progress, WriteBuffer};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{RequestBody, RequestFrame};

const INO: Ino = Ino(0x1_0007);
const SESSION: u64 = 7;

fn write(data: &[u8]) -> DataRequest {
    DataRequest::Write {
        ino: INO,
        truncations: FIRST_TRUNCATIONS,
        offset: 0,
        data: data.to_vec(),
    }
}

const READ: DataRequest = DataRequest::Read {
    ino: INO,
    offset: 0,
    length: 100,
};

/// The bytes of a request as they are sent.
fn bytes_of(request: DataRequest) -> Vec<u8> {
    let mut unsent = WriteBuffer::new();
    let body = RequestBody::Data(request);
    unsent.push(&RequestFrame { id: 1, body }).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(unsent.write_to(&mut bytes).unwrap(), Progress::Done);
    bytes
}

/// The network dies in the middle of a write; it is done over another connection, and then something newer; then the
/// network delivers the rest of the first.
#[test]
fn a_write_that_was_given_up_is_not_done_after_a_newer_one() {
    let memory = Memory::new();
    let server = memory.start();
    let mut first = Connection::client(server.address(), SESSION);
    let held_up = bytes_of(write(b"old"));
    let (begun, rest) = held_up.split_at(held_up.len() - 2);
    first.write_bytes(begun);

    let mut second = Connection::of_generation(server.address(), SESSION, 2);
    assert_eq!(second.data(write(b"old")), DataReply::Done);
    assert_eq!(second.data(write(b"new")), DataReply::Done);
    // The server may have closed it so that not even this can be sent.
    let _ = std::io::Write::write_all(&mut first.stream, rest);
    assert_eq!(first.next_body(), None, "it is closed");
    assert_eq!(second.data(READ), DataReply::Data(b"new".to_vec()));
}

/// Another session's connections, and others of the same generation, are none of its business.
#[test]
fn a_new_generation_takes_the_place_of_older_ones_of_its_session_alone() {
    let memory = Memory::new();
    let server = memory.start();
    let mut other = Connection::client(server.address(), SESSION + 1);
    let mut one = Connection::of_generation(server.address(), SESSION, 2);
    let mut another = Connection::of_generation(server.address(), SESSION, 2);
    for connection in [&mut other, &mut one, &mut another] {
        assert_eq!(connection.data(READ), DataReply::Data(Vec::new()));
    }
}

/// Its first frame was on its way for longer than it took to open the next one.
#[test]
fn a_connection_that_comes_late_is_turned_away() {
    let memory = Memory::new();
    let server = memory.start();
    let mut late = Connection::silent(server.address());
    let mut current = Connection::of_generation(server.address(), SESSION, 2);
    let peer = Peer::Client {
        session: SessionId(SESSION),
        generation: 1,
    };
    let answer = late.hello(&Hello { fs: FS, peer }).unwrap();
    assert_eq!(answer, HelloAnswer::Refused(HelloRefusal::Superseded));
    let mut admin = Connection::admin(server.address());
    eventually("it is closed", || {
        (admin.status().connections == 2).then_some(())
    });
    assert_eq!(current.data(READ), DataReply::Data(Vec::new()));
}
