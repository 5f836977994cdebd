//! Lost answers, absent servers and refusals that pass: each request is done once.

use crate::common::*;
use pandofs_api::{
    AdminReply, AdminRequest, DataReply, DataRequest, NewNode, Refusal, Reply, Request,
};
use pandofs_client::{Client, ClientError, Options};
use pandofs_placement::{ClusterMap, DirMap, ServerInfo};
use pandofs_types::{Epoch, FileKind, FsError, FsId, Ino, ServerId, ShardId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const NEW: Ino = Ino(77);

#[test]
fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let executed = AtomicUsize::new(0);
    // Executes the first and answers the second: the answer is what the first one's was.
    let server = Fake::start(&map, 0, move |request| match request {
        RequestBody::Shard(asked) if matches!(asked.request, Request::Mkdir(_)) => {
            if executed.fetch_add(1, Ordering::SeqCst) == 0 {
                return Reaction::HangUp;
            }
            ok(entry(dir(NEW, DirMap::single(ShardId(0))), ShardId(0)))
        }
        other => unexpected(other),
    });
    let client = client(&map);
    let node = client.mkdir(&ME, Ino::ROOT, &name("a"), 0o755).unwrap();
    assert_eq!((node.ino, node.kind), (NEW, FileKind::Dir));
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1]);
    let counters = client.counters();
    assert_eq!(
        (counters.requests, counters.resent, counters.connections),
        (2, 1, 2)
    );

    // The next request has another key.
    client.mkdir(&ME, Ino::ROOT, &name("b"), 0o755).unwrap();
    let next = server.asked()[2].key;
    assert_eq!(next.slot, asked[0].key.slot);
    assert!(next.sequence > asked[0].key.sequence);
}

/// The answer to a creation is lost, and before it is asked for again the client learns that the
/// name belongs to another shard now: only the one that was asked knows what came of it.
#[test]
fn a_request_in_doubt_goes_to_the_same_shard_again() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let split = DirMap::with_slots(vec![ShardId(0), ShardId(1)], 2);
    let other_thread: Arc<OnceLock<Client>> = Arc::new(OnceLock::new());
    let in_doubt = AtomicBool::new(false);
    let first = Fake::start(&map, 0, {
        let (split, other_thread) = (split.clone(), Arc::clone(&other_thread));
        move |request| match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::Create(_) if !in_doubt.swap(true, Ordering::SeqCst) => {
                    let found = other_thread
                        .get()
                        .unwrap()
                        .lookup(&ME, Ino::ROOT, &name_in(1));
                    assert_eq!(found, Err(FsError::NotFound.into()));
                    Reaction::HangUp
                }
                Request::Create(_) => ok(entry(file(NEW), ShardId(0))),
                Request::Lookup(_) => refuse(Refusal::Misdirected(Some(split.clone()))),
                _ => unexpected(request),
            },
            other => unexpected(other),
        }
    });
    let second = Fake::start(&map, 1, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Lookup(_) => refuse(FsError::NotFound),
            Request::Create(_) => refuse(FsError::Exists),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let client = client(&map);
    other_thread.set(client.clone()).unwrap();
    let mknod = || client.mknod(&ME, Ino::ROOT, &name_in(1), NewNode::File, 0o644);
    assert_eq!(mknod().unwrap().ino, NEW);
    let creates: Vec<_> = first
        .asked()
        .into_iter()
        .filter(|asked| matches!(asked.request, Request::Create(_)))
        .collect();
    assert_eq!(creates.len(), 2);
    assert_eq!(creates[0], creates[1]);
    assert_eq!(second.asked().len(), 1);

    // New requests go by the map.
    assert_eq!(mknod(), Err(FsError::Exists.into()));
    drop(other_thread);
}

