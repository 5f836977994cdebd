//! What the session has open: told again to a restarted server, released in batches, let go at the
//! end.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pandofs_api::{Refusal, Reply, Request, ShardRequest};
use pandofs_client::{Client, OpenHow};
use pandofs_types::{Ino, Position, ShardId};
use pandofs_wire::message::RequestBody;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Opens of one server's shards, as the server counts them.
type Counts = Arc<Mutex<HashMap<(ShardId, Ino), i64>>>;

fn count(counts: &Counts, asked: &ShardRequest) -> Option<Reaction> {
    let mut counts = counts.lock().unwrap();
    let shard = asked.shard;
    Some(match &asked.request {
        Request::Create {
            open: true, name, ..
        } => {
            let ino = Ino(100 + position(name).0 % 1_000_000);
            *counts.entry((shard, ino)).or_default() += 1;
            ok(entry(file(ino), shard))
        }
        Request::Open { ino, .. } => {
            *counts.entry((shard, *ino)).or_default() += 1;
            ok(Reply::Inode(file(*ino)))
        }
        Request::Release { inos } => {
            for ino in inos {
                *counts.entry((shard, *ino)).or_default() -= 1;
            }
            ok(Reply::Done)
        }
        Request::Reopen { opens } => {
            for (ino, times) in opens {
                if ino.birth_shard() == shard {
                    counts.insert((shard, *ino), i64::from(*times));
                }
            }
            ok(Reply::Done)
        }
        _ => return None,
    })
}

fn counting(counts: &Counts) -> impl Fn(&RequestBody) -> Reaction + Send + Sync + 'static {
    let counts = Arc::clone(counts);
    move |request| match request {
        RequestBody::Shard(asked) => count(&counts, asked).unwrap_or_else(|| match asked.request {
            Request::GetAttr { ino } => ok(Reply::Inode(file(ino))),
            _ => unexpected(request),
        }),
        other => unexpected(other),
    }
}

fn open(client: &Client, ino: u64) {
    client.open_node(&ME, Ino(ino), 4, false).unwrap();
}

fn open_counts(counts: &Counts) -> Vec<(u64, i64)> {
    let counts = counts.lock().unwrap();
    let mut open: Vec<(u64, i64)> = counts
        .iter()
        .filter(|&(_, &times)| times != 0)
        .map(|(&(_, ino), &n)| (ino.0, n))
        .collect();
    open.sort();
    open
}

#[test]
fn closes_are_sent_together() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let counts = Counts::default();
    let server = Fake::start(&map, 0, counting(&counts));
    let client = client(&map);
    for ino in 1..=300 {
        open(&client, ino);
    }
    open(&client, 1);
    for ino in 1..=300 {
        client.release(Ino(ino)).unwrap();
    }
    eventually("all but one are closed", || {
        open_counts(&counts) == [(1, 1)]
    });
    let is_release = |asked: &ShardRequest| matches!(asked.request, Request::Release { .. });
    let messages = server
        .asked()
        .iter()
        .filter(|asked| is_release(asked))
        .count();
    assert!(messages <= 20, "{messages} messages for 300 closes");
}

#[test]
fn a_restarted_server_is_told_first_what_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let servers = [0, 1].map(|id| Fake::start(&map, id, counting(&counts)));
    let client = client(&map);
    let elsewhere = Ino::new(ShardId(1), 4).0;
    for ino in [2, 3, 3, elsewhere] {
        open(&client, ino);
    }
    counts
        .lock()
        .unwrap()
        .retain(|&(shard, _), _| shard != ShardId(0));
    let before = servers[0].asked().len();
    servers[0].restart();

    client.getattr(&ME, Ino(2)).unwrap();
    let after = servers[0].asked().split_off(before);
    let Request::Reopen { opens } = &after[0].request else {
        panic!("{after:?}");
    };
    let mut opens = opens.clone();
    opens.sort();
    // What is elsewhere, too: it may have moved here. The server counts what it has.
    assert_eq!(opens, [(Ino(2), 1), (Ino(3), 2), (Ino(elsewhere), 1)]);
    assert_eq!(open_counts(&counts), [(2, 1), (3, 2), (elsewhere, 1)]);

    for ino in [2, 3, 3, elsewhere] {
        client.release(Ino(ino)).unwrap();
    }
    eventually("all are closed", || open_counts(&counts).is_empty());
    // A second connection to the same process needs no telling.
    servers[0].hang_up();
    let reopens = |server: &Fake| {
        let is_reopen = |asked: &&ShardRequest| matches!(asked.request, Request::Reopen { .. });
        server.asked().iter().filter(is_reopen).count()
    };
    client.getattr(&ME, Ino(2)).unwrap();
    // The other one, too, was told once: when it was first connected to.
    assert_eq!([reopens(&servers[0]), reopens(&servers[1])], [1, 1]);
}

