//! Files that are kept inline: their bytes are beside their inodes, and go where these go.

use crate::support::{Cluster, create_file, name, receiver, sent};
use pandofs_api::{
    Allocation, DataReply, DataRequest, FileBody, Layout, LayoutChoice, Refusal, Reply, Request, op,
};
use pandofs_namespace::keys;
use pandofs_namespace::records::{InodeRecord, decode};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{DEFAULT_INLINE_BYTES, SESSION_TIMEOUT};
use pandofs_types::{Ino, SetAttr, ShardId};
use std::ops::ControlFlow;

const KEPT: usize = DEFAULT_INLINE_BYTES as usize;

fn write(ino: Ino, offset: u64, data: &[u8]) -> Request {
    Request::WriteInline(op::WriteInline {
        ino,
        offset,
        data: data.to_vec(),
    })
}

fn write_new(ino: Ino, data: &[u8]) -> Request {
    let data = data.to_vec();
    Request::WriteNew(op::WriteNew { ino, data })
}

fn append(ino: Ino, data: &[u8]) -> Request {
    let data = data.to_vec();
    Request::AppendInline(op::AppendInline { ino, data })
}

fn set(ino: Ino, set: SetAttr) -> Request {
    Request::SetAttr(op::SetAttr { ino, set })
}

fn cut(ino: Ino, size: u64) -> Request {
    let size = Some(size);
    let all = SetAttr::default();
    set(ino, SetAttr { size, ..all })
}

fn allocate(ino: Ino, offset: u64, length: u64, allocation: Allocation) -> Request {
    Request::Allocate(op::Allocate {
        ino,
        offset,
        length,
        allocation,
    })
}