#[test]
fn what_is_to_be_tried_again_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let busy = AtomicUsize::new(5);
    let server = Fake::start(&map, 0, move |request| match request {
        RequestBody::Shard(_) if busy.load(Ordering::SeqCst) > 0 => {
            busy.fetch_sub(1, Ordering::SeqCst);
            refuse(Refusal::TryAgain)
        }
        RequestBody::Shard(_) => ok(Reply::Removed { ino: NEW }),
        other => unexpected(other),
    });
    let client = client(&map);
    assert_eq!(client.unlink(&ME, Ino::ROOT, &name("a")), Ok(NEW));
    let asked = server.asked();
    assert_eq!(asked.len(), 6);
    assert!(asked.iter().all(|again| *again == asked[0]));
    assert_eq!(client.counters().busy, 5);
}

#[test]
fn a_soft_client_tells_what_did_not_happen_from_what_may_have() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    // Server 0 takes requests and answers none; nobody listens at server 1's address.
    let _silent = Fake::start(&map, 0, |_| Reaction::HangUp);
    let client = soft_client(&map, Duration::from_millis(150));
    let on_server_1 = Ino::new(ShardId(1), 9);

    let unlinked = client.unlink(&ME, Ino::ROOT, &name("a"));
    assert!(
        matches!(
            unlinked,
            Err(ClientError::Unknown {
                server: ServerId(0),
                ..
            })
        ),
        "{unlinked:?}"
    );
    let found = client.lookup(&ME, Ino::ROOT, &name("a"));
    assert!(
        matches!(
            found,
            Err(ClientError::Unavailable {
                server: ServerId(0),
                ..
            })
        ),
        "{found:?}"
    );
    let unlinked = client.unlink(&ME, on_server_1, &name("a"));
    assert!(
        matches!(
            unlinked,
            Err(ClientError::Unavailable {
                server: ServerId(1),
                ..
            })
        ),
        "{unlinked:?}"
    );
}

/// The time that it did not answer in counts from the first request on: twice the limit, and not
/// three times.
#[test]
fn a_soft_client_asks_a_server_that_stands_still_twice() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, |_| Reaction::Silence);
    let client = soft_client(&map, Duration::from_millis(150));
    let found = client.lookup(&ME, Ino::ROOT, &name("a"));
    assert!(
        matches!(found, Err(ClientError::Unavailable { .. })),
        "{found:?}"
    );
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_closed_client_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(&map(folder.path(), 1, 1));
    let waiting = std::thread::spawn({
        let client = client.clone();
        move || client.unlink(&ME, Ino::ROOT, &name("a"))
    });
    client.close();
    let unlinked = waiting.join().unwrap();
    assert!(
        matches!(unlinked, Err(ClientError::Unavailable { .. })),
        "{unlinked:?}"
    );
}

/// The map after a server joined, which nobody asks anything here.
fn joined(map: &ClusterMap, folder: &Path) -> ClusterMap {
    let joins = ServerInfo {
        id: ServerId(map.servers.len() as u16),
        addresses: vec![format!("unix:{}/joined", folder.display())],
        weight: ServerInfo::WEIGHT_ONE,
        domain: "joined".to_owned(),
    };
    map.with_servers(vec![joins]).unwrap()
}

/// The client is told by the server and reads its file again.
#[test]
fn a_newer_cluster_map_is_read_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let old = map(folder.path(), 1, 1);
    let path = folder.path().join("cluster.json");
    std::fs::write(&path, old.to_json()).unwrap();
    let server = Fake::start(&old, 0, {
        let (path, new) = (path.clone(), joined(&old, folder.path()).to_json());
        move |request| match request {
            RequestBody::Shard(asked) if asked.epoch < Epoch(2) => {
                std::fs::write(&path, &new).unwrap();
                refuse(Refusal::WrongServer { epoch: Epoch(2) })
            }
            RequestBody::Shard(_) => ok(Reply::Removed { ino: NEW }),
            other => unexpected(other),
        }
    });
    let client = Client::open(&path, Options::default()).unwrap();
    assert_eq!(client.unlink(&ME, Ino::ROOT, &name("a")), Ok(NEW));
    assert_eq!(client.cluster_map().epoch, Epoch(2));
    assert_eq!(server.asked()[1].epoch, Epoch(2));
}

