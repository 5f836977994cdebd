//! Servers among themselves. The other server is played by the test.

use crate::common::link::{OTHER, accept, listen, messages, send};
use crate::common::{Connection, ID, Memory, eventually, map};
use pandofs_api::{CommitMessage, DataReply, DataRequest, FIRST_TRUNCATIONS, Horizon, PeerMessage};
use pandofs_placement::{DirBounds, DirPolicy, Granularity, ServerLoad, objects};
use pandofs_types::{Epoch, Ino, ServerId, ShardId, TxId};
use pandofs_wire::buffer::{Progress, WriteBuffer};
use pandofs_wire::hello::{HelloAnswer, Machine, Peer};

fn memory() -> Memory {
    Memory::with_map(|dir| map(dir, 2, 3_600_000))
}

fn write(ticket: u64) -> PeerMessage {
    let request = DataRequest::Write {
        truncations: FIRST_TRUNCATIONS,
        ino: Ino(ticket),
        offset: 0,
        data: vec![1],
    };
    PeerMessage::Data { ticket, request }
}

fn done(ticket: u64) -> PeerMessage {
    PeerMessage::DataDone {
        ticket,
        reply: DataReply::Done,
    }
}

#[test]
fn answers_come_over_a_link_that_is_opened_for_them_and_opened_again_when_it_breaks() {
    let memory = memory();
    let listener = listen(&memory);
    let server = memory.start();
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    for round in 0..3 {
        send(&mut to_server, vec![write(round)]);
        let mut link = accept(&listener);
        assert_eq!(messages(&mut link), [done(round)]);
        send(&mut to_server, vec![write(100 + round)]);
        assert_eq!(
            messages(&mut link),
            [done(100 + round)],
            "the same link goes on"
        );
    }
}