/// Bytes that a file holds inline, and its size.
fn read(cluster: &mut Cluster, shard: u16, ino: Ino) -> (Vec<u8>, u64) {
    match cluster.call(shard, Request::ReadInline(op::ReadInline { ino })) {
        Ok(Reply::Inode(inode)) => match inode.body {
            FileBody::Inline { data, .. } => (data, inode.attr.size),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Bytes that the opening of a file brings.
fn brought(cluster: &mut Cluster, ino: Ino, data: bool) -> Vec<u8> {
    let open = Request::Open(op::Open {
        ino,
        access: 4,
        truncate: false,
        data,
    });
    match cluster.call(0, open) {
        Ok(Reply::Inode(inode)) => match inode.body {
            FileBody::Inline { data, .. } => data,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn value(cluster: &Cluster, shard: u16, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let store = &cluster.nodes[usize::from(shard)].store;
    pandofs_storage::store::KvRead::scan(store, key, &keys::after(key), &mut |_, value| {
        found = Some(value.to_vec());
        ControlFlow::Break(())
    })
    .unwrap();
    found
}

/// The bytes beside an inode, which says how many they are.
fn beside(cluster: &Cluster, shard: u16, ino: Ino) -> Option<Vec<u8>> {
    let at = ShardId(shard);
    let data = value(cluster, shard, &keys::data(at, ino));
    let inode = value(cluster, shard, &keys::inode(at, ino));
    let inode: Option<InodeRecord> = inode.map(|bytes| decode("inode", &bytes).unwrap());
    let held = inode.map_or(0, |inode| inode.held());
    assert_eq!(held as usize, data.as_ref().map_or(0, Vec::len));
    data
}

fn is_replayed(cluster: &Cluster, shard: u16) {
    let [stored, replayed] = cluster.stored_and_replayed(shard);
    assert_eq!(stored, replayed);
}

#[test]
fn each_operation_leaves_the_bytes_that_it_is_to_leave() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let ino = cluster.file("file");
    assert_eq!(beside(&cluster, 0, ino), None);
    let mode = Some(0o600);
    let chmod = set(
        ino,
        SetAttr {
            mode,
            ..SetAttr::default()
        },
    );
    let keeps = Allocation::Reserve { keep_size: true };
    let zeroes = Allocation::Zero { keep_size: false };
    let open = Request::Open(op::Open {
        ino,
        access: 6,
        truncate: true,
        data: false,
    });
    let steps: [(Request, &[u8], u64); 16] = [
        (write(ino, 0, b"first"), b"first", 5),
        (write(ino, 2, b"RS"), b"fiRSt", 5),
        (write(ino, 6, b"more"), b"fiRSt\0more", 10),
        (append(ino, b"!"), b"fiRSt\0more!", 11),
        (chmod, b"fiRSt\0more!", 11),
        (cut(ino, 7), b"fiRSt\0m", 7),
        (cut(ino, 9), b"fiRSt\0m", 9),
        (append(ino, b"x"), b"fiRSt\0m\0\0x", 10),
        (
            allocate(ino, 1, 2, Allocation::Punch),
            b"f\0\0St\0m\0\0x",
            10,
        ),
        (allocate(ino, 4, 100, Allocation::Punch), b"f\0\0S", 10),
        (allocate(ino, 0, 6, keeps), b"f\0\0S\0\0", 10),
        (allocate(ino, 0, 12, zeroes), &[0; 12], 12),
        (write(ino, 0, &[9; 20]), &[9; 20], 20),
        (open, b"", 0),
        (write_new(ino, b"anew"), b"anew", 4),
        (cut(ino, 0), b"", 0),
    ];
    for (request, kept, size) in steps {
        let done = cluster.call(0, request.clone());
        assert!(done.is_ok(), "{request:?}: {done:?}");
        let found = read(&mut cluster, 0, ino);
        assert_eq!(found, (kept.to_vec(), size), "{request:?}");
        assert_eq!(brought(&mut cluster, ino, true), kept, "{request:?}");
        assert_eq!(brought(&mut cluster, ino, false), b"", "{request:?}");
        let stored = beside(&cluster, 0, ino);
        assert_eq!(stored.unwrap_or_default(), kept, "{request:?}");
    }
    cluster.call(0, write(ino, 0, b"last")).unwrap();
    cluster.restart(0);
    assert_eq!(read(&mut cluster, 0, ino).0, b"last");
    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name("file"),
    });
    cluster.call(0, unlink).unwrap();
    // It may have been open before the restart.
    cluster.pass(SESSION_TIMEOUT);
    assert_eq!(value(&cluster, 0, &keys::inode(ShardId(0), ino)), None);
    assert_eq!(beside(&cluster, 0, ino), None);
    is_replayed(&cluster, 0);
}

/// A file with a stripe unit of its own, of an empty file system that keeps so much inline.
fn file_with(inline_bytes: u32, unit: u32) -> (Cluster, Ino) {
    let settings = Settings {
        inline_bytes,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(1, DirPolicy::Random, settings);
    let ino = cluster.file("file");
    let layout = LayoutChoice {
        unit: Some(unit),
        ..LayoutChoice::default()
    };
    let layout = Request::SetLayout(op::SetLayout { ino, layout });
    cluster.call(0, layout).unwrap();
    (cluster, ino)
}

#[test]
fn as_much_is_kept_as_was_set_and_no_more_than_a_stripe_unit() {
    for (inline_bytes, unit, limit) in [
        (0, 4_096, 0),
        (5_000, 8_192, 5_000),
        (16_384, 4_096, 4_096),
        (65_536, 1 << 20, 65_536),
    ] {
        let (mut cluster, ino) = file_with(inline_bytes, unit);
        let too_much = vec![7; limit + 1];
        let refused = cluster.call(0, write(ino, 0, &too_much));
        let is_refused = matches!(refused, Err(Refusal::NotInline { striped: false, .. }));
        assert!(is_refused, "{refused:?}");
        let all = vec![7; limit];
        cluster.call(0, write(ino, 0, &all)).unwrap();
        assert_eq!(read(&mut cluster, 0, ino), (all, limit as u64));
        let refused = cluster.call(0, append(ino, b"x"));
        let is_refused = matches!(refused, Err(Refusal::NotInline { striped: false, .. }));
        assert!(is_refused, "{refused:?}");
        let reserve = allocate(
            ino,
            0,
            limit as u64 + 1,
            Allocation::Reserve { keep_size: false },
        );
        let refused = cluster.call(0, reserve);
        let is_refused = matches!(refused, Err(Refusal::NotInline { striped: false, .. }));
        assert!(is_refused, "{refused:?}");
    }
}

/// The one request for data of these outputs: the bytes of a `Fill`.
fn filled(outputs: &[Output]) -> (Input, Vec<u8>) {
    let [
        Output::Data {
            ticket,
            request: DataRequest::Fill { data, .. },
            ..
        },
    ] = outputs
    else {
        panic!("{outputs:?}");
    };
    let reply = DataReply::Done;
    let done = Input::DataDone {
        ticket: *ticket,
        reply,
    };
    (done, data.clone())
}

#[test]
fn contents_of_a_new_file_stay_beside_its_inode_or_go_to_a_data_object() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let (small, large) = (cluster.file("small"), cluster.file("large"));
    let all = vec![5; KEPT];
    // It is answered at once, and nothing is left to be done.
    cluster.call(0, write_new(small, &all)).unwrap();
    assert_eq!(cluster.nodes[0].shard.status().reclaiming, 0);
    assert_eq!(beside(&cluster, 0, small), Some(all));

    let more = vec![5; KEPT + 1];
    let request = cluster.request(0, write_new(large, &more));
    let (done, data) = filled(&cluster.input(0, request).outputs);
    assert_eq!(data, more);
    assert_eq!(beside(&cluster, 0, large), None);
    let outputs = cluster.input(0, done).outputs;
    let [Output::Answer { result: Ok(_), .. }] = outputs[..] else {
        panic!("{outputs:?}");
    };
    is_replayed(&cluster, 0);
}

#[test]
fn what_outgrows_its_inode_is_in_one_place_also_after_a_crash() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let ino = cluster.file("file");
    cluster.call(0, write(ino, 0, b"sap")).unwrap();
    cluster.call(0, cut(ino, 10)).unwrap();
    let request = cluster.request(0, Request::Stripe(op::Stripe { ino }));
    let (_, data) = filled(&cluster.input(0, request).outputs);
    assert_eq!(data, b"sap");
    assert_eq!(beside(&cluster, 0, ino), None);
    let (done, data) = filled(&cluster.restart(0).outputs);
    assert_eq!(data, b"sap");
    cluster.input(0, done);
    match cluster.call(0, Request::ReadInline(op::ReadInline { ino })) {
        Ok(Reply::Inode(inode)) => {
            assert!(matches!(inode.body, FileBody::Sparse(Layout { .. })));
            assert_eq!(inode.attr.size, 10);
        }
        other => panic!("{other:?}"),
    }
    is_replayed(&cluster, 0);
}

/// The contents of a file of this name.
fn contents(text: &str) -> Vec<u8> {
    text.as_bytes().iter().copied().cycle().take(KEPT).collect()
}

#[test]
fn bytes_go_along_when_a_directory_splits_wherever_a_shard_crashes() {
    let mut moved = 0;
    for crashed in 0..2 {
        for at in 0..8 {
            let settings = Settings {
                split_threshold: 8,
                max_partitions: Some(2),
                ..Settings::default()
            };
            let mut cluster = Cluster::new(2, DirPolicy::Subtree, settings);
            let mut files = Vec::new();
            for number in 0..8 {
                let text = format!("file{number}");
                let ino = cluster.file(&text);
                cluster.call(0, write(ino, 0, &contents(&text))).unwrap();
                files.push((text, ino));
            }
            let request = cluster.request(0, create_file(Ino::ROOT, name("one more")));
            let mut outputs = cluster.input(0, request).outputs;
            for _ in 0..at {
                let Some(message) = sent(&outputs).into_iter().next() else {
                    break;
                };
                let to = receiver(&message);
                outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            }
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            cluster.pass(SESSION_TIMEOUT);
            let mut map = DirMap::single(ShardId(0));
            for (text, ino) in &files {
                let lookup = Request::Lookup(op::Lookup {
                    dir: Ino::ROOT,
                    name: name(text),
                });
                let (found, _) = cluster.call_by_name(&mut map, &name(text), &lookup);
                let Ok(Reply::Entry(entry)) = found else {
                    panic!("{found:?}");
                };
                let shard = entry.shard.0;
                moved += u64::from(shard);
                assert_eq!(read(&mut cluster, shard, *ino).0, contents(text));
                assert_eq!(beside(&cluster, shard, *ino), Some(contents(text)));
                assert_eq!(
                    value(&cluster, 1 - shard, &keys::data(ShardId(1 - shard), *ino)),
                    None
                );
            }
            is_replayed(&cluster, 0);
            is_replayed(&cluster, 1);
        }
    }
    assert!(moved > 0, "nothing moves");
}
