//! Machines of servers that lose power while clients live on.
//!
//! Changes that were acknowledged and not synced may be gone, and a sync that comes afterwards
//! fails.

use crate::common::*;
use pandofs_api::{DataReply, DataRequest, FileBody, InodeReply, Layout, Reply, Request, op};
use pandofs_client::{Client, ClientError, OpenHow};
use pandofs_placement::DirMap;
use pandofs_types::{FsError, Ino, Leased, ServerId, SetAttr, ShardId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: Ino = Ino(50);
/// The server of the root's and the file's shard.
const SHARD: usize = 0;
/// The server of the file's one data object.
const OBJECT: usize = 1;
const LAYOUT: Layout = Layout {
    unit: 4_096,
    count: 1,
    first: ServerId(OBJECT as u16),
    servers: 3,
};
const LOST: Result<(), ClientError> = Err(ClientError::Fs(FsError::Io));

fn striped() -> InodeReply {
    InodeReply {
        body: FileBody::Striped(LAYOUT),
        ..file(FILE)
    }
}

/// Servers that do what they are asked.
fn willing(request: &RequestBody) -> Reaction {
    let asked = match request {
        RequestBody::Shard(asked) => &asked.request,
        RequestBody::Data(
            DataRequest::Write { .. } | DataRequest::Sync { .. } | DataRequest::Allocate { .. },
        ) => return data(DataReply::Done),
        RequestBody::Data(DataRequest::Read { .. }) => return data(DataReply::Data(Vec::new())),
        other => return unexpected(other),
    };
    match asked {
        Request::Create(_) | Request::Link(_) => ok(entry(striped(), ShardId(0))),
        Request::Rename(_) => ok(Reply::Renamed { ino: FILE }),
        Request::Unlink(_) => ok(Reply::Removed { ino: FILE }),
        Request::GetAttr(op::GetAttr { ino: Ino::ROOT }) => {
            ok(Reply::Inode(dir(Ino::ROOT, DirMap::single(ShardId(0)))))
        }
        Request::GetAttr(_) | Request::SetAttr(_) | Request::Open(_) | Request::WroteData(_) => {
            ok(Reply::Inode(striped()))
        }
        Request::Sync(op::Sync) | Request::Reopen(_) | Request::Release(_) => ok(Reply::Done),
        _ => unexpected(request),
    }
}

struct Bench {
    client: Client,
    servers: Vec<Fake>,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// A client that has opened the file, and changed nothing.
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let map = map(folder.path(), 3, 4);
        let servers = (0..3).map(|id| Fake::start(&map, id, willing)).collect();
        let client = client(&map);
        client.open_node(&ME, FILE, 6, false).unwrap();
        Bench {
            client,
            servers,
            _folder: folder,
        }
    }

    fn write(&self) {
        self.client.write(&ME, FILE, 0, b"pando").unwrap();
    }

    fn sync(&self) -> Result<(), ClientError> {
        self.client.fsync(&ME, FILE)
    }

    fn sync_root(&self) -> Result<(), ClientError> {
        self.client.fsyncdir(&ME, Ino::ROOT)
    }
}

#[test]
fn fsync_fails_once_when_a_machine_has_lost_what_was_written() {
    let bench = Bench::new();
    bench.write();
    bench.servers[OBJECT].restart_machine();
    assert_eq!(bench.sync(), LOST);
    assert_eq!(bench.sync(), Ok(()));
    bench.write();
    assert_eq!(bench.sync(), Ok(()));
    // Synced changes are there.
    bench.servers[OBJECT].restart_machine();
    assert_eq!(bench.sync(), Ok(()));
}

/// As two processes that have it open. Each gets the error, whichever syncs or closes it first and
/// ignores it.
#[test]
fn each_open_file_is_told_once_of_what_was_lost_while_it_was_open() {
    let bench = Bench::new();
    let client = &bench.client;
    for handle in [1, 2] {
        client.open_handle(FILE, handle);
    }
    let sync = |handle| client.fsync_through(&ME, FILE, handle);
    bench.write();
    bench.servers[OBJECT].restart_machine();
    assert_eq!(sync(1), LOST);
    assert_eq!(sync(1), Ok(()));
    // Opened when another one had got the error.
    client.open_handle(FILE, 3);
    assert_eq!(sync(3), Ok(()));
    // Programs that have inherited it close it, and none looks at the result.
    assert_eq!(client.close_descriptor(FILE, 2, 0), LOST);
    assert_eq!(sync(2), LOST);
    assert_eq!(sync(2), Ok(()));
    assert_eq!(client.close_descriptor(FILE, 2, 0), Ok(()));
    assert_eq!(bench.sync(), Ok(()));
}

