//! Recalls of leases, and writes that are under way.

use crate::common::*;
use pandofs_api::{DataReply, DataRequest, FileBody, InodeReply, Reply, Request};
use pandofs_types::{Attr, Ino, LeaseKey, Leased};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const FILE: Ino = Ino(77);
const OTHER: Ino = Ino(78);

fn striped() -> InodeReply {
    InodeReply {
        attr: Attr {
            size: 20_000,
            ..file(FILE).attr
        },
        body: FileBody::Striped(layout(1)),
        ..file(FILE)
    }
}

fn leased(inode: InodeReply) -> Reaction {
    Reaction::Answer(AnswerBody::Leased {
        result: Ok(Reply::Inode(inode)),
        leased: vec![Leased::ATTRIBUTES],
    })
}

fn recalls(number: u64, keys: &[LeaseKey]) -> Reaction {
    let keys = keys.to_vec();
    Reaction::Answer(AnswerBody::Recalls { number, keys })
}

/// A file is being written to when its lease is recalled, and then that of another one.
#[test]
fn a_recall_that_waits_for_a_write_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let writes = Arc::new(AtomicBool::new(false));
    let may_end = Arc::new(AtomicBool::new(false));
    let said = Arc::new(Mutex::new(Vec::new()));
    let server = Fake::start(&map, 0, {
        let (writes, may_end, said) = (writes.clone(), may_end.clone(), said.clone());
        move |request| match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::Release(_) => ok(Reply::Done),
                _ => leased(striped()),
            },
            RequestBody::Data(DataRequest::Write { .. }) => {
                writes.store(true, Ordering::SeqCst);
                eventually("the write may end", || may_end.load(Ordering::SeqCst));
                data(DataReply::Done)
            }
            RequestBody::AwaitRecalls { done } => {
                said.lock().unwrap().push(*done);
                let times = said.lock().unwrap().len();
                match times {
                    1 => recalls(0, &[]),
                    2 => {
                        eventually("a write is under way", || writes.load(Ordering::SeqCst));
                        recalls(1, &[LeaseKey::Inode(FILE)])
                    }
                    3 => recalls(2, &[LeaseKey::Inode(OTHER)]),
                    // As after a while without any.
                    _ => {
                        may_end.store(true, Ordering::SeqCst);
                        recalls(times as u64 - 1, &[])
                    }
                }
            }
            other => unexpected(other),
        }
    });
    let client = client(&map);
    client.take_leases(true, |_| ()).unwrap();
    eventually("leases are taken", || said.lock().unwrap().len() >= 2);
    client.open_node(&ME, FILE, 2, false).unwrap();
    // Answered before the server has it.
    let large = vec![7; 40_000];
    let answer = |result| assert_eq!(result, Ok(()));
    client
        .write_behind(&ME, FILE, 0, 0, &large, answer)
        .unwrap();
    eventually("what was recalled first is let go of", || {
        said.lock().unwrap().contains(&Some(1))
    });
    client.release(FILE).unwrap();
    drop(client);
    drop(server);
    // Not of the first, then of the second.
    let said = said.lock().unwrap();
    assert_eq!(said[..4], [None, Some(0), Some(0), Some(2)]);
}
