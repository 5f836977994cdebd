//! Files that are truncated while this client changes their data objects.

use crate::common::*;
use pandofs_api::{
    DataReply, DataRequest, FIRST_TRUNCATIONS, FileBody, InodeReply, Layout, Reply, Request, op,
};
use pandofs_client::{Client, ClientError, OpenHow};
use pandofs_types::{FsError, Ino, ServerId, ShardId};
use pandofs_wire::hello::Peer;
use pandofs_wire::message::RequestBody;
use std::sync::{Arc, Mutex, MutexGuard};

const FILE: Ino = Ino(50);
const UNIT: u64 = 4_096;
/// Two data objects, on servers 1 and 2.
const LAYOUT: Layout = Layout {
    unit: UNIT as u32,
    count: 2,
    first: ServerId(1),
    servers: 3,
};

/// A striped file, as its shard and its data objects have it.
#[derive(Default)]
struct Stored {
    size: u64,
    truncations: u32,
    /// The truncations that each object has followed; it follows the inode when the shard is asked for
    /// them, unless it forgets.
    followed: [u32; 2],
    forgets: bool,
    /// Cuts the file and the second object right before the next write to it.
    truncated_before_write: bool,
    /// The connection ends in place of the next answer to a write.
    hangs_up: bool,
    /// Changes of objects that were carried out: server, count of truncations.
    done: Vec<(u16, u32)>,
    /// The counts that were reported.
    reported: Vec<u32>,
    /// Names of requests to the shard.
    log: Vec<&'static str>,
}

impl Stored {
    fn inode(&self) -> Reaction {
        ok(Reply::Inode(self.reply()))
    }

    fn reply(&self) -> InodeReply {
        let mut inode = InodeReply {
            body: FileBody::Striped(LAYOUT),
            truncations: self.truncations,
            ..file(FILE)
        };
        inode.attr.size = self.size;
        inode
    }

    fn answer(&mut self, server: u16, request: &RequestBody) -> Reaction {
        match request {
            RequestBody::Shard(asked) => match &asked.request {
                Request::Create(_) => ok(entry(self.reply(), ShardId(0))),
                Request::GetAttr(_) => self.inode(),
                Request::Followed(_) => {
                    self.log.push("followed");
                    if !self.forgets {
                        self.followed = [self.truncations; 2];
                    }
                    self.inode()
                }
                Request::Extend(op::Extend { length, .. }) => {
                    self.log.push("extend");
                    self.size += length;
                    self.inode()
                }
                Request::WroteData(op::WroteData {
                    truncations, end, ..
                }) => {
                    self.reported.push(*truncations);
                    self.size = self.size.max(*end);
                    self.inode()
                }
                Request::Release(_) | Request::Reopen(_) => ok(Reply::Done),
                _ => unexpected(request),
            },
            RequestBody::Data(
                DataRequest::Write { truncations, .. } | DataRequest::Allocate { truncations, .. },
            ) => {
                let object = usize::from(server) - 1;
                if object == 1 && std::mem::take(&mut self.truncated_before_write) {
                    self.truncations += 1;
                    self.size = 0;
                    self.followed[1] = self.truncations;
                }
                if std::mem::take(&mut self.hangs_up) {
                    return Reaction::HangUp;
                }
                let followed = self.followed[object];
                if followed != *truncations {
                    return data(DataReply::OtherTruncations {
                        truncations: followed,
                    });
                }
                self.done.push((server, *truncations));
                data(DataReply::Done)
            }
            _ => unexpected(request),
        }
    }
}

