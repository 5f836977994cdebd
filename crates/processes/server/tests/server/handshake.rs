//! Admission of connections, and the end of those that are refused or misbehave.

use crate::common;

use common::{Connection, FS, ID, Memory, eventually};
use pandofs_api::Refusal;
use pandofs_types::limits::{MAX_FRAME_BYTES, MAX_SLOTS};
use pandofs_types::{Epoch, FsId, ServerId, SessionId, ShardId, SlotId};
use pandofs_wire::frame;
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Peer};
use pandofs_wire::message::{AnswerBody, PeerFrame, RequestBody, RequestFrame};

#[test]
fn a_welcome_tells_since_when_the_session_is_known() {
    let memory = Memory::new();
    let server = memory.start();
    let known_since = |session| {
        let peer = Peer::Client {
            session,
            generation: 1,
        };
        let answer = Connection::silent(server.address()).hello(&Hello { fs: FS, peer });
        match answer.unwrap() {
            HelloAnswer::Welcome { known_since, .. } => known_since,
            refused => panic!("{refused:?}"),
        }
    };
    let (one, other) = (known_since(SessionId(1)), known_since(SessionId(2)));
    assert_eq!(known_since(SessionId(1)), one);
    assert_ne!(one, other);
    // Forgotten, as it is when it was silent for too long.
    let session = SessionId(1);
    let mut connection = Connection::client(server.address(), session.0);
    let gone = connection.ask(RequestBody::Goodbye { session });
    assert_eq!(gone, AnswerBody::Done);
    assert_ne!(known_since(session), one);
    assert_eq!(known_since(SessionId(2)), other);
}

#[test]
fn a_welcome_names_the_server_its_boot_and_its_machine() {
    let memory = Memory::new();
    let start = || {
        let server = memory.start();
        let hello = Hello {
            fs: FS,
            peer: Peer::Admin,
        };
        let answer = Connection::silent(server.address()).hello(&hello).unwrap();
        let again = Connection::silent(server.address()).hello(&hello).unwrap();
        assert_eq!(answer, again);
        let HelloAnswer::Welcome {
            server: ID,
            boot,
            epoch: Epoch(1),
            machine,
            known_since: 0,
        } = answer
        else {
            panic!("{answer:?}");
        };
        server.stop();
        server.join().unwrap();
        (boot, machine)
    };
    let (first, second) = (start(), start());
    assert_ne!(first.0, second.0);
    assert_eq!(first.1, second.1);
    // As if the machine had been started since.
    let record = memory.data().join("generations.json");
    let earlier = "{\"format\":1,\"generation\":1,\"boot\":\"x\",\"lost\":[],\"sum\":3875203468}";
    std::fs::write(record, earlier).unwrap();
    assert_ne!(start().1, first.1);
}