#[test]
fn messages_wait_for_a_server_that_is_away() {
    let memory = memory();
    let server = memory.start();
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    send(&mut to_server, (0..10).map(write).collect());
    let mut admin = Connection::admin(server.address());
    eventually("all are answered", || {
        (admin.status().peer_messages == 10).then_some(())
    });
    let mut link = accept(&listen(&memory));
    let mut seen = messages(&mut link);
    while seen.len() < 10 {
        seen.extend(messages(&mut link));
    }
    seen.sort_by_key(|message| match message {
        PeerMessage::DataDone { ticket, .. } => *ticket,
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, (0..10).map(done).collect::<Vec<_>>());
}

#[test]
fn a_request_that_comes_again_is_answered_again_and_not_carried_out_again() {
    let memory = memory();
    let listener = listen(&memory);
    let server = memory.start();
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    let mut client = Connection::client(server.address(), 1);
    let write = |truncations, data: &[u8]| DataRequest::Write {
        truncations,
        ino: Ino(9),
        offset: 0,
        data: data.to_vec(),
    };
    assert_eq!(
        client.data(write(FIRST_TRUNCATIONS, b"0123456789")),
        DataReply::Done
    );
    let cut = PeerMessage::Data {
        ticket: 5,
        request: DataRequest::Truncate {
            truncations: FIRST_TRUNCATIONS + 1,
            ino: Ino(9),
            length: 2,
        },
    };
    send(&mut to_server, vec![cut.clone()]);
    let mut link = accept(&listener);
    assert_eq!(messages(&mut link), [done(5)]);
    let after = write(FIRST_TRUNCATIONS + 1, b"abcdefghij");
    assert_eq!(client.data(after), DataReply::Done);
    send(&mut to_server, vec![cut]);
    assert_eq!(messages(&mut link), [done(5)]);
    let read = DataRequest::Read {
        ino: Ino(9),
        offset: 0,
        length: 100,
    };
    assert_eq!(client.data(read), DataReply::Data(b"abcdefghij".to_vec()));
}

#[test]
fn messages_for_or_from_the_wrong_shards_are_dropped() {
    let memory = memory();
    let listener = listen(&memory);
    let server = memory.start();
    let own = memory.map.shards_of(ID)[0];
    let others = memory.map.shards_of(OTHER)[0];
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    let message = |from, to| {
        let tx = TxId {
            coordinator: from,
            sequence: 1,
        };
        let message = CommitMessage::Finished {
            tx,
            number: pandofs_api::StepNumber(1),
        };
        PeerMessage::Commit {
            from,
            to,
            horizon: Horizon::default(),
            held: None,
            message,
        }
    };
    let wrong = [
        (own, own),
        (others, others),
        (ShardId(u16::MAX), own),
        (others, ShardId(u16::MAX)),
    ];
    send(
        &mut to_server,
        wrong
            .into_iter()
            .map(|(from, to)| message(from, to))
            .collect(),
    );
    send(&mut to_server, vec![write(1)]);
    assert_eq!(messages(&mut accept(&listener)), [done(1)]);
}

#[test]
fn a_link_to_the_wrong_server_is_not_used() {
    let memory = memory();
    let listener = listen(&memory);
    let server = memory.start();
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    send(&mut to_server, vec![write(1)]);
    let mut link = Connection::over(listener.accept().unwrap());
    link.next_body().unwrap();
    let mut unsent = WriteBuffer::new();
    let welcome = HelloAnswer::Welcome {
        server: ServerId(7),
        boot: 1,
        epoch: Epoch(1),
        machine: Machine(1),
        known_since: 0,
    };
    unsent.push(&welcome).unwrap();
    assert_eq!(unsent.write_to(&mut link.stream).unwrap(), Progress::Done);
    assert_eq!(link.next_body(), None, "it is closed without a message");
    assert_eq!(messages(&mut accept(&listener)), [done(1)]);
}

fn load(objects: u64, wanted: bool) -> PeerMessage {
    let requests = 0;
    let load = ServerLoad { objects, requests };
    PeerMessage::Load { load, wanted }
}

#[test]
fn a_server_says_what_it_has_and_asks_nobody_if_nothing_is_placed_by_it() {
    let memory = memory();
    let listener = listen(&memory);
    let server = memory.start();
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    let roots = u64::from(memory.map.server_of(Ino::ROOT.birth_shard()) == ID);
    send(&mut to_server, vec![load(7, true)]);
    let mut link = accept(&listener);
    assert_eq!(messages(&mut link), [load(objects(roots, roots), false)]);
    send(&mut to_server, vec![load(8, false), write(1)]);
    assert_eq!(
        messages(&mut link),
        [done(1)],
        "a load is answered only if that is wanted"
    );
    let mut admin = Connection::admin(server.address());
    assert_eq!(admin.status().granularity, None);
}

#[test]
fn where_the_policy_adapts_servers_ask_each_other_and_go_by_the_answers() {
    let memory = Memory::with_map(|dir| {
        let mut map = map(dir, 2, 3_600_000);
        map.policy = DirPolicy::Adaptive(DirBounds::default());
        map
    });
    let listener = listen(&memory);
    let server = memory.start();
    let mut link = accept(&listener);
    let roots = u64::from(memory.map.server_of(Ino::ROOT.birth_shard()) == ID);
    let own = load(objects(roots, roots), true);
    assert_eq!(messages(&mut link), std::slice::from_ref(&own));
    let mut admin = Connection::admin(server.address());
    let begun = admin.status().granularity.expect("it is placed by");
    assert_eq!((begun.dir_depth, begun.dir_width), (6, 256));
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    // The files of one directory are to be a 16th of what each of the two servers has.
    for (objects, width) in [(512_000, 16_000), (1_024_000, 32_000)] {
        send(&mut to_server, vec![load(objects, false)]);
        let goes_by = |size: Option<Granularity>| size.is_some_and(|size| size.file_width == width);
        eventually("it has adapted", || {
            goes_by(admin.status().granularity).then_some(())
        });
        assert_eq!(messages(&mut link), std::slice::from_ref(&own));
    }
}