/// While the client has nothing to do, it still notices, and the server learns what is open before
/// somebody removes the file.
#[test]
fn a_create_whose_answer_comes_from_memory_is_registered() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let counts = Counts::default();
    let attempts = Arc::new(AtomicU64::new(0));
    // The first process executes it and dies; the next one knows the answer and nothing of the
    // open.
    let server = Fake::start(&map, 0, {
        let (counts, attempts) = (Arc::clone(&counts), Arc::clone(&attempts));
        move |request| match request {
            RequestBody::Shard(asked) => match (&asked.request, attempts.load(Ordering::SeqCst)) {
                (Request::Create { .. }, 0) => {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    Reaction::HangUp
                }
                (Request::Create { .. }, _) => ok(entry(file(Ino(50)), ShardId(0))),
                _ => count(&counts, asked).unwrap_or_else(|| unexpected(request)),
            },
            other => unexpected(other),
        }
    });
    let client = client(&map);
    let how = OpenHow {
        access: 6,
        exclusive: true,
        truncate: false,
    };
    let found = client
        .create(&ME, Ino::ROOT, &name("a"), 0o644, how)
        .unwrap();
    assert_eq!(found.node.ino, Ino(50));
    assert_eq!(open_counts(&counts), [(50, 1)]);
    let last = server.asked().pop().unwrap();
    assert_eq!(
        last.request,
        Request::Reopen {
            opens: vec![(Ino(50), 1)]
        }
    );
}

#[test]
fn a_close_follows_an_inode_that_moved() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let moved = Ino(7);
    let answers = |shard| {
        let counts = Arc::clone(&counts);
        move |request: &RequestBody| match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::Release { inos } if shard == 0 && inos.contains(&moved) => {
                    refuse(Refusal::Moved {
                        ino: moved,
                        shard: ShardId(1),
                    })
                }
                _ => count(&counts, asked).unwrap_or_else(|| unexpected(request)),
            },
            other => unexpected(other),
        }
    };
    let _servers = [
        Fake::start(&map, 0, answers(0)),
        Fake::start(&map, 1, answers(1)),
    ];
    let client = client(&map);
    for ino in [6, moved.0, 8] {
        open(&client, ino);
    }
    // The other server knows the session from another file; the moved one's open went along.
    open(&client, Ino::new(ShardId(1), 4).0);
    let opened = counts.lock().unwrap().remove(&(ShardId(0), moved)).unwrap();
    counts.lock().unwrap().insert((ShardId(1), moved), opened);
    for ino in [6, moved.0, 8, Ino::new(ShardId(1), 4).0] {
        client.release(Ino(ino)).unwrap();
    }
    eventually("all are closed", || open_counts(&counts).is_empty());
}

#[test]
fn the_session_ends_with_its_last_client() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let servers = [0, 1].map(|id| Fake::start(&map, id, counting(&counts)));
    let client = client(&map);
    open(&client, 2);
    let session = servers[0].asked()[0].key.session;
    let other = client.clone();
    drop(client);
    open(&other, 3);
    drop(other);
    // Nothing was said to the other server, so there is nothing to end.
    assert_eq!(
        servers[0].seen().last(),
        Some(&RequestBody::Goodbye { session })
    );
    assert_eq!(servers[1].seen(), []);
}

#[test]
fn an_existing_file_is_opened_unless_it_must_be_new() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let there = Ino(50);
    let server = Fake::start(&map, 0, move |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Create { .. } => refuse(pandofs_types::FsError::Exists),
            Request::Lookup { .. } => ok(entry(file(there), ShardId(0))),
            Request::Open { .. } => ok(Reply::Inode(file(there))),
            Request::Release { .. } => ok(Reply::Done),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let client = client(&map);
    let create = |how| client.create(&ME, Ino::ROOT, &name("a"), 0o644, how);
    let exclusive = OpenHow {
        access: 6,
        exclusive: true,
        truncate: false,
    };
    assert_eq!(
        create(exclusive),
        Err(pandofs_types::FsError::Exists.into())
    );
    let found = create(OpenHow {
        access: 6,
        exclusive: false,
        truncate: true,
    })
    .unwrap();
    assert_eq!((found.node.ino, found.created), (there, false));
    let last = server.asked().pop().unwrap();
    assert_eq!(
        last.request,
        Request::Open {
            ino: there,
            access: 6,
            truncate: true
        }
    );
    assert!(position(&name("a")) >= Position::FIRST);
    client.release(there).unwrap();
}
