//! Contents of frames, pinned byte by byte; `docs/protocol.md` describes them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_formats::samples::{self, Named};
use pandofs_formats::{Golden, check, variants};
use pandofs_types::{Epoch, FsId, LeaseKey, Leased, Position, ServerId, SessionId};
use pandofs_wire::buffer::ReadBuffer;
use pandofs_wire::frame::{self, FrameError, HEADER_BYTES};
use pandofs_wire::hello::{Hello, HelloAnswer, HelloRefusal, Machine, PROTOCOL_VERSION, Peer};
use pandofs_wire::message::{AnswerBody, AnswerFrame, PeerFrame, RequestBody, RequestFrame};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

const RULE: &str = "\
Bodies of frames, in the version PROTOCOL_VERSION of crates/engines/wire/src/hello.rs.
Peers of one version send and expect these bytes: any change here needs a new PROTOCOL_VERSION.";

fn path(of: &str) -> String {
    format!(
        "{}/tests/golden/{of}-{PROTOCOL_VERSION}.txt",
        env!("CARGO_MANIFEST_DIR")
    )
}

variants!(request_body_of, REQUEST_BODIES, RequestBody:
    Shard, Data, Admin, Ping, Goodbye, AwaitRecalls, Trace);
variants!(answer_body_of, ANSWER_BODIES, AnswerBody: Shard, Data, Admin, Done, Leased, Recalls);
variants!(peer_of, PEERS, Peer: Client, Server, Admin);
variants!(refusal_of, REFUSALS, HelloRefusal:
    WrongMagic, WrongVersion, WrongFileSystem, TooManyConnections, NotReady, Malformed, Superseded);

/// The body of a value's frame.
fn body<T: Serialize>(value: &T) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::encode_into(&mut frame, value).unwrap();
    frame.split_off(HEADER_BYTES)
}

fn pin<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    golden: &mut Golden,
    name: &str,
    value: &T,
) {
    golden.value(name, value, body, |bytes| frame::decode(bytes));
}

fn requests() -> Vec<(String, RequestBody)> {
    fn named<T>(
        what: &'static str,
        samples: Named<T>,
        make: fn(T) -> RequestBody,
    ) -> impl Iterator<Item = (String, RequestBody)> {
        samples
            .into_iter()
            .map(move |(name, sample)| (format!("{what}, {name}"), make(sample)))
    }
    let shard = |request| RequestBody::Shard(samples::shard_request(request));
    let mut all: Vec<_> = named("Shard", samples::requests(), shard).collect();
    all.extend(named("Data", samples::data_requests(), RequestBody::Data));
    all.extend(named(
        "Admin",
        samples::admin_requests(),
        RequestBody::Admin,
    ));
    all.push(("Ping".to_owned(), RequestBody::Ping));
    let session = SessionId(0x0123_4567_89ab_cdef);
    all.push(("Goodbye".to_owned(), RequestBody::Goodbye { session }));
    for (name, done) in [("AwaitRecalls anew", None), ("AwaitRecalls", Some(300))] {
        all.push((name.to_owned(), RequestBody::AwaitRecalls { done }));
    }
    let context = samples::trace_context();
    all.push(("Trace".to_owned(), RequestBody::Trace(context)));
    all
}

#[test]
fn requests_are_pinned() {
    let all = requests();
    check(&path("requests"), RULE, |golden| {
        golden.complete(
            "RequestBody",
            REQUEST_BODIES,
            all.iter().map(|(_, body)| request_body_of(body)),
        );
        for (name, body) in all {
            pin(golden, &name, &RequestFrame { id: 200, body });
        }
    });
}

fn answers() -> Vec<(String, AnswerBody)> {
    let mut all = vec![("Done".to_owned(), AnswerBody::Done)];
    for (name, reply) in samples::replies() {
        all.push((format!("Shard, {name}"), AnswerBody::Shard(Ok(reply))));
    }
    for (name, refusal) in samples::refusals() {
        all.push((
            format!("Shard refused, {name}"),
            AnswerBody::Shard(Err(refusal)),
        ));
    }
    let result = samples::replies().swap_remove(1).1;
    let leased = vec![Leased::ENTRY.and(Leased::ATTRIBUTES), Leased::NOTHING];
    let result = Ok(result);
    all.push(("Leased".to_owned(), AnswerBody::Leased { result, leased }));
    let keys = vec![
        LeaseKey::Entry {
            dir: samples::DIR,
            position: Position(0x0123_4567_89ab_cd80),
        },
        LeaseKey::Inode(samples::FILE),
        LeaseKey::Parts(samples::DIR),
        LeaseKey::Grant(samples::DIR),
    ];
    all.push((
        "Recalls".to_owned(),
        AnswerBody::Recalls { number: 300, keys },
    ));
    for (name, reply) in samples::data_replies() {
        all.push((format!("Data, {name}"), AnswerBody::Data(reply)));
    }
    for (name, reply) in samples::admin_replies() {
        all.push((format!("Admin, {name}"), AnswerBody::Admin(reply)));
    }
    all
}

