//! Files that are held open for a moment: opened at their shard, and released by themselves.

use crate::common::*;
use pandofs_api::{Reply, Request, op};
use pandofs_client::ClientError;
use pandofs_types::limits::MAX_HELD;
use pandofs_types::{FsError, Ino};
use pandofs_wire::message::RequestBody;

const FILE: Ino = Ino(50);
const GONE: Ino = Ino(51);

fn willing(request: &RequestBody) -> Reaction {
    let RequestBody::Shard(asked) = request else {
        return unexpected(request);
    };
    match &asked.request {
        Request::Open(op::Open { ino: GONE, .. }) => refuse(FsError::Stale),
        Request::Open(op::Open { ino, .. }) => ok(Reply::Inode(file(*ino))),
        Request::Release(_) => ok(Reply::Done),
        _ => unexpected(request),
    }
}

/// Opens and releases that the server got.
fn counted(server: &Fake) -> (usize, usize) {
    let (mut opens, mut releases) = (0, 0);
    for asked in server.asked() {
        match asked.request {
            Request::Open(_) => opens += 1,
            Request::Release(op::Release { inos }) => releases += inos.len(),
            _ => {}
        }
    }
    (opens, releases)
}

#[test]
fn what_is_held_is_open_until_it_is_released_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, willing);
    let client = client(&map);

    assert_eq!(client.hold(GONE), Err(ClientError::Fs(FsError::Stale)));
    assert_eq!(client.hold(FILE).unwrap().ino, FILE);
    eventually("it is released", || counted(&server) == (2, 1));
    assert!(!client.is_open(FILE));
}

#[test]
fn no_more_are_held_than_the_limit_says() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, willing);
    let client = client(&map);

    let first = Ino(100);
    let last = Ino(100 + MAX_HELD as u64);
    for ino in first.0..=last.0 {
        client.hold(Ino(ino)).unwrap();
    }
    assert!(!client.is_open(first), "the oldest makes room");
    eventually("all are released", || {
        counted(&server) == (MAX_HELD + 1, MAX_HELD + 1)
    });
}
