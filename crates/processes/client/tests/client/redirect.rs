//! Stale maps and hints are put right by the shards that are asked wrongly.

use crate::common::*;
use pandofs_api::{EntryReply, Refusal, Reply, Request, op};
use pandofs_client::ClientError;
use pandofs_placement::DirMap;
use pandofs_types::{FileKind, FsError, Ino, ShardId};
use pandofs_wire::message::RequestBody;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn split() -> DirMap {
    DirMap::with_slots(vec![ShardId(0), ShardId(1)], 2)
}

/// Answers requests by name to the right shard, and misdirects with `map` otherwise.
fn by_name(request: &RequestBody, map: Option<DirMap>) -> Reaction {
    let RequestBody::Shard(asked) = request else {
        return unexpected(request);
    };
    match &asked.request {
        Request::Lookup(op::Lookup { name, .. })
            if split().shard_of(position(name)) == asked.shard =>
        {
            ok(entry(file(Ino(50)), asked.shard))
        }
        Request::Lookup(_) => refuse(Refusal::Misdirected(map)),
        Request::GetAttr(op::GetAttr { ino }) if asked.shard == ShardId(0) => {
            ok(Reply::Inode(dir(*ino, split())))
        }
        _ => unexpected(request),
    }
}

#[test]
fn a_map_that_comes_with_a_refusal_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let first = Fake::start(&map, 0, |request| by_name(request, Some(split())));
    let second = Fake::start(&map, 1, |request| by_name(request, Some(split())));
    let client = client(&map);
    assert_eq!(
        client.lookup(&ME, Ino::ROOT, &name_in(1)).unwrap().ino,
        Ino(50)
    );
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1));
    assert_eq!(first.asked()[0].key, second.asked()[0].key);
    client.lookup(&ME, Ino::ROOT, &name_in(1)).unwrap();
    client.lookup(&ME, Ino::ROOT, &name_in(0)).unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (2, 2));
    assert_eq!(client.counters().redirects, 1);
}

#[test]
fn without_a_map_the_home_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let first = Fake::start(&map, 0, |request| by_name(request, None));
    let _second = Fake::start(&map, 1, |request| by_name(request, None));
    let client = client(&map);
    assert_eq!(
        client.lookup(&ME, Ino::ROOT, &name_in(1)).unwrap().ino,
        Ino(50)
    );
    let requests: Vec<Request> = first
        .asked()
        .into_iter()
        .map(|asked| asked.request)
        .collect();
    assert_eq!(
        requests,
        [
            Request::Lookup(op::Lookup {
                dir: Ino::ROOT,
                name: name_in(1)
            }),
            Request::GetAttr(op::GetAttr { ino: Ino::ROOT })
        ]
    );
}

#[test]
fn a_directory_that_its_home_does_not_know_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let answers = |request: &RequestBody| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::GetAttr(_) => refuse(FsError::Stale),
            _ => refuse(Refusal::Misdirected(None)),
        },
        other => unexpected(other),
    };
    let _server = Fake::start(&map, 0, answers);
    let client = client(&map);
    let gone = Ino::new(ShardId(0), 9);
    assert_eq!(
        client.lookup(&ME, gone, &name("a")),
        Err(FsError::NotFound.into())
    );
    assert_eq!(
        client.mkdir(&ME, gone, &name("a"), 0o755),
        Err(FsError::NotFound.into())
    );
}

#[test]
fn shards_that_contradict_one_another_end_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    // The home knows of no split, and refuses all the same.
    let refusing = |request: &RequestBody| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::GetAttr(op::GetAttr { ino }) => {
                ok(Reply::Inode(dir(*ino, DirMap::single(ShardId(0)))))
            }
            Request::ReadLink(op::ReadLink { ino }) => refuse(Refusal::Moved {
                ino: *ino,
                shard: ShardId(1 - asked.shard.0),
            }),
            _ => refuse(Refusal::Misdirected(None)),
        },
        other => unexpected(other),
    };
    let _servers = [
        Fake::start(&map, 0, refusing),
        Fake::start(&map, 1, refusing),
    ];
    let client = client(&map);
    let error = client.lookup(&ME, Ino::ROOT, &name("a")).unwrap_err();
    assert!(
        matches!(&error, ClientError::Protocol(text) if text.contains("64 times")),
        "{error}"
    );
    let error = client.readlink(&ME, Ino(9)).unwrap_err();
    assert!(
        matches!(&error, ClientError::Protocol(text) if text.contains("64 times")),
        "{error}"
    );
}