struct Bench {
    stored: Arc<Mutex<Stored>>,
    client: Client,
    servers: Vec<Fake>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let map = map(folder.path(), 3, 4);
        let stored = Arc::new(Mutex::new(Stored {
            truncations: FIRST_TRUNCATIONS,
            followed: [FIRST_TRUNCATIONS; 2],
            ..Stored::default()
        }));
        let servers = (0..3)
            .map(|id| {
                let stored = Arc::clone(&stored);
                Fake::start(&map, id, move |request| {
                    stored.lock().unwrap().answer(id, request)
                })
            })
            .collect();
        let client = client(&map);
        let how = OpenHow {
            access: 6,
            ..OpenHow::default()
        };
        let file = client
            .create(&ME, Ino::ROOT, &name("file"), 0o644, how)
            .unwrap();
        assert_eq!(file.node.ino, FILE);
        Bench {
            stored,
            client,
            servers,
            _folder: folder,
        }
    }

    /// One unit to each object.
    fn write(&self) -> Result<(), ClientError> {
        self.client.write(&ME, FILE, 0, &[7; 2 * UNIT as usize])
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }
}

/// It has written to one object when the file is truncated: were only the rest repeated, one half would
/// be of before the truncation and the other of after it.
#[test]
fn a_write_that_meets_a_cut_is_repeated_whole() {
    let bench = Bench::new();
    bench.stored().truncated_before_write = true;
    bench.write().unwrap();
    bench.client.flush(FILE).unwrap();
    let stored = bench.stored();
    let mut after: Vec<_> = stored.done.clone();
    after.retain(|(_, truncations)| *truncations == FIRST_TRUNCATIONS + 1);
    after.sort_unstable();
    assert_eq!(
        after,
        [(1, FIRST_TRUNCATIONS + 1), (2, FIRST_TRUNCATIONS + 1)]
    );
    assert_eq!(stored.reported, [FIRST_TRUNCATIONS + 1]);
    assert_eq!(stored.log, ["followed"]);
    assert_eq!(stored.size, 2 * UNIT);
}

/// Another client truncates the file; this one has heard of it, the data objects have not.
#[test]
fn who_has_heard_of_a_cut_first_waits_until_the_objects_have_followed() {
    let bench = Bench::new();
    bench.stored().truncations = FIRST_TRUNCATIONS + 1;
    bench.client.getattr(&ME, FILE).unwrap();
    bench.write().unwrap();
    let stored = bench.stored();
    assert_eq!(stored.log, ["followed"]);
    assert!(stored.done.contains(&(1, FIRST_TRUNCATIONS + 1)));
    assert!(stored.done.contains(&(2, FIRST_TRUNCATIONS + 1)));
}

/// The disk of the shard or of an object has lost what it had said to be on it.
#[test]
fn who_will_never_follow_is_not_waited_for() {
    for (truncations, followed) in [(5, 4), (5, 6)] {
        let bench = Bench::new();
        {
            let mut stored = bench.stored();
            stored.truncations = truncations;
            stored.followed = [followed; 2];
            stored.forgets = true;
        }
        assert_eq!(bench.write(), Err(ClientError::Fs(FsError::Io)));
        assert!(bench.stored().done.is_empty());
    }
}

#[test]
fn what_is_appended_goes_behind_the_end_that_a_cut_has_left() {
    let bench = Bench::new();
    bench.stored().size = UNIT;
    bench.stored().truncated_before_write = true;
    let offset = bench.client.append(&ME, FILE, b"leaf").unwrap();
    assert_eq!(offset, 0);
    let stored = bench.stored();
    assert_eq!(stored.log, ["extend", "followed", "extend"]);
    assert_eq!(stored.done, [(1, FIRST_TRUNCATIONS + 1)]);
    assert_eq!(stored.size, 4);
}

/// A write that the network still delivers of the first connection is not to be done after the next
/// one.
#[test]
fn a_connection_that_was_given_up_over_a_write_is_taken_the_place_of() {
    let bench = Bench::new();
    bench.write().unwrap();
    bench.stored().hangs_up = true;
    bench.write().unwrap();
    let generations: Vec<u64> = bench.servers[1..]
        .iter()
        .flat_map(Fake::greeted)
        .filter_map(|peer| match peer {
            Peer::Client { generation, .. } => Some(generation),
            _ => None,
        })
        .collect();
    assert_eq!(generations.iter().filter(|&&of| of == 1).count(), 2);
    assert_eq!(generations.iter().filter(|&&of| of == 2).count(), 1);
}
