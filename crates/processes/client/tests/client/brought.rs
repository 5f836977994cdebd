//! Bytes that the opening of a small file brings.

use crate::common::*;
use pandofs_api::{FileBody, InodeReply, Reply, Request, op};
use pandofs_types::{Attr, Ino, LeaseKey, Leased, Time};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const FILE: Ino = Ino(77);

/// The file after so many changes.
fn version(changes: u64) -> InodeReply {
    let text = format!("version {changes}");
    InodeReply {
        attr: Attr {
            size: text.len() as u64,
            ctime: Time(100 + changes as i64),
            ..file(FILE).attr
        },
        body: FileBody::Inline {
            data: text.into_bytes(),
            layout: layout(1),
        },
        ..file(FILE)
    }
}

/// A server of one file, which recalls its attributes when told to.
struct Cluster {
    server: Fake,
    changes: Arc<AtomicU64>,
    recalls: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<Option<u64>>>>,
}

impl Cluster {
    fn start(map: &pandofs_placement::ClusterMap) -> Cluster {
        let changes = Arc::new(AtomicU64::new(0));
        let recalls = Arc::new(AtomicBool::new(false));
        let said = Arc::new(Mutex::new(Vec::new()));
        let server = Fake::start(map, 0, {
            let (changes, recalls, said) = (changes.clone(), recalls.clone(), said.clone());
            move |request| match request {
                RequestBody::Shard(asked) => match &asked.request {
                    Request::Release(_) => ok(Reply::Done),
                    request => {
                        let mut inode = version(changes.load(Ordering::SeqCst));
                        let brings = match request {
                            Request::Open(op::Open { data, .. }) => *data,
                            request => matches!(request, Request::ReadInline(_)),
                        };
                        if let FileBody::Inline { data, .. } = &mut inode.body
                            && !brings
                        {
                            data.clear();
                        }
                        Reaction::Answer(AnswerBody::Leased {
                            result: Ok(Reply::Inode(inode)),
                            leased: vec![Leased::ATTRIBUTES],
                        })
                    }
                },
                RequestBody::AwaitRecalls { done } => {
                    said.lock().unwrap().push(*done);
                    let times = said.lock().unwrap().len() as u64;
                    let keys = match times {
                        1 => vec![],
                        2 => {
                            eventually("a recall", || recalls.load(Ordering::SeqCst));
                            vec![LeaseKey::Inode(FILE)]
                        }
                        _ => {
                            std::thread::sleep(std::time::Duration::from_millis(5));
                            vec![]
                        }
                    };
                    let number = times - 1;
                    Reaction::Answer(AnswerBody::Recalls { number, keys })
                }
                other => unexpected(other),
            }
        });
        Cluster {
            server,
            changes,
            recalls,
            said,
        }
    }

    fn reads(&self) -> usize {
        let asked = self.server.asked().into_iter();
        let reads = asked.filter(|asked| matches!(asked.request, Request::ReadInline(_)));
        reads.count()
    }
}

#[test]
fn what_an_opening_brought_is_read_without_a_server_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let cluster = Cluster::start(&map);
    let client = client(&map);
    client.take_leases(true, |_| ()).unwrap();
    eventually("leases are taken", || {
        cluster.said.lock().unwrap().len() >= 2
    });
    client.open_node(&ME, FILE, 4, false).unwrap();
    assert_eq!(client.read(&ME, FILE, 0, 100).unwrap(), b"version 0");
    assert_eq!(client.read(&ME, FILE, 8, 100).unwrap(), b"0");
    assert_eq!(client.read(&ME, FILE, 9, 100).unwrap(), b"");
    assert_eq!(cluster.reads(), 0);
    cluster.changes.store(1, Ordering::SeqCst);
    cluster.recalls.store(true, Ordering::SeqCst);
    eventually("the lease is given back", || {
        cluster.said.lock().unwrap().contains(&Some(1))
    });
    assert_eq!(client.read(&ME, FILE, 0, 100).unwrap(), b"version 1");
    assert_eq!(cluster.reads(), 1);
    // The bytes brought are older than the attributes leased now.
    assert_eq!(client.read(&ME, FILE, 0, 100).unwrap(), b"version 1");
    assert_eq!(cluster.reads(), 2);
    client.open_node(&ME, FILE, 4, false).unwrap();
    assert_eq!(client.read(&ME, FILE, 0, 100).unwrap(), b"version 1");
    assert_eq!(cluster.reads(), 2);
    client.release(FILE).unwrap();
    client.release(FILE).unwrap();
}

#[test]
fn nothing_is_brought_without_leases_nor_to_who_has_it_or_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let cluster = Cluster::start(&map);
    let client = client(&map);
    client.open_node(&ME, FILE, 4, false).unwrap();
    client.take_leases(true, |_| ()).unwrap();
    eventually("leases are taken", || {
        cluster.said.lock().unwrap().len() >= 2
    });
    client.open_node(&ME, FILE, 6, false).unwrap();
    client.open_again(&ME, FILE, 4, false).unwrap();
    let asked = cluster.server.asked().into_iter();
    let brought =
        asked.filter(|asked| matches!(asked.request, Request::Open(op::Open { data: true, .. })));
    assert_eq!(brought.count(), 0);
    assert_eq!(client.read(&ME, FILE, 0, 100).unwrap(), b"version 0");
    assert_eq!(cluster.reads(), 1);
    for _ in 0..3 {
        client.release(FILE).unwrap();
    }
    cluster.recalls.store(true, Ordering::SeqCst);
}
