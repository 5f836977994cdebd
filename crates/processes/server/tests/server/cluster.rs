//! Several servers: operations that touch shards of more than one.

use crate::common::{Connection, Memory, eventually, mkdir};
use pandofs_api::{EntryReply, Reply, Request, op};
use pandofs_placement::ClusterMap;
use pandofs_server::ServerHandle;
use pandofs_types::{Ino, ServerId, ShardId};
use pandofs_wire::message::AnswerBody;
use std::collections::BTreeMap;

const SERVERS: u16 = 3;
/// So many that, with each on a random one of the shards, every server gets some.
const DIRS: usize = 300;

fn entry(body: AnswerBody) -> EntryReply {
    match body {
        AnswerBody::Shard(Ok(Reply::Entry(entry))) => entry,
        other => panic!("{other:?}"),
    }
}

/// A connection to each server, by its number.
fn connect(servers: &[ServerHandle], session: u64) -> Vec<Connection> {
    let connect = |server: &ServerHandle| Connection::client(server.address(), session);
    servers.iter().map(connect).collect()
}

/// Checks that each directory's inode is where its entry says, and gives how many are on each server.
fn check(
    map: &ClusterMap,
    connections: &mut [Connection],
    made: &[EntryReply],
) -> BTreeMap<ServerId, usize> {
    let mut on = BTreeMap::new();
    for (number, entry) in made.iter().enumerate() {
        let server = map.server_of(entry.shard);
        *on.entry(server).or_default() += 1;
        let own = &mut connections[usize::from(server.0)];
        let attr = own.shard(
            entry.shard,
            Request::GetAttr(op::GetAttr { ino: entry.ino }),
        );
        assert!(
            matches!(attr, Ok(Reply::Inode(_))),
            "directory {number}: {attr:?}"
        );
    }
    on
}

fn root_leader(map: &ClusterMap) -> usize {
    usize::from(map.server_of(ShardId(0)).0)
}

#[test]
fn directories_are_made_on_other_servers() {
    let cluster = Memory::cluster(SERVERS);
    let map = &cluster[0].map;
    let servers: Vec<_> = cluster.iter().map(Memory::start).collect();
    let mut connections = connect(&servers, 1);
    let root = root_leader(map);
    let made: Vec<_> = (0..DIRS)
        .map(|number| {
            let request = connections[root].shard_request(ShardId(0), mkdir(&format!("d{number}")));
            entry(connections[root].ask(request))
        })
        .collect();
    let on = check(map, &mut connections, &made);
    assert_eq!(on.len(), usize::from(SERVERS), "{on:?}");

    let mut admin = Connection::admin(servers[root].address());
    let status = eventually("the operations end", || {
        let status = admin.status();
        status
            .shards
            .iter()
            .all(|shard| shard.undecided == 0)
            .then_some(status)
    });
    let elsewhere = DIRS - made.iter().filter(|made| made.shard == ShardId(0)).count();
    assert!(
        status.distributed >= elsewhere as u64 && status.aborted == 0,
        "{status:?}"
    );
    assert!(status.peer_messages > 0 && status.log_syncs > 0);
}

/// A server is killed again and again while directories are made on it. Operations under way go on when
/// it is back, and each request is answered.
#[test]
fn what_is_under_way_when_a_server_dies_goes_on_when_it_is_back() {
    const AT_ONCE: usize = 50;
    let mut cluster = Memory::cluster(SERVERS);
    let map = cluster[0].map.clone();
    let root = root_leader(&map);
    let victim = (root + 1) % usize::from(SERVERS);
    let mut servers: Vec<_> = cluster.iter().map(Memory::start).collect();
    let mut client = Connection::client(servers[root].address(), 1);
    let mut made = Vec::new();
    for round in 0..DIRS / AT_ONCE {
        for number in 0..AT_ONCE {
            let name = format!("d{round}-{number}");
            let request = client.shard_request(ShardId(0), mkdir(&name));
            client.send(request);
        }
        // Half of them, then the kill; the rest may have to wait for its end.
        for _ in 0..AT_ONCE / 2 {
            made.push(entry(client.answer().body));
        }
        let dead = servers.remove(victim);
        dead.abandon();
        dead.join().unwrap();
        cluster[victim].crash();
        servers.insert(victim, cluster[victim].start());
        for _ in AT_ONCE / 2..AT_ONCE {
            made.push(entry(client.answer().body));
        }
    }
    let mut connections = connect(&servers, 2);
    let on = check(&map, &mut connections, &made);
    assert_eq!(on.len(), usize::from(SERVERS), "{on:?}");
    for server in &servers {
        let mut admin = Connection::admin(server.address());
        eventually("the operations end", || {
            admin
                .status()
                .shards
                .iter()
                .all(|shard| shard.undecided == 0)
                .then_some(())
        });
    }
}

/// An inode that a participant made survives its being killed right after the answer: the answer waited
/// for both disks.
#[test]
fn a_distributed_operation_is_durable_when_it_is_answered() {
    let mut cluster = Memory::cluster(2);
    let map = cluster[0].map.clone();
    let servers: Vec<_> = cluster.iter().map(Memory::start).collect();
    let root = root_leader(&map);
    let mut client = Connection::client(servers[root].address(), 1);
    let mut last: Option<EntryReply> = None;
    for number in 0..DIRS {
        let request = client.shard_request(ShardId(0), mkdir(&format!("d{number}")));
        let made = entry(client.ask(request));
        if usize::from(map.server_of(made.shard).0) != root {
            last = Some(made);
            break;
        }
    }
    let made = last.expect("a directory on the other server");
    for server in &servers {
        server.abandon();
    }
    for server in servers {
        server.join().unwrap();
    }
    // A loss of power: nothing that was not synced.
    for memory in &mut cluster {
        memory.store = memory.store.crash(0).into();
        memory.log = memory.log.crash(0, true).into();
    }
    let servers: Vec<_> = cluster.iter().map(Memory::start).collect();
    let mut connections = connect(&servers, 2);
    check(&map, &mut connections, std::slice::from_ref(&made));
    let listing = Request::ReadDir(op::ReadDir {
        dir: Ino::ROOT,
        from: pandofs_types::Position::FIRST,
        plus: false,
        max_entries: 1_024,
        max_bytes: 100_000,
    });
    let Ok(Reply::Entries(listing)) = connections[root].shard(ShardId(0), listing) else {
        panic!("no listing");
    };
    assert!(listing.entries.iter().any(|entry| entry.ino == made.ino));
}
