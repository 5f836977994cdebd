//! Open files of the session: registered again, released in batches, let go at the end.

use crate::common::*;
use pandofs_api::{DataReply, DataRequest, FileBody, Layout, op};
use pandofs_api::{Reply, Request, ShardRequest};
use pandofs_client::{Client, ClientError, OpenHow};
use pandofs_types::{FsError, Ino, Position, ServerId, ShardId};
use pandofs_wire::message::RequestBody;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Opens of one server's shards, as the server counts them.
type Counts = Arc<Mutex<HashMap<(ShardId, Ino), i64>>>;

fn count(counts: &Counts, asked: &ShardRequest) -> Option<Reaction> {
    let mut counts = counts.lock().unwrap();
    let shard = asked.shard;
    Some(match &asked.request {
        Request::Create(op::Create {
            open: true, name, ..
        }) => {
            let ino = Ino(100 + position(name).0 % 1_000_000);
            *counts.entry((shard, ino)).or_default() += 1;
            ok(entry(file(ino), shard))
        }
        Request::Open(op::Open { ino, .. }) => {
            *counts.entry((shard, *ino)).or_default() += 1;
            ok(Reply::Inode(file(*ino)))
        }
        Request::Release(op::Release { inos }) => {
            for ino in inos {
                *counts.entry((shard, *ino)).or_default() -= 1;
            }
            ok(Reply::Done)
        }
        Request::Reopen(op::Reopen { opens }) => {
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
            Request::GetAttr(op::GetAttr { ino }) => ok(Reply::Inode(file(ino))),
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
    let is_release = |asked: &ShardRequest| matches!(asked.request, Request::Release(_));
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
    let Request::Reopen(op::Reopen { opens }) = &after[0].request else {
        panic!("{after:?}");
    };
    let mut opens = opens.clone();
    opens.sort();
    // Files elsewhere, too: they may have moved here. The server counts those that it has.
    assert_eq!(opens, [(Ino(2), 1), (Ino(3), 2), (Ino(elsewhere), 1)]);
    assert_eq!(open_counts(&counts), [(2, 1), (3, 2), (elsewhere, 1)]);

    for ino in [2, 3, 3, elsewhere] {
        client.release(Ino(ino)).unwrap();
    }
    eventually("all are closed", || open_counts(&counts).is_empty());
    // A second connection to the same process needs no telling.
    servers[0].hang_up();
    client.getattr(&ME, Ino(2)).unwrap();
    // The other one, too, was told once: when it was first connected to.
    let times = servers.each_ref().map(|server| reopens(server).len());
    assert_eq!(times, [1, 1]);
}

fn reopens(server: &Fake) -> Vec<Vec<(Ino, u32)>> {
    let opens = server.asked().into_iter().filter_map(|asked| {
        let Request::Reopen(op::Reopen { mut opens }) = asked.request else {
            return None;
        };
        opens.sort();
        Some(opens)
    });
    opens.collect()
}

/// While the client has nothing to do, it still notices, and the server learns what is open before
/// somebody removes the file.
#[test]
fn an_idle_client_notices_that_a_server_has_let_go_of_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let counts = Counts::default();
    let server = Fake::start(&map, 0, counting(&counts));
    let client = client(&map);
    open(&client, 2);
    counts.lock().unwrap().clear();
    server.expire();
    eventually("it is told what is open", || {
        open_counts(&counts) == [(2, 1)]
    });
    drop(client);
}

/// A mount is stopped for longer than servers wait. Whichever thread comes to a server first, tells
/// it first: not only the one that looks after silent servers, which has come to another one.
#[test]
fn each_server_that_has_let_go_of_the_session_is_told_before_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let servers = [0, 1].map(|id| Fake::start(&map, id, counting(&counts)));
    let client = client(&map);
    let there = [2, Ino::new(ShardId(1), 4).0];
    for ino in there {
        open(&client, ino);
    }
    let before = servers.each_ref().map(|server| server.asked().len());
    for server in &servers {
        server.expire();
    }
    counts.lock().unwrap().clear();
    let all = [(Ino(there[0]), 1), (Ino(there[1]), 1)];
    for place in [0, 1] {
        client.getattr(&ME, Ino(there[place])).unwrap();
        let after = servers[place].asked().split_off(before[place]);
        let told = |asked: &ShardRequest| matches!(asked.request, Request::Reopen(_));
        assert!(told(&after[0]), "server {place} was asked first: {after:?}");
        assert_eq!(reopens(&servers[place]).pop().unwrap(), all);
    }
    // One that knows the session still is not told again, however the connection was lost.
    let times = reopens(&servers[0]).len();
    servers[0].hang_up();
    client.getattr(&ME, Ino(there[0])).unwrap();
    assert_eq!(reopens(&servers[0]).len(), times);
}

const GONE: Ino = Ino(2);

/// A file in data objects on server 1, of which server 0 has the inode until `is_gone`.
fn removable(
    counts: &Counts,
    is_gone: &Arc<AtomicBool>,
    objects: &Arc<AtomicU64>,
) -> impl Fn(&RequestBody) -> Reaction + Send + Sync + 'static {
    let (counts, is_gone, objects) = (counts.clone(), is_gone.clone(), objects.clone());
    let striped = || {
        let layout = Layout {
            first: ServerId(1),
            servers: 2,
            ..layout(1)
        };
        let mut inode = file(GONE);
        inode.attr.size = 8;
        inode.body = FileBody::Striped(layout);
        ok(Reply::Inode(inode))
    };
    move |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Reopen(_) => ok(Reply::Done),
            Request::Release(_) => ok(Reply::Done),
            _ if is_gone.load(Ordering::SeqCst) => refuse(FsError::Stale),
            Request::Open(_) | Request::GetAttr(_) => striped(),
            Request::WroteData(_) => striped(),
            _ => count(&counts, asked).unwrap_or_else(|| unexpected(request)),
        },
        // As it is when somebody has written to an object that had been removed: nothing but zeros
        // before that.
        RequestBody::Data(DataRequest::Read { length, .. }) => {
            let byte = u8::from(!is_gone.load(Ordering::SeqCst));
            data(DataReply::Data(vec![byte; *length as usize]))
        }
        RequestBody::Data(DataRequest::Write { .. }) => {
            objects.fetch_add(1, Ordering::SeqCst);
            data(DataReply::Done)
        }
        other => unexpected(other),
    }
}