#[test]
fn a_newer_cluster_map_is_fetched_from_the_server_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let old = map(folder.path(), 1, 1);
    let new = joined(&old, folder.path()).to_json();
    let _server = Fake::start(&old, 0, move |request| match request {
        RequestBody::Shard(asked) if asked.epoch < Epoch(2) => {
            refuse(Refusal::WrongServer { epoch: Epoch(2) })
        }
        RequestBody::Shard(_) => ok(Reply::Removed { ino: NEW }),
        RequestBody::Admin(AdminRequest::Map) => {
            Reaction::Answer(AnswerBody::Admin(AdminReply::Map(new.clone())))
        }
        other => unexpected(other),
    });
    let client = client(&old);
    assert_eq!(client.unlink(&ME, Ino::ROOT, &name("a")), Ok(NEW));
    assert_eq!(client.cluster_map().epoch, Epoch(2));
}

#[test]
fn what_no_repetition_mends_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let served = map(folder.path(), 1, 1);
    let _server = Fake::start(&served, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Lookup(_) => refuse(Refusal::StaleSequence),
            Request::Unlink(_) => refuse(Refusal::Malformed("no such thing".into())),
            Request::Rmdir(_) => data(DataReply::Done),
            Request::GetAttr(_) => ok(Reply::Done),
            _ => unexpected(request),
        },
        other => unexpected(other),
    });
    let right = client(&served);
    let protocol = |error: ClientError, part: &str| {
        assert!(matches!(error, ClientError::Protocol(_)), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    protocol(
        right.lookup(&ME, Ino::ROOT, &name("a")).unwrap_err(),
        "later request",
    );
    protocol(
        right.unlink(&ME, Ino::ROOT, &name("a")).unwrap_err(),
        "no such thing",
    );
    protocol(right.rmdir(&ME, Ino::ROOT, &name("a")).unwrap_err(), "Data");
    protocol(
        right.getattr(&ME, Ino::ROOT).unwrap_err(),
        "an answer of the wrong kind",
    );

    let mut other = served.clone();
    other.fs = FsId(8);
    let wrong = client(&other);
    protocol(
        wrong.getattr(&ME, Ino::ROOT).unwrap_err(),
        "belongs to the file system",
    );
}

/// As the protocol of slots demands: one request of a slot at a time, with growing numbers.
#[test]
fn threads_never_share_a_slot() {
    const THREADS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let slots = std::sync::Mutex::new(std::collections::HashMap::new());
    let violations = Arc::new(AtomicUsize::new(0));
    let server = Fake::start(&map, 0, {
        let violations = Arc::clone(&violations);
        move |request| match request {
            RequestBody::Shard(asked) => {
                let (slot, sequence) = (asked.key.slot, asked.key.sequence);
                // The number and whether it is being served.
                if slots
                    .lock()
                    .unwrap()
                    .insert(slot, (sequence, true))
                    .is_some_and(|(before, serving): (u64, bool)| serving || before >= sequence)
                {
                    violations.fetch_add(1, Ordering::SeqCst);
                }
                std::thread::yield_now();
                slots.lock().unwrap().insert(slot, (sequence, false));
                ok(Reply::Removed { ino: NEW })
            }
            other => unexpected(other),
        }
    });
    let client = client(&map);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..200 {
                    client.unlink(&ME, Ino::ROOT, &name("a")).unwrap();
                }
            });
        }
    });
    assert_eq!(violations.load(Ordering::SeqCst), 0);
    assert_eq!(server.asked().len(), THREADS * 200);
    assert!(client.counters().connections <= THREADS as u64);
}

#[test]
fn space_is_summed_over_the_servers_disks() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 3, 4);
    let on = |disk| {
        move |request: &RequestBody| match request {
            RequestBody::Data(DataRequest::Space) => data(DataReply::Space {
                total: 100,
                free: 50,
                available: 40,
                inodes: 3,
                disk,
            }),
            other => unexpected(other),
        }
    };
    // The last two share one.
    let disks = [(0, 5), (1, 6), (2, 6)];
    let _servers = disks.map(|(id, disk)| Fake::start(&map, id, on(disk)));
    let space = client(&map).statfs().unwrap();
    assert_eq!(
        (space.total, space.free, space.available, space.inodes),
        (200, 100, 80, 9)
    );
}
