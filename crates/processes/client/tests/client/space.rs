//! Space of files and appending to them: requests and their servers.

use crate::common::*;
use pandofs_api::{
    Allocation, DataReply, DataRequest, FIRST_TRUNCATIONS, FileBody, InodeReply, Layout, Refusal,
    Reply, Request, op,
};
use pandofs_client::{Client, Seek};
use pandofs_types::{FsError, Ino, ServerId};
use pandofs_wire::message::RequestBody;
use std::sync::{Arc, Mutex};

const FILE: Ino = Ino(50);
const SERVERS: u16 = 3;
const UNIT: u64 = 4_096;
const LAYOUT: Layout = Layout {
    unit: UNIT as u32,
    count: SERVERS,
    first: ServerId(1),
    servers: SERVERS,
};

/// The file at the shard, and the requests so far but for reads of its attributes.
struct Stored {
    size: u64,
    body: FileBody,
    asked: Vec<Asked>,
    /// The data object of each server.
    finds: [Option<u64>; SERVERS as usize],
    allocated: DataReply,
}

#[derive(Clone, Debug, PartialEq)]
enum Asked {
    Shard(Request),
    Data(u16, DataRequest),
}

impl Stored {
    fn inode(&self) -> Reaction {
        let mut inode = file(FILE);
        inode.attr.size = self.size;
        inode.truncations = FIRST_TRUNCATIONS;
        ok(Reply::Inode(InodeReply {
            body: self.body.clone(),
            ..inode
        }))
    }

    fn answer(&mut self, server: u16, request: &RequestBody) -> Reaction {
        match request {
            RequestBody::Shard(asked) => {
                let request = asked.request.clone();
                match &request {
                    Request::GetAttr(_) | Request::Open(_) | Request::ReadInline(_) => {
                        return self.inode();
                    }
                    // The client tells each server that it meets for the first time what is open.
                    Request::Release(_) | Request::Reopen(_) => return ok(Reply::Done),
                    Request::AppendInline(op::AppendInline { data, .. }) => {
                        if let FileBody::Striped(layout) = self.body {
                            return refuse(Refusal::NotInline {
                                layout,
                                striped: true,
                            });
                        }
                        self.size += data.len() as u64;
                    }
                    Request::Extend(op::Extend { length, .. }) => self.size += length,
                    Request::WroteData(op::WroteData { end, .. }) => {
                        self.size = self.size.max(*end)
                    }
                    _ => {}
                }
                self.asked.push(Asked::Shard(request));
                self.inode()
            }
            RequestBody::Data(asked) => {
                if !matches!(asked, DataRequest::Usage { .. }) {
                    self.asked.push(Asked::Data(server, asked.clone()));
                }
                data(match asked {
                    DataRequest::Usage { .. } => DataReply::Usage {
                        blocks: 8 + u64::from(server),
                    },
                    DataRequest::Seek { .. } => DataReply::Found {
                        offset: self.finds[usize::from(server)],
                    },
                    DataRequest::Allocate { .. } => self.allocated.clone(),
                    _ => DataReply::Done,
                })
            }
            other => unexpected(other),
        }
    }
}

struct Bench {
    stored: Arc<Mutex<Stored>>,
    client: Client,
    _servers: Vec<Fake>,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// A client that has the file open.
    fn new(size: u64, body: FileBody) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let map = map(folder.path(), SERVERS, 4);
        let stored = Arc::new(Mutex::new(Stored {
            size,
            body,
            asked: Vec::new(),
            finds: [None; SERVERS as usize],
            allocated: DataReply::Done,
        }));
        let servers = (0..SERVERS)
            .map(|id| {
                let stored = Arc::clone(&stored);
                Fake::start(&map, id, move |request| {
                    stored.lock().unwrap().answer(id, request)
                })
            })
            .collect();
        let client = client(&map);
        client.open_node(&ME, FILE, 6, false).unwrap();
        Bench {
            stored,
            client,
            _servers: servers,
            _folder: folder,
        }
    }

    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.stored.lock().unwrap().asked)
    }

    fn append(&self, length: usize) -> u64 {
        self.client.append(&ME, FILE, &vec![7; length]).unwrap()
    }
}

fn inline() -> FileBody {
    FileBody::Inline {
        data: Vec::new(),
        layout: LAYOUT,
    }
}

/// Kinds of what was asked.
fn kinds(asked: &[Asked]) -> Vec<&'static str> {
    let kind = |asked: &Asked| match asked {
        Asked::Shard(Request::AppendInline(_)) => "append inline",
        Asked::Shard(Request::Extend(_)) => "extend",
        Asked::Shard(Request::WroteData(_)) => "report",
        Asked::Data(_, DataRequest::Write { .. }) => "write",
        _ => "other",
    };
    asked.iter().map(kind).collect()
}

#[test]
fn the_shard_says_where_a_small_file_is_appended_to() {
    let bench = Bench::new(3, inline());
    assert_eq!(bench.append(5), 3);
    // Somebody else has appended.
    bench.stored.lock().unwrap().size = 1_000;
    assert_eq!(bench.append(5), 1_000);
    assert_eq!(kinds(&bench.asked()), ["append inline"; 2]);
}