#[test]
fn refusals_say_why_and_close() {
    let memory = Memory::new();
    let server = memory.start();
    let refused = |hello: &dyn Fn(&mut Connection) -> Result<HelloAnswer, HelloRefusal>| {
        let mut connection = Connection::silent(server.address());
        let answer = hello(&mut connection).unwrap();
        assert_eq!(
            connection.next_body(),
            None,
            "it is to be closed after {answer:?}"
        );
        match answer {
            HelloAnswer::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    };
    let other_fs = Hello {
        fs: FsId(9),
        peer: Peer::Admin,
    };
    assert_eq!(
        refused(&|connection| connection.hello(&other_fs)),
        HelloRefusal::WrongFileSystem {
            ours: FS,
            theirs: FsId(9)
        }
    );
    assert_eq!(
        refused(&|connection| connection.hello(&"GET / HTTP/1.1")),
        HelloRefusal::WrongMagic
    );
    // A tuple of bytes is encoded as these bytes.
    let version_2 = (b'P', b'N', b'D', b'O', 2_u8, 0_u8, 7_u8);
    assert_eq!(
        refused(&|connection| connection.hello(&version_2)),
        HelloRefusal::WrongVersion { ours: 1, theirs: 2 }
    );
    let cut = (b'P', b'N', b'D', b'O', 1_u8, 0_u8);
    assert_eq!(
        refused(&|connection| connection.hello(&cut)),
        HelloRefusal::Malformed { bytes: 6 }
    );
}

#[test]
fn servers_that_are_not_in_the_map_are_not_let_in() {
    let memory = Memory::new();
    let server = memory.start();
    for id in [ID, ServerId(77)] {
        let mut connection = Connection::silent(server.address());
        connection.write_frame(&Hello {
            fs: FS,
            peer: Peer::Server { id },
        });
        assert_eq!(connection.next_body(), None);
    }
    Connection::admin(server.address()).status();
}

/// Bad peers, each of which closes its own connection without an answer and disturbs no other.
#[test]
fn malformed_frames_harm_nobody_else() {
    let memory = Memory::new();
    let server = memory.start();
    let mut bystander = Connection::client(server.address(), 1);
    bystander.create("before").unwrap();

    let mut wrong_checksum = Vec::new();
    let ping = RequestFrame {
        id: 1,
        body: RequestBody::Ping,
    };
    frame::encode_into(&mut wrong_checksum, &ping).unwrap();
    wrong_checksum[4] ^= 1;
    let mut too_long = (MAX_FRAME_BYTES as u32 + 1).to_le_bytes().to_vec();
    too_long.extend([0; 100]);
    let mut no_request = Vec::new();
    frame::encode_into(&mut no_request, &(1_u64, 250_u8)).unwrap();
    let mut truncate_request = Vec::new();
    frame::encode_into(&mut truncate_request, &1_u64).unwrap();
    let mut from_a_server = Vec::new();
    frame::encode_into(
        &mut from_a_server,
        &PeerFrame {
            messages: Vec::new(),
        },
    )
    .unwrap();
    let mut name_with_slash = Vec::new();
    {
        let request = common::create("a-b");
        let body = Connection::client(server.address(), 2).shard_request(ShardId(0), request);
        frame::encode_into(&mut name_with_slash, &RequestFrame { id: 1, body }).unwrap();
        let mut body = name_with_slash.split_off(frame::HEADER_BYTES);
        let dash = body.windows(3).position(|window| window == b"a-b").unwrap() + 1;
        body[dash] = b'/';
        name_with_slash.clear();
        frame::encode_into(&mut name_with_slash, &Raw(body)).unwrap();
    }
    let bad = [
        ("a wrong checksum", wrong_checksum),
        ("a frame over the limit", too_long),
        ("no known request", no_request),
        ("half a request", truncate_request),
        ("another kind of frame", from_a_server),
        ("a name with a slash", name_with_slash),
    ];
    for (what, bytes) in bad {
        let mut connection = Connection::client(server.address(), 3);
        connection.write_bytes(&bytes);
        assert_eq!(connection.next_body(), None, "{what}");
        bystander.create(what).unwrap();
        bystander.lookup(what).unwrap();
    }
    bystander.lookup("before").unwrap();
    let mut admin = Connection::admin(server.address());
    eventually("the closed connections go", || {
        (admin.status().connections == 2).then_some(())
    });
}

/// Encodes as its bytes and nothing else.
struct Raw(Vec<u8>);

impl serde::Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple;
        let mut tuple = serializer.serialize_tuple(self.0.len())?;
        for byte in &self.0 {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

#[test]
fn a_frame_may_come_byte_by_byte_and_many_in_one_write() {
    let memory = Memory::new();
    let server = memory.start();
    let mut connection = Connection::client(server.address(), 1);
    let mut bytes = Vec::new();
    frame::encode_into(
        &mut bytes,
        &RequestFrame {
            id: 5,
            body: RequestBody::Ping,
        },
    )
    .unwrap();
    for byte in &bytes {
        connection.write_bytes(&[*byte]);
    }
    assert_eq!(connection.answer().id, 5);

    const MANY: u64 = 10_000;
    let mut bytes = Vec::new();
    for id in 0..MANY {
        frame::encode_into(
            &mut bytes,
            &RequestFrame {
                id,
                body: RequestBody::Ping,
            },
        )
        .unwrap();
    }
    connection.write_bytes(&bytes);
    for id in 0..MANY {
        let answer = connection.answer();
        assert_eq!((answer.id, answer.body), (id, AnswerBody::Done));
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_connection_stays() {
    let memory = Memory::new();
    let server = memory.start();
    let mut connection = Connection::client(server.address(), 1);

    let wrong = connection.shard(ShardId(4_000), common::create("x"));
    assert_eq!(wrong, Err(Refusal::WrongServer { epoch: Epoch(1) }));

    let RequestBody::Shard(mut request) = connection.shard_request(ShardId(0), common::create("x"))
    else {
        panic!("no request to a shard");
    };
    request.key.slot = SlotId(MAX_SLOTS);
    let answer = connection.ask(RequestBody::Shard(request.clone()));
    assert!(
        matches!(answer, AnswerBody::Shard(Err(Refusal::Malformed(_)))),
        "{answer:?}"
    );
    request.key.slot = SlotId(0);
    request.key.session = SessionId(99);
    let answer = connection.ask(RequestBody::Shard(request.clone()));
    assert!(
        matches!(answer, AnswerBody::Shard(Err(Refusal::Malformed(_)))),
        "{answer:?}"
    );
    let mut admin = Connection::admin(server.address());
    let answer = admin.ask(RequestBody::Shard(request));
    assert!(
        matches!(answer, AnswerBody::Shard(Err(Refusal::Malformed(_)))),
        "{answer:?}"
    );

    connection.create("x").unwrap();
}

#[test]
fn a_goodbye_ends_the_session_and_only_ones_own() {
    let memory = Memory::new();
    let server = memory.start();
    let mut admin = Connection::admin(server.address());
    let mut first = Connection::client(server.address(), 1);
    let mut second = Connection::client(server.address(), 2);
    first.create("a").unwrap();
    second.create("b").unwrap();
    assert_eq!(admin.status().sessions, 2);
    let others = RequestBody::Goodbye {
        session: SessionId(2),
    };
    assert_eq!(first.ask(others), AnswerBody::Done);
    let own = RequestBody::Goodbye {
        session: SessionId(1),
    };
    assert_eq!(first.ask(own), AnswerBody::Done);
    assert_eq!(admin.status().sessions, 1);
    second.lookup("a").unwrap();
}