#[test]
fn answers_are_pinned() {
    let all = answers();
    check(&path("answers"), RULE, |golden| {
        golden.complete(
            "AnswerBody",
            ANSWER_BODIES,
            all.iter().map(|(_, body)| answer_body_of(body)),
        );
        for (name, body) in all {
            pin(golden, &name, &AnswerFrame { id: 200, body });
        }
        for (name, error) in samples::fs_errors() {
            pin(golden, &format!("FsError {name}"), &error);
        }
        for (name, kind) in samples::file_kinds() {
            pin(golden, &format!("FileKind {name}"), &kind);
        }
        for (name, policy) in samples::policies() {
            pin(golden, &format!("DirPolicy {name}"), &policy);
        }
    });
}

#[test]
fn messages_between_servers_are_pinned() {
    check(&path("peers"), RULE, |golden| {
        for (name, message) in samples::peer_messages() {
            let messages = vec![message];
            pin(
                golden,
                &format!("PeerFrame {name}"),
                &PeerFrame { messages },
            );
        }
        let two = samples::peer_messages()
            .into_iter()
            .take(2)
            .map(|(_, message)| message);
        let messages = two.collect();
        pin(golden, "PeerFrame of two", &PeerFrame { messages });
        for (name, message) in samples::commit_messages() {
            pin(golden, &format!("CommitMessage {name}"), &message);
        }
        for (name, step) in samples::steps() {
            pin(golden, &format!("Step {name}"), &step);
        }
        for (name, why) in samples::refused() {
            pin(golden, &format!("Refused {name}"), &why);
        }
    });
}

const FS: FsId = FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

#[test]
fn handshakes_are_pinned() {
    let session = SessionId(0x0123_4567_89ab_cdef);
    let peers = [
        (
            "client",
            Peer::Client {
                session,
                generation: 3,
            },
        ),
        ("server", Peer::Server { id: ServerId(300) }),
        ("administrator", Peer::Admin),
    ];
    let refusals = [
        ("magic", HelloRefusal::WrongMagic),
        (
            "version",
            HelloRefusal::WrongVersion {
                ours: 1,
                theirs: 300,
            },
        ),
        (
            "file system",
            HelloRefusal::WrongFileSystem {
                ours: FS,
                theirs: FsId(1),
            },
        ),
        (
            "connections",
            HelloRefusal::TooManyConnections { limit: 16_384 },
        ),
        ("not ready", HelloRefusal::NotReady),
        ("malformed", HelloRefusal::Malformed { bytes: 70_000 }),
        ("superseded", HelloRefusal::Superseded),
    ];
    let welcome = HelloAnswer::Welcome {
        server: ServerId(3),
        boot: u64::MAX,
        epoch: Epoch(4),
        machine: Machine(0x5_0000_0001),
        known_since: 70_000,
    };
    check(&path("hello"), RULE, |golden| {
        for (name, peer) in peers {
            let hello = Hello { fs: FS, peer };
            golden.value(&format!("Hello {name}"), &hello, body, |bytes| {
                Hello::decode(bytes, FS)
            });
        }
        golden.complete("Peer", PEERS, peers.iter().map(|(_, peer)| peer_of(peer)));
        golden.value("Welcome", &welcome, body, HelloAnswer::decode);
        for (name, refusal) in refusals {
            let answer = HelloAnswer::Refused(refusal);
            golden.value(
                &format!("Refused {name}"),
                &answer,
                body,
                HelloAnswer::decode,
            );
        }
        golden.complete(
            "HelloRefusal",
            REFUSALS,
            refusals.iter().map(|(_, refusal)| refusal_of(refusal)),
        );
    });
}

#[test]
fn whole_frames_are_pinned() {
    let ping = RequestFrame {
        id: 200,
        body: RequestBody::Ping,
    };
    let encode = |value: &RequestFrame| {
        let mut frame = Vec::new();
        frame::encode_into(&mut frame, value).unwrap();
        frame
    };
    let decode = |mut bytes: &[u8]| -> Result<RequestFrame, FrameError> {
        let mut received = ReadBuffer::new();
        while received.fill_from(&mut bytes).unwrap() > 0 {}
        let body = received.next_frame()?.expect("the frame is whole");
        frame::decode(body)
    };
    check(&path("frame"), RULE, |golden| {
        golden.value("Ping, with length and checksum", &ping, encode, decode);
    });
}