#[test]
fn what_is_appended_is_written_where_the_shard_made_room() {
    let bench = Bench::new(3 * UNIT, FileBody::Striped(LAYOUT));
    bench.stored.lock().unwrap().size = 4 * UNIT + 5;
    assert_eq!(bench.append(100), 4 * UNIT + 5);
    let asked = bench.asked();
    assert_eq!(kinds(&asked), ["extend", "write"]);
    // Unit 4 is the second one of data object 1, which is on server 2.
    let Asked::Data(2, DataRequest::Write { offset, .. }) = &asked[1] else {
        panic!("{asked:?}");
    };
    assert_eq!(*offset, UNIT + 5);
    // The shard knows of it: nothing has to be reported before the next.
    bench.append(100);
    assert_eq!(kinds(&bench.asked()), ["extend", "write"]);
    // It does not know of this.
    bench.client.write(&ME, FILE, 9 * UNIT, b"x").unwrap();
    assert_eq!(bench.append(100), 9 * UNIT + 1);
    assert_eq!(
        kinds(&bench.asked()),
        ["write", "report", "extend", "write"]
    );
}

#[test]
fn a_file_that_somebody_else_striped_is_appended_to() {
    let bench = Bench::new(3, inline());
    {
        let mut stored = bench.stored.lock().unwrap();
        stored.body = FileBody::Striped(LAYOUT);
        stored.size = UNIT;
    }
    assert_eq!(bench.append(5), UNIT);
    assert_eq!(kinds(&bench.asked()), ["extend", "write"]);
}

#[test]
fn each_data_object_is_asked_once_for_space() {
    let bench = Bench::new(UNIT, FileBody::Striped(LAYOUT));
    let reserve = Allocation::Reserve { keep_size: false };
    let (offset, length) = (UNIT / 2, 7 * UNIT);
    bench
        .client
        .allocate(&ME, FILE, offset, length, reserve)
        .unwrap();
    let mut asked = bench.asked();
    asked.sort_by_key(|asked| match asked {
        Asked::Data(server, _) => *server,
        Asked::Shard(_) => u16::MAX,
    });
    let ask = |server, offset, length| {
        let request = DataRequest::Allocate {
            truncations: FIRST_TRUNCATIONS,
            ino: FILE,
            offset,
            length,
            allocation: reserve,
        };
        Asked::Data(server, request)
    };
    assert_eq!(
        asked,
        [
            ask(0, 0, 2 * UNIT),
            ask(1, UNIT / 2, 2 * UNIT + UNIT / 2),
            ask(2, 0, 2 * UNIT + UNIT / 2),
        ]
    );
    assert_eq!(
        bench.client.getattr(&ME, FILE).unwrap().size,
        offset + length
    );
    let report = bench.asked();
    assert!(
        matches!(
            report[..],
            [Asked::Shard(Request::WroteData(op::WroteData {
                sparse: true,
                ..
            }))]
        ),
        "{report:?}"
    );

    let punch = |length| {
        bench
            .client
            .allocate(&ME, FILE, 0, length, Allocation::Punch)
    };
    assert_eq!(punch(0), Err(FsError::Invalid.into()));
    assert_eq!(punch(u64::MAX), Err(FsError::FileTooBig.into()));
    bench.stored.lock().unwrap().allocated = DataReply::Failed(FsError::NoSpace);
    assert_eq!(punch(1), Err(FsError::NoSpace.into()));
}

#[test]
fn the_first_place_in_the_file_is_found() {
    let bench = Bench::new(20 * UNIT, FileBody::Striped(LAYOUT));
    let seek = |offset, what| bench.client.seek(&ME, FILE, offset, what).unwrap();
    let finds = |finds| bench.stored.lock().unwrap().finds = finds;
    // Data objects 0, 1, 2 are on servers 1, 2, 0: units 6, 4 and 8.
    finds([Some(2 * UNIT), Some(2 * UNIT + 7), Some(UNIT + 9)]);
    assert_eq!(seek(3 * UNIT + 1, Seek::Data), Some(4 * UNIT + 9));
    let offsets: Vec<(u16, u64)> = {
        let mut offsets: Vec<_> = bench
            .asked()
            .into_iter()
            .map(|asked| match asked {
                Asked::Data(server, DataRequest::Seek { offset, .. }) => (server, offset),
                other => panic!("{other:?}"),
            })
            .collect();
        offsets.sort_unstable();
        offsets
    };
    assert_eq!(offsets, [(0, UNIT), (1, UNIT + 1), (2, UNIT)]);
    // Beyond the end is none, and a hole.
    finds([Some(9 * UNIT), None, None]);
    assert_eq!(seek(0, Seek::Data), None);
    assert_eq!(seek(0, Seek::Hole), Some(20 * UNIT));
    assert_eq!(seek(20 * UNIT, Seek::Hole), None);
}

#[test]
fn only_what_a_sparse_file_takes_is_asked_of_its_objects() {
    let bench = Bench::new(UNIT, FileBody::Striped(LAYOUT));
    let blocks = || bench.client.getattr(&ME, FILE).unwrap().blocks;
    assert_eq!(blocks(), file(FILE).attr.blocks);
    bench.stored.lock().unwrap().body = FileBody::Sparse(LAYOUT);
    assert_eq!(blocks(), 8 + 9 + 10);
}