/// Neither zeros nor success, but an error, from then on, of all that goes to the file.
#[test]
fn what_was_removed_when_servers_had_let_go_of_it_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let (is_gone, writes) = (Arc::default(), Arc::default());
    let servers = [0, 1].map(|id| Fake::start(&map, id, removable(&counts, &is_gone, &writes)));
    let open = || {
        let client = client(&map);
        client.open_node(&ME, GONE, 6, false).unwrap();
        assert_eq!(client.read(&ME, GONE, 0, 8), Ok(vec![1; 8]));
        client.write(&ME, GONE, 0, &[1; 8]).unwrap();
        client.flush(GONE).unwrap();
        client
    };
    let stale = Err(FsError::Stale.into());
    type Use = fn(&Client) -> Result<(), ClientError>;
    let uses: [Use; 4] = [
        |client| client.read(&ME, GONE, 0, 8).map(drop),
        |client| client.write(&ME, GONE, 0, &[2; 8]),
        |client| client.fsync(&ME, GONE),
        |client| {
            let mut answered = Ok(());
            let result = client.write_behind(&ME, GONE, 1, 0, &[2; 8], |answer| answered = answer);
            answered.and(result)
        },
    ];
    for first in uses {
        is_gone.store(false, Ordering::SeqCst);
        let client = open();
        is_gone.store(true, Ordering::SeqCst);
        for server in &servers {
            server.expire();
        }
        assert_eq!(first(&client), stale);
        let before = writes.load(Ordering::SeqCst);
        for later in uses {
            assert_eq!(later(&client), stale);
        }
        assert_eq!(client.flush(GONE), stale);
        assert_eq!(writes.load(Ordering::SeqCst), before, "it was written on");
    }
}

/// One server alone has let go of it, and the file was not removed: all goes on.
#[test]
fn what_is_there_still_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let counts = Counts::default();
    let (is_gone, writes) = (Arc::default(), Arc::default());
    let servers = [0, 1].map(|id| Fake::start(&map, id, removable(&counts, &is_gone, &writes)));
    let client = client(&map);
    client.open_node(&ME, GONE, 6, false).unwrap();
    for server in &servers {
        server.expire();
        assert_eq!(client.read(&ME, GONE, 0, 8), Ok(vec![1; 8]));
        client.write(&ME, GONE, 0, &[1; 8]).unwrap();
        client.flush(GONE).unwrap();
    }
}

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
                (Request::Create(_), 0) => {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    Reaction::HangUp
                }
                (Request::Create(_), _) => ok(entry(file(Ino(50)), ShardId(0))),
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
        Request::Reopen(op::Reopen {
            opens: vec![(Ino(50), 1)]
        })
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
                Request::Release(op::Release { inos }) if shard == 0 && inos.contains(&moved) => {
                    let here = inos.iter().copied().filter(|&ino| ino != moved);
                    let mut counted = asked.clone();
                    counted.request = Request::Release(op::Release {
                        inos: here.collect(),
                    });
                    count(&counts, &counted);
                    ok(Reply::NotClosed(vec![(moved, ShardId(1))]))
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
            Request::Create(_) => refuse(pandofs_types::FsError::Exists),
            Request::Lookup(_) => ok(entry(file(there), ShardId(0))),
            Request::Open(_) => ok(Reply::Inode(file(there))),
            Request::Release(_) => ok(Reply::Done),
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
        Request::Open(op::Open {
            ino: there,
            access: 6,
            truncate: true,
            data: false,
        })
    );
    assert!(position(&name("a")) >= Position::FIRST);
    client.release(there).unwrap();
}
