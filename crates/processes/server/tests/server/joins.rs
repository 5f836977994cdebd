//! Servers join a file system while its servers run.

use crate::common::{Connection, FS, ID, SHARDS, eventually, map, socket};
use pandofs_api::{AdminReply, AdminRequest, Refusal, Request, op};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_server::{Options, Server, ServerHandle};
use pandofs_types::{Epoch, Ino, ServerId, SessionId, ShardId};
use pandofs_wire::hello::{Hello, HelloAnswer, Peer};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The map with one server more.
fn next(dir: &Path, map: &ClusterMap) -> ClusterMap {
    let id = map.servers.len() as u16;
    let joins = ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:{}", socket(dir, id).display())],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("host-{id}"),
    };
    map.with_servers(vec![joins]).unwrap()
}

fn options(dir: &Path, map: &ClusterMap, id: ServerId) -> Options {
    Options {
        memory_bytes: 96 << 20,
        map_file: Some(dir.join("cluster.json")),
        ..Options::new(dir.join(format!("server-{id}")), map.clone(), id)
    }
}

fn start(dir: &Path, map: &ClusterMap, id: ServerId) -> ServerHandle {
    Server::start(options(dir, map, id)).unwrap()
}

fn made(dir: &Path, map: &ClusterMap, id: ServerId) -> ServerHandle {
    Server::format(&options(dir, map, id).dir, map, id).unwrap();
    start(dir, map, id)
}

/// A connection, in whichever epoch the server is.
fn connect(server: &ServerHandle, peer: Peer) -> Connection {
    let mut connection = Connection::silent(server.address());
    let answer = connection.hello(&Hello { fs: FS, peer }).unwrap();
    assert!(matches!(answer, HelloAnswer::Welcome { .. }), "{answer:?}");
    if let Peer::Client { session, .. } = peer {
        connection.session = session;
    }
    connection
}

fn epoch(server: &ServerHandle) -> Epoch {
    connect(server, Peer::Admin).status().epoch
}

fn take(server: &ServerHandle, map: &ClusterMap) -> AdminReply {
    connect(server, Peer::Admin).administer(AdminRequest::TakeMap(map.to_json()))
}

fn getattr(connection: &mut Connection, epoch: Epoch) -> AnswerBody {
    let mut body =
        connection.shard_request(ShardId(0), Request::GetAttr(op::GetAttr { ino: Ino::ROOT }));
    if let RequestBody::Shard(request) = &mut body {
        request.epoch = epoch;
    }
    connection.ask(body)
}

#[test]
fn a_map_is_taken_up_at_once_and_kept() {
    let dir = TempDir::new().unwrap();
    let old = map(dir.path(), 1, 3_600_000);
    let new = next(dir.path(), &old);
    let server = made(dir.path(), &old, ID);
    let mut client = Connection::client(server.address(), 7);
    client.create("before").unwrap();
    assert_eq!(take(&server, &new), AdminReply::Done);
    assert_eq!(epoch(&server), Epoch(2));
    // Again is no harm, and an older one changes nothing.
    assert_eq!(take(&server, &new), AdminReply::Done);
    assert_eq!(take(&server, &old), AdminReply::Done);
    assert_eq!(epoch(&server), Epoch(2));
    // The same connection goes on; a client with the old map gets an error that says so.
    let answer = getattr(&mut client, Epoch(1));
    let epoch_2 = Refusal::WrongServer { epoch: Epoch(2) };
    assert_eq!(answer, AnswerBody::Shard(Err(epoch_2)));
    let answer = getattr(&mut client, Epoch(2));
    assert!(
        matches!(answer, AnswerBody::Leased { .. } | AnswerBody::Shard(Ok(_))),
        "{answer:?}"
    );
    // Killed and started with the old map it goes on by the new one, and has what it had.
    server.abandon();
    server.join().unwrap();
    let server = start(dir.path(), &old, ID);
    assert_eq!(epoch(&server), Epoch(2));
    let mut client = connect(
        &server,
        Peer::Client {
            session: SessionId(8),
            generation: 1,
        },
    );
    let answer = getattr(&mut client, Epoch(2));
    assert!(
        matches!(answer, AnswerBody::Leased { .. } | AnswerBody::Shard(Ok(_))),
        "{answer:?}"
    );
}

#[test]
fn a_server_started_with_a_newer_map_replays_by_the_one_it_went_by() {
    let dir = TempDir::new().unwrap();
    let old = map(dir.path(), 1, 3_600_000);
    let new = next(dir.path(), &old);
    let server = made(dir.path(), &old, ID);
    let mut client = Connection::client(server.address(), 7);
    for number in 0..20 {
        client.create(&format!("file-{number}")).unwrap();
    }
    server.abandon();
    server.join().unwrap();
    let server = start(dir.path(), &new, ID);
    assert!(server.replayed().records >= 20);
    assert_eq!(epoch(&server), Epoch(2));
    server.abandon();
    server.join().unwrap();
    // Records that were replayed by the old map are in the store, and not replayed by the new one: those that are, each shard has
    // logged at its start.
    let server = start(dir.path(), &new, ID);
    assert!(server.replayed().records <= u64::from(SHARDS));
}

#[test]
fn what_does_not_follow_is_refused() {
    let dir = TempDir::new().unwrap();
    let old = map(dir.path(), 2, 3_600_000);
    let server = made(dir.path(), &old, ID);
    let mut moved = next(dir.path(), &old);
    let of_other = old.shards_of(ServerId(1))[0];
    moved.shards[usize::from(of_other.0)] = ID;
    let mut foreign = next(dir.path(), &old);
    foreign.fs.0 += 1;
    for wrong in [moved, foreign] {
        let reply = take(&server, &wrong);
        assert!(matches!(reply, AdminReply::Failed(_)), "{reply:?}");
    }
    let garbage = AdminRequest::TakeMap("{".to_owned());
    let reply = connect(&server, Peer::Admin).administer(garbage);
    assert!(matches!(reply, AdminReply::Failed(_)), "{reply:?}");
    assert_eq!(epoch(&server), Epoch(1));
}

#[test]
fn a_server_that_was_not_told_finds_the_map_in_its_file() {
    let dir = TempDir::new().unwrap();
    let old = map(dir.path(), 1, 3_600_000);
    let new = next(dir.path(), &old);
    let server = made(dir.path(), &old, ID);
    fs::write(dir.path().join("cluster.json"), new.to_json()).unwrap();
    let mut client = Connection::client(server.address(), 7);
    let answer = getattr(&mut client, Epoch(2));
    assert_eq!(answer, AnswerBody::Shard(Err(Refusal::TryAgain)));
    eventually("the map to be found", || {
        (epoch(&server) == Epoch(2)).then_some(())
    });
}

#[test]
fn a_server_that_was_not_told_finds_the_map_at_another() {
    let dir = TempDir::new().unwrap();
    let old = map(dir.path(), 2, 3_600_000);
    let new = next(dir.path(), &old);
    let first = made(dir.path(), &old, ID);
    let second = made(dir.path(), &old, ServerId(1));
    assert_eq!(take(&second, &new), AdminReply::Done);
    assert_eq!(epoch(&first), Epoch(1));
    // One that the first has not heard of connects to it.
    let joined = Peer::Server { id: ServerId(2) };
    eventually("the map to be found", || {
        let mut link = Connection::silent(first.address());
        link.write_frame(&Hello {
            fs: FS,
            peer: joined,
        });
        (epoch(&first) == Epoch(2)).then_some(())
    });
}