#[test]
fn a_write_that_was_answered_and_failed_is_told_through_each_open_file() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 3, 4);
    let listened = Arc::new(AtomicUsize::new(0));
    let servers = (0..3).map(|id| {
        let listened = Arc::clone(&listened);
        Fake::start(&map, id, move |request| match request {
            RequestBody::Data(DataRequest::Write { .. }) => {
                data(DataReply::Failed(FsError::NoSpace))
            }
            RequestBody::AwaitRecalls { done: None } => {
                let (number, keys) = (0, Vec::new());
                Reaction::Answer(AnswerBody::Recalls { number, keys })
            }
            RequestBody::AwaitRecalls { .. } => {
                listened.fetch_add(1, Ordering::SeqCst);
                Reaction::Silence
            }
            RequestBody::Shard(asked) if matches!(asked.request, Request::GetAttr(_)) => {
                Reaction::Answer(AnswerBody::Leased {
                    result: Ok(Reply::Inode(striped())),
                    leased: vec![Leased::ATTRIBUTES],
                })
            }
            other => willing(other),
        })
    });
    let _servers: Vec<Fake> = servers.collect();
    let client = client(&map);
    // Without a lease it would not be answered early.
    client.take_leases(true, |_| ()).unwrap();
    eventually("leases are taken", || listened.load(Ordering::SeqCst) == 3);
    client.open_node(&ME, FILE, 6, false).unwrap();
    for handle in [1, 2, 3] {
        client.open_handle(FILE, handle);
    }
    let full = Err(FsError::NoSpace.into());
    let write = |handle| {
        let mut answered = None;
        let answer = |result| answered = Some(result);
        let done = client.write_behind(&ME, FILE, handle, 0, &[7; 40_000], answer);
        (answered.unwrap(), done)
    };
    assert_eq!(write(1), (Ok(()), full.clone()));
    assert_eq!(client.flush_through(FILE, 2), full);
    assert_eq!(client.fsync_through(&ME, FILE, 2), full);
    assert_eq!(client.flush_through(FILE, 2), Ok(()));
    // A look at the size alone reports nothing.
    assert_eq!(client.report_written(FILE), Ok(()));
    assert_eq!(client.fsync_through(&ME, FILE, 1), full);
    // An error not reported through an open file that is closed is gone with it.
    client.unlock_handle(FILE, 3).unwrap();
    client.open_handle(FILE, 3);
    assert_eq!(client.fsync_through(&ME, FILE, 3), Ok(()));
}

#[test]
fn what_a_client_does_in_between_does_not_hide_the_loss() {
    let bench = Bench::new();
    bench.write();
    bench.servers[OBJECT].restart_machine();
    // It has met the server again, and goes on.
    bench.client.read(&ME, FILE, 0, 5).unwrap();
    bench.write();
    assert_eq!(bench.sync(), LOST);
    assert_eq!(bench.sync(), Ok(()));
    // Nor does that it closes the file, and syncs another open of it.
    bench.write();
    bench.client.release(FILE).unwrap();
    bench.servers[OBJECT].restart_machine();
    bench.client.open_node(&ME, FILE, 6, false).unwrap();
    assert_eq!(bench.sync(), LOST);
    assert_eq!(bench.sync(), Ok(()));
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    let bench = Bench::new();
    bench.write();
    for server in &bench.servers {
        server.restart();
    }
    assert_eq!(bench.sync(), Ok(()));
    assert_eq!(bench.sync_root(), Ok(()));
}

#[test]
fn other_machines_do_not_matter() {
    let bench = Bench::new();
    bench.write();
    bench.servers[2].restart_machine();
    assert_eq!(bench.sync(), Ok(()));
    // Nor does a file of which nothing was changed.
    bench.servers[OBJECT].restart_machine();
    bench.servers[SHARD].restart_machine();
    assert_eq!(bench.sync(), Ok(()));
    assert_eq!(bench.sync_root(), Ok(()));
}

#[test]
fn a_size_that_was_reported_may_be_lost_too() {
    let bench = Bench::new();
    bench.write();
    bench.client.flush(FILE).unwrap();
    bench.servers[SHARD].restart_machine();
    assert_eq!(bench.sync(), LOST);
    assert_eq!(bench.sync(), Ok(()));
    // It is reported when it is synced, and there was no such loss since.
    bench.write();
    bench.servers[SHARD].restart_machine();
    assert_eq!(bench.sync(), Ok(()));
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    bench.client.setattr(&ME, FILE, set).unwrap();
    bench.servers[SHARD].restart_machine();
    assert_eq!(bench.sync(), LOST);
    // It was a change of the file, not of the directory.
    assert_eq!(bench.sync_root(), Ok(()));
}

#[test]
fn names_are_told_to_who_syncs_the_directory_and_to_who_syncs_the_file() {
    let bench = Bench::new();
    let create = || {
        let how = OpenHow::default();
        let made = bench
            .client
            .create(&ME, Ino::ROOT, &name("leaf"), 0o644, how);
        made.unwrap();
    };
    let rename = || {
        let (old, new) = (name("leaf"), name("twig"));
        let renamed = bench
            .client
            .rename(&ME, Ino::ROOT, &old, Ino::ROOT, &new, false);
        renamed.unwrap();
    };
    for change in [&create as &dyn Fn(), &rename] {
        change();
        bench.servers[SHARD].restart_machine();
        assert_eq!(bench.sync_root(), LOST);
        assert_eq!(bench.sync_root(), Ok(()));
        assert_eq!(bench.sync(), LOST);
        assert_eq!(bench.sync(), Ok(()));
        // The log has both: a sync of the one is one of the other.
        change();
        assert_eq!(bench.sync(), Ok(()));
        bench.servers[SHARD].restart_machine();
        assert_eq!(bench.sync_root(), Ok(()));
    }
    bench.client.unlink(&ME, Ino::ROOT, &name("leaf")).unwrap();
    bench.servers[SHARD].restart_machine();
    assert_eq!(bench.sync_root(), LOST);
}

#[test]
fn what_was_written_behind_is_lost_like_what_was_waited_for() {
    let bench = Bench::new();
    let large = vec![7; 40_000];
    let answer = |result| assert_eq!(result, Ok(()));
    bench
        .client
        .write_behind(&ME, FILE, 1, 0, &large, answer)
        .unwrap();
    bench.servers[OBJECT].restart_machine();
    assert_eq!(bench.sync(), LOST);
    assert_eq!(bench.sync(), Ok(()));
}