#[test]
fn a_moved_inode_is_followed_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 3, 4);
    let ino = Ino::new(ShardId(0), 9);
    let answers = move |request: &RequestBody| match request {
        RequestBody::Shard(asked) => match (&asked.request, asked.shard.0) {
            (Request::ReadLink(_), 0) => refuse(Refusal::Moved {
                ino,
                shard: ShardId(1),
            }),
            (Request::ReadLink(_), 1) => refuse(Refusal::Moved {
                ino,
                shard: ShardId(2),
            }),
            (Request::ReadLink(_), 2) => ok(Reply::Link(b"target".to_vec())),
            _ => unexpected(request),
        },
        other => unexpected(other),
    };
    let servers = [0, 1, 2].map(|id| Fake::start(&map, id, answers));
    let client = client(&map);
    for _ in 0..2 {
        assert_eq!(client.readlink(&ME, ino).unwrap(), b"target");
    }
    assert_eq!(servers.map(|server| server.asked().len()), [1, 1, 2]);
    assert_eq!(client.counters().redirects, 2);
}

/// The shard of the new name is in the request: it is put right there.
#[test]
fn the_new_name_of_a_rename_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 2);
    let server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Rename(op::Rename {
                new_shard: ShardId(0),
                ..
            }) => refuse(Refusal::NewNameMisdirected(Some(split()))),
            Request::Rename(_) => ok(Reply::Renamed { ino: Ino(50) }),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let client = client(&map);
    let (from, to) = (Ino(9), Ino::ROOT);
    assert_eq!(
        client.rename(&ME, from, &name("a"), to, &name_in(1), true),
        Ok(Ino(50))
    );
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].key, asked[1].key);
    assert_eq!(asked[1].shard, ShardId(0));
    let Request::Rename(op::Rename {
        new_shard,
        no_replace: true,
        ..
    }) = asked[1].request
    else {
        panic!("{:?}", asked[1]);
    };
    assert_eq!(new_shard, ShardId(1));
}

#[test]
fn the_shard_of_a_linked_inode_is_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 2);
    let ino = Ino(60);
    let server = Fake::start(&map, 0, move |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Link(op::Link {
                inode_shard: ShardId(0),
                ..
            }) => refuse(Refusal::Moved {
                ino,
                shard: ShardId(1),
            }),
            Request::Link(_) => ok(Reply::Entry(EntryReply {
                ino,
                kind: FileKind::File,
                shard: ShardId(1),
                inode: Some(file(ino)),
            })),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let client = client(&map);
    assert_eq!(
        client.link(&ME, ino, Ino::ROOT, &name("a")).unwrap().ino,
        ino
    );
    assert_eq!(server.asked().len(), 2);
}

/// An entry is read before its inode, which is elsewhere; in between it was replaced by another
/// file.
#[test]
fn a_name_whose_inode_has_gone_is_looked_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 2);
    let replaced = Arc::new(AtomicBool::new(false));
    let old = Ino::new(ShardId(1), 5);
    let _server = Fake::start(&map, 0, {
        let replaced = Arc::clone(&replaced);
        move |request| match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::Lookup(_) if replaced.load(Ordering::SeqCst) => {
                    ok(entry(file(Ino(50)), ShardId(0)))
                }
                Request::Lookup(_) => ok(Reply::Entry(EntryReply {
                    ino: old,
                    kind: FileKind::File,
                    shard: ShardId(1),
                    inode: None,
                })),
                Request::GetAttr(_) => {
                    replaced.store(true, Ordering::SeqCst);
                    refuse(FsError::Stale)
                }
                _ => unexpected(request),
            },
            other => unexpected(other),
        }
    });
    assert_eq!(
        client(&map).lookup(&ME, Ino::ROOT, &name("a")).unwrap().ino,
        Ino(50)
    );
}
