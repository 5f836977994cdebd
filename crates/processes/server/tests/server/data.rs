//! Data objects and administration over the wire.

use crate::common::link::Shards;
use crate::common::{Connection, FS, ID, Memory, map};
use pandofs_api::{AdminReply, AdminRequest, DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_placement::ClusterMap;
use pandofs_server::limits::MAX_OWED_BYTES;
use pandofs_types::limits::MAX_IO_BYTES;
use pandofs_types::{FsError, Ino, ShardId};
use pandofs_wire::message::{AnswerBody, RequestBody};

const INO: Ino = Ino(0x55);

fn write(offset: u64, data: &[u8]) -> DataRequest {
    DataRequest::Write {
        truncations: FIRST_TRUNCATIONS,
        ino: INO,
        offset,
        data: data.to_vec(),
    }
}

#[test]
fn an_object_is_written_read_cut_and_removed() {
    let memory = Memory::with_map(|dir| map(dir, 2, 3_600_000));
    let server = memory.start();
    let mut shards = Shards::connect(&memory, server.address());
    let mut client = Connection::client(server.address(), 1);
    let read = |length| DataRequest::Read {
        ino: INO,
        offset: 0,
        length,
    };
    assert_eq!(client.data(read(9)), DataReply::Data(Vec::new()));
    assert_eq!(client.data(write(3, b"data")), DataReply::Done);
    assert_eq!(client.data(DataRequest::Sync { ino: INO }), DataReply::Done);
    assert_eq!(
        client.data(read(100)),
        DataReply::Data(b"\0\0\0data".to_vec())
    );
    assert_eq!(
        shards.ask(DataRequest::Truncate {
            truncations: FIRST_TRUNCATIONS + 1,
            ino: INO,
            length: 5
        }),
        DataReply::Done
    );
    assert_eq!(
        client.data(read(100)),
        DataReply::Data(b"\0\0\0da".to_vec())
    );
    let too_much = DataRequest::Read {
        ino: INO,
        offset: 0,
        length: u32::MAX,
    };
    assert_eq!(client.data(too_much), DataReply::Failed(FsError::Invalid));

    let mut admin = Connection::admin(server.address());
    assert_eq!(
        admin.administer(AdminRequest::Objects { after: 0, max: 10 }),
        AdminReply::Objects {
            objects: vec![(INO.0, 5)],
            more: false
        }
    );
    drop(shards);
    server.stop();
    server.join().unwrap();

    let server = memory.start();
    let mut client = Connection::client(server.address(), 2);
    assert_eq!(
        client.data(read(100)),
        DataReply::Data(b"\0\0\0da".to_vec())
    );
    assert_eq!(
        client.data(DataRequest::Remove { ino: INO }),
        DataReply::Failed(FsError::NotPermitted)
    );
    let mut shards = Shards::connect(&memory, server.address());
    assert_eq!(
        shards.ask(DataRequest::Remove { ino: INO }),
        DataReply::Done
    );
    assert_eq!(client.data(read(100)), DataReply::Data(Vec::new()));
    let DataReply::Space { total, inodes, .. } = client.data(DataRequest::Space) else {
        panic!("no space");
    };
    let status = Connection::admin(server.address()).status();
    assert!(total > 0);
    assert_eq!(
        inodes,
        status.shards.iter().map(|shard| shard.inodes).sum::<u64>()
    );
    assert_eq!((status.data_requests, status.data_read), (4, 5));
}

/// A client that sends all its requests before it reads any answer gets all of them, although they are
/// more than the server is ready to hold back.
#[test]
fn a_slow_reader_is_waited_for() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    let reads = 3 * MAX_OWED_BYTES / MAX_IO_BYTES;
    let block: Vec<u8> = (0..MAX_IO_BYTES).map(|at| at as u8).collect();
    assert_eq!(client.data(write(0, &block)), DataReply::Done);
    let length = MAX_IO_BYTES as u32;
    let mut waiting: Vec<_> = (0..reads)
        .map(|_| {
            client.send(RequestBody::Data(DataRequest::Read {
                ino: INO,
                offset: 0,
                length,
            }))
        })
        .collect();
    let mut bystander = Connection::client(server.address(), 2);
    bystander.create("x").unwrap();
    for _ in 0..reads {
        let answer = client.answer();
        let AnswerBody::Data(DataReply::Data(data)) = answer.body else {
            panic!("{:?}", answer.id);
        };
        assert!(data == block);
        waiting.retain(|id| *id != answer.id);
    }
    assert!(waiting.is_empty());
    client.create("y").unwrap();
}

#[test]
fn administrators_see_the_map_and_what_is_stored() {
    let memory = Memory::new();
    let server = memory.start();
    Connection::client(server.address(), 1).create("a").unwrap();
    let mut admin = Connection::admin(server.address());

    let AdminReply::Map(json) = admin.administer(AdminRequest::Map) else {
        panic!("no map")
    };
    assert_eq!(ClusterMap::from_json(&json).unwrap(), memory.map);

    let status = admin.status();
    assert_eq!((status.id, status.fs, status.shards.len()), (ID, FS, 8));
    assert_eq!(
        (status.requests, status.redirected, status.connections),
        (1, 0, 1)
    );
    assert!(status.log_records >= 1 && status.log_batches >= 1);

    let (mut keys, mut after) = (Vec::new(), Vec::new());
    loop {
        let dump = AdminRequest::Dump {
            shard: ShardId(0),
            after,
            max_bytes: 1,
        };
        let AdminReply::Pairs { pairs, more } = admin.administer(dump) else {
            panic!("no pairs");
        };
        keys.extend(pairs.into_iter().map(|(key, _)| key.into_vec()));
        if !more {
            break;
        }
        after = keys.last().unwrap().clone();
    }
    assert!(keys.len() >= 2 && keys.is_sorted());
    assert!(keys.iter().all(|key| key[1..3] == [0, 0]));
    let foreign = AdminRequest::Dump {
        shard: ShardId(800),
        after: Vec::new(),
        max_bytes: 1,
    };
    let reply = admin.administer(foreign);
    assert!(matches!(reply, AdminReply::Failed(_)), "{reply:?}");
}
