//! Files: beside their inodes, in data objects, and on the way from the one to the other.

use crate::common::*;
use pandofs_api::{
    DataReply, DataRequest, FIRST_TRUNCATIONS, FileBody, InodeReply, Layout, Refusal, Reply,
    Request, op,
};
use pandofs_client::{Client, ClientError, OpenHow};
use pandofs_types::{FsError, Ino, Leased, ServerId, SetAttr, SetTime, ShardId, Time};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex};

const FILE: Ino = Ino(50);
const SERVERS: u16 = 3;
const LAYOUT: Layout = Layout {
    unit: 4_096,
    count: SERVERS,
    first: ServerId(1),
    servers: SERVERS,
};

type Meanwhile = Box<dyn FnOnce(&mut Stored) + Send>;

/// One file as its shard and the servers keep it.
#[derive(Default)]
struct Stored {
    size: u64,
    mtime: Time,
    inline: Vec<u8>,
    striped: bool,
    /// Of the file, since it is striped; its objects have followed.
    truncations: u32,
    objects: HashMap<u16, Vec<u8>>,
    /// A server, and where in its object a block begins that cannot be read.
    damaged: Option<(u16, u64)>,
    /// Nothing more can be written to objects.
    full: bool,
    /// Attributes are leased.
    leases: bool,
    /// Servers at which the client waits for recalls.
    listened: usize,
    /// Requests of these kinds in their order.
    log: Vec<&'static str>,
    /// Done by somebody else right before the next request of this kind.
    before: HashMap<&'static str, Meanwhile>,
}

impl Stored {
    fn inode(&self, with_data: bool) -> InodeReply {
        let body = if self.striped {
            FileBody::Striped(LAYOUT)
        } else {
            let data = if with_data {
                self.inline.clone()
            } else {
                Vec::new()
            };
            FileBody::Inline {
                data,
                layout: LAYOUT,
            }
        };
        let mut inode = file(FILE);
        inode.truncations = self.truncations;
        inode.attr.size = self.size;
        inode.attr.mtime = self.mtime;
        InodeReply { body, ..inode }
    }

    fn write_inline(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        self.inline.resize(self.inline.len().max(end), 0);
        self.inline[offset as usize..end].copy_from_slice(data);
        self.size = self.size.max(end as u64);
    }

    fn answer(&mut self, server: u16, request: &RequestBody) -> Reaction {
        if let RequestBody::Shard(asked) = request
            && let Request::Reopen(_) = asked.request
        {
            // The client tells each server that it meets for the first time what is open.
            return ok(Reply::Done);
        }
        if let RequestBody::AwaitRecalls { done } = request {
            if done.is_some() {
                self.listened += 1;
                return Reaction::Silence;
            }
            let (number, keys) = (0, Vec::new());
            return Reaction::Answer(AnswerBody::Recalls { number, keys });
        }
        let kind = kind(request);
        self.log.push(kind);
        if let Some(first) = self.before.remove(kind) {
            first(self);
        }
        match request {
            RequestBody::Shard(asked) => self.shard(&asked.request).unwrap_or(unexpected(request)),
            RequestBody::Data(asked) => self.object(server, asked),
            other => unexpected(other),
        }
    }

    fn shard(&mut self, request: &Request) -> Option<Reaction> {
        match request {
            Request::GetAttr(_) if self.leases => {
                return Some(Reaction::Answer(AnswerBody::Leased {
                    result: Ok(Reply::Inode(self.inode(false))),
                    leased: vec![Leased::ATTRIBUTES],
                }));
            }
            Request::Create(_) => return Some(ok(entry(self.inode(false), ShardId(0)))),
            Request::ReadInline(_) => return Some(ok(Reply::Inode(self.inode(true)))),
            Request::WriteInline(op::WriteInline { offset, data, .. }) => {
                let end = *offset as usize + data.len();
                if self.striped || end > LAYOUT.unit as usize {
                    let (layout, striped) = (LAYOUT, self.striped);
                    return Some(refuse(Refusal::NotInline { layout, striped }));
                }
                self.write_inline(*offset, data);
            }
            Request::Stripe(_) => {
                // The shard copies what the inode held.
                let inline = std::mem::take(&mut self.inline);
                self.objects.insert(LAYOUT.server_of(0).0, inline);
                self.striped = true;
                self.truncations = FIRST_TRUNCATIONS;
            }
            Request::WroteData(op::WroteData { end, mtime, .. }) => {
                self.size = self.size.max(*end);
                self.mtime = self.mtime.max(*mtime);
            }
            Request::SetAttr(op::SetAttr { set, .. }) => {
                if let Some(size) = set.size {
                    self.size = size;
                    self.truncations += u32::from(self.striped);
                    self.inline.truncate(size as usize);
                    for (index, server) in LAYOUT.servers().enumerate() {
                        if let Some(object) = self.objects.get_mut(&server.0) {
                            object.truncate(LAYOUT.object_size(index as u16, size) as usize);
                        }
                    }
                }
                if let Some(SetTime::At(time)) = set.mtime {
                    self.mtime = time;
                }
            }
            Request::GetAttr(_) | Request::Open(_) | Request::Followed(_) => {}
            Request::Sync(op::Sync) | Request::Release(_) => return Some(ok(Reply::Done)),
            _ => return None,
        }
        Some(ok(Reply::Inode(self.inode(false))))
    }

    fn object(&mut self, server: u16, request: &DataRequest) -> Reaction {
        let object = self.objects.entry(server).or_default();
        data(match request {
            DataRequest::Read { offset, length, .. }
                if self.damaged.is_some_and(|(place, byte)| {
                    let range = offset / 4_096 * 4_096..*offset + u64::from(*length);
                    place == server && range.contains(&byte)
                }) =>
            {
                DataReply::Failed(FsError::Io)
            }
            DataRequest::Write { truncations, .. } if *truncations != self.truncations => {
                DataReply::OtherTruncations {
                    truncations: self.truncations,
                }
            }
            DataRequest::Write { .. } if self.full => DataReply::Failed(FsError::NoSpace),
            DataRequest::Read { offset, length, .. } => {
                let start = object.len().min(*offset as usize);
                let end = object.len().min(*offset as usize + *length as usize);
                DataReply::Data(object[start..end].to_vec())
            }
            DataRequest::Write { offset, data, .. } => {
                let end = *offset as usize + data.len();
                object.resize(object.len().max(end), 0);
                object[*offset as usize..end].copy_from_slice(data);
                DataReply::Done
            }
            _ => DataReply::Done,
        })
    }
}

fn kind(request: &RequestBody) -> &'static str {
    match request {
        RequestBody::Shard(asked) => match asked.request {
            Request::ReadInline(_) => "read inline",
            Request::WriteInline(_) => "write inline",
            Request::Stripe(_) => "stripe",
            Request::WroteData(_) => "wrote data",
            Request::GetAttr(_) => "getattr",
            Request::Followed(_) => "followed",
            Request::SetAttr(_) => "setattr",
            Request::Sync(op::Sync) => "sync",
            _ => "other",
        },
        RequestBody::Data(DataRequest::Read { .. }) => "read",
        RequestBody::Data(DataRequest::Write { .. }) => "write",
        RequestBody::Data(DataRequest::Sync { .. }) => "sync object",
        _ => "other",
    }
}

struct Bench {
    stored: Arc<Mutex<Stored>>,
    client: Client,
    _servers: Vec<Fake>,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// Servers with one file, and a client that has created and opened it.
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let map = map(folder.path(), SERVERS, 4);
        let stored = Arc::new(Mutex::new(Stored::default()));
        let servers = (0..SERVERS)
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
        let found = client
            .create(&ME, Ino::ROOT, &name("file"), 0o644, how)
            .unwrap();
        assert!(found.created);
        assert_eq!(found.node.ino, FILE);
        stored.lock().unwrap().log.clear();
        Bench {
            stored,
            client,
            _servers: servers,
            _folder: folder,
        }
    }

    /// The same with leases, under which writes may be answered early.
    fn leasing() -> Bench {
        let bench = Bench::new();
        bench.stored().leases = true;
        bench.client.take_leases(true, |_| ()).unwrap();
        eventually("leases are taken", || {
            bench.stored().listened == usize::from(SERVERS)
        });
        bench
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.client.write(&ME, FILE, offset, data).unwrap();
    }

    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        self.client.read(&ME, FILE, offset, length).unwrap()
    }

    fn size(&self) -> u64 {
        self.client.getattr(&ME, FILE).unwrap().size
    }

    fn stored(&self) -> std::sync::MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.stored().log)
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8 + 1).collect()
}

#[test]
fn a_small_file_stays_in_its_inode() {
    let bench = Bench::new();
    bench.write(0, b"pando");
    bench.write(8, b"s");
    assert_eq!(bench.read(0, 100), b"pando\0\0\0s");
    assert_eq!(bench.read(3, 2), b"do");
    assert_eq!(bench.read(9, 100), b"");
    assert_eq!(bench.size(), 9);
    assert_eq!(
        bench.log(),
        [
            "write inline",
            "write inline",
            "read inline",
            "read inline",
            "read inline",
            "getattr"
        ]
    );
}

#[test]
fn a_file_that_outgrows_its_inode_is_striped() {
    let bench = Bench::new();
    bench.write(0, b"pando");
    let long = pattern(20_000);
    bench.write(3, &long);
    assert_eq!(bench.stored().size, 5, "the length is reported later");
    let mut expected = b"pan".to_vec();
    expected.extend(&long);
    assert_eq!(bench.read(0, 100_000), expected);
    assert_eq!(bench.read(4_090, 10), expected[4_090..4_100]);
    assert_eq!(bench.size(), 20_003);
    assert_eq!(bench.stored().size, 20_003);
    // Data objects 0, 1 and 2 are on servers 1, 2 and 0.
    let sizes = [1, 2, 0].map(|server| bench.stored().objects[&server].len() as u64);
    assert_eq!(
        sizes,
        [0, 1, 2].map(|object| LAYOUT.object_size(object, 20_003))
    );
}

#[test]
fn a_file_that_somebody_else_striped_is_written_to_its_objects() {
    let bench = Bench::new();
    bench.write(0, b"pando");
    {
        let mut stored = bench.stored();
        stored.striped = true;
        stored.truncations = FIRST_TRUNCATIONS;
        stored.objects.insert(1, b"pando".to_vec());
    }
    bench.write(1, b"ONE");
    assert_eq!(bench.read(0, 100), b"pONEo");
    // The second one is refused, and nothing tried in vain after it.
    assert_eq!(bench.log()[..3], ["write inline", "write inline", "write"]);
    assert_eq!(bench.stored().objects[&1], b"pONEo");
}

#[test]
fn holes_read_as_zeros() {
    let bench = Bench::new();
    // Units 0 and 5; nothing in between, nothing in data object 1.
    bench.write(5 * 4_096 + 10, b"end");
    bench.write(0, b"start");
    let data = bench.read(0, 100_000);
    assert_eq!(data.len(), 5 * 4_096 + 13);
    assert_eq!(&data[..5], b"start");
    assert!(data[5..5 * 4_096 + 10].iter().all(|&byte| byte == 0));
    assert_eq!(&data[5 * 4_096 + 10..], b"end");
    assert_eq!(bench.read(4_096, 4_096), vec![0; 4_096]);
    // A hole at the end.
    bench
        .client
        .setattr(
            &ME,
            FILE,
            SetAttr {
                size: Some(40_000),
                ..SetAttr::default()
            },
        )
        .unwrap();
    let data = bench.read(5 * 4_096 + 10, 100_000);
    assert_eq!(data.len(), 40_000 - 5 * 4_096 - 10);
    assert!(data[3..].iter().all(|&byte| byte == 0));
    assert_eq!(bench.read(39_999, 5), [0]);
}

#[test]
fn size_and_time_are_reported_once_and_before_attributes_are_set() {
    let bench = Bench::new();
    bench.write(0, &pattern(10_000));
    bench.write(10_000, &pattern(10_000));
    bench.log();
    bench.client.flush(FILE).unwrap();
    bench.client.flush(FILE).unwrap();
    assert_eq!(bench.log(), ["wrote data"]);
    assert_eq!(bench.stored().size, 20_000);

    // As `cp -p` and `tar` do: a report after the setting would put the time of the write there.
    bench.write(20_000, b"more");
    let times = SetAttr {
        mtime: Some(SetTime::At(Time(5))),
        ..SetAttr::default()
    };
    let attr = bench.client.setattr(&ME, FILE, times).unwrap();
    assert_eq!((attr.size, attr.mtime), (20_004, Time(5)));
    bench.client.flush(FILE).unwrap();
    assert_eq!(bench.log(), ["write", "wrote data", "setattr"]);

    bench.write(30_000, b"cut off");
    let cut = SetAttr {
        size: Some(7),
        ..SetAttr::default()
    };
    assert_eq!(bench.client.setattr(&ME, FILE, cut).unwrap().size, 7);
    assert_eq!(bench.size(), 7);
    assert_eq!(bench.read(0, 100), pattern(7));
}

#[test]
fn growth_by_somebody_else_is_seen() {
    let bench = Bench::new();
    bench.write(0, &pattern(10_000));
    bench.client.flush(FILE).unwrap();
    bench.log();
    // Within what is known to be there nothing is asked but the data.
    assert_eq!(bench.read(0, 4_096), pattern(4_096));
    assert_eq!(bench.log(), ["read"]);
    {
        let mut stored = bench.stored();
        stored.size = 12_288;
        stored.objects.get_mut(&0).unwrap().resize(4_096, 9);
    }
    let data = bench.read(8_192, 100_000);
    assert_eq!(data.len(), 4_096);
    assert_eq!(data[2_000..], [9; 2_096]);
    // Also where it was known to be there.
    {
        let mut stored = bench.stored();
        stored.size = 71;
        for (&object, bytes) in &mut stored.objects {
            bytes.truncate(if object == 1 { 71 } else { 0 });
        }
    }
    assert_eq!(bench.read(0, 8_192), pattern(71));
    assert_eq!(bench.read(4_096, 10), b"");
}

#[test]
fn a_file_that_became_shorter_ends_sooner() {
    let bench = Bench::new();
    bench.write(0, &pattern(10_000));
    bench.client.flush(FILE).unwrap();
    bench.stored().size = 8_200;
    assert_eq!(bench.read(8_192, 100_000).len(), 8);
    assert_eq!(bench.read(8_200, 100), b"");
}

#[test]
fn fsync_syncs_the_objects_and_the_inode() {
    let bench = Bench::new();
    bench.write(0, b"small");
    bench.log();
    bench.client.fsync(&ME, FILE).unwrap();
    assert_eq!(bench.log(), ["sync"]);
    bench.write(0, &pattern(10_000));
    bench.log();
    bench.client.fsync(&ME, FILE).unwrap();
    let log = bench.log();
    assert_eq!(log[0], "wrote data");
    assert_eq!(log.iter().filter(|&&kind| kind == "sync object").count(), 3);
    assert_eq!(log.iter().filter(|&&kind| kind == "sync").count(), 1);
}

#[test]
fn the_last_close_reports_what_was_written() {
    let bench = Bench::new();
    bench.client.open_node(&ME, FILE, 6, false).unwrap();
    bench.write(0, &pattern(10_000));
    bench.log();
    bench.client.release(FILE).unwrap();
    assert!(!bench.log().contains(&"wrote data"));
    bench.client.release(FILE).unwrap();
    assert!(bench.log().contains(&"wrote data"));
    assert_eq!(bench.stored().size, 10_000);
    // Without having opened it: reported at once.
    bench.write(10_000, b"more");
    assert_eq!(bench.stored().size, 10_004);
    assert_eq!(bench.read(9_999, 10).len(), 5);
}

#[test]
fn a_file_has_its_limits() {
    let bench = Bench::new();
    let too_far = bench.client.write(&ME, FILE, u64::MAX, b"x");
    assert_eq!(too_far, Err(FsError::FileTooBig.into()));
    assert_eq!(bench.read(u64::MAX, 10), b"");
    bench.write(7, b"");
    assert_eq!(bench.size(), 0);
}

/// Each server answers only when all have been asked.
#[test]
fn stripes_are_written_and_read_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), SERVERS, 4);
    let all_asked = Arc::new(Barrier::new(usize::from(SERVERS)));
    let _servers: Vec<Fake> = (0..SERVERS)
        .map(|id| {
            let all_asked = Arc::clone(&all_asked);
            Fake::start(&map, id, move |request| match request {
                RequestBody::Data(DataRequest::Write { .. }) => {
                    all_asked.wait();
                    data(DataReply::Done)
                }
                RequestBody::Data(DataRequest::Read { length, .. }) => {
                    all_asked.wait();
                    data(DataReply::Data(vec![id as u8; *length as usize]))
                }
                RequestBody::Shard(asked) => match &asked.request {
                    Request::GetAttr(_) | Request::WroteData(_) => {
                        let mut inode = file(FILE);
                        inode.attr.size = 6 * 4_096;
                        inode.body = FileBody::Striped(LAYOUT);
                        ok(Reply::Inode(inode))
                    }
                    _ => unexpected(request),
                },
                other => unexpected(other),
            })
        })
        .collect();
    let client = client(&map);
    client.write(&ME, FILE, 0, &pattern(6 * 4_096)).unwrap();
    let data = client.read(&ME, FILE, 0, 6 * 4_096).unwrap();
    let units: Vec<u8> = data.chunks(4_096).map(|unit| unit[0]).collect();
    assert_eq!(units, [1, 2, 0, 1, 2, 0]);
}

#[test]
fn a_large_write_may_be_answered_before_servers_have_it() {
    let bench = Bench::leasing();
    bench.write(0, &pattern(10_000));
    bench.log();
    let more = pattern(40_000);
    let (mut answered, mut log_then) = (None, None);
    bench
        .client
        .write_behind(&ME, FILE, 1, 10_000, &more, |result| {
            log_then = Some(bench.log());
            answered = Some(result);
        })
        .unwrap();
    assert_eq!(answered, Some(Ok(())));
    let asked = log_then.expect("it is answered");
    assert!(
        !asked.contains(&"write"),
        "it was answered afterwards: {asked:?}"
    );
    bench.client.flush(FILE).unwrap();
    assert_eq!(bench.size(), 50_000);
    assert_eq!(bench.read(10_000, 40_000), more);
    // A small one is written first: it costs little, and its writer learns what came of it.
    bench
        .client
        .write_behind(&ME, FILE, 1, 0, &pattern(100), |result| {
            assert_eq!(result, Ok(()));
            assert!(bench.log().contains(&"write"));
        })
        .unwrap();
}

/// Nobody could be told to wait for it before he truncates the file.
#[test]
fn without_a_lease_no_write_is_answered_early() {
    let bench = Bench::new();
    bench.write(0, &pattern(10_000));
    bench.log();
    let answer = |result| {
        assert_eq!(result, Ok(()));
        assert!(bench.log().contains(&"write"));
    };
    let large = pattern(40_000);
    bench
        .client
        .write_behind(&ME, FILE, 1, 10_000, &large, answer)
        .unwrap();
}

/// It took longer than a recall waits, and the file was truncated meanwhile.
#[test]
fn a_write_answered_early_that_meets_a_cut_has_failed() {
    let bench = Bench::leasing();
    bench.write(0, &pattern(10_000));
    bench.size();
    let cut = |stored: &mut Stored| {
        stored.truncations += 1;
        stored.size = 0;
    };
    bench.stored().before.insert("write", Box::new(cut));
    let answer = |result| assert_eq!(result, Ok(()));
    let large = pattern(40_000);
    let done = bench
        .client
        .write_behind(&ME, FILE, 1, 10_000, &large, answer);
    let failed = Err(ClientError::Fs(FsError::Io));
    assert_eq!(done, failed);
    assert_eq!(bench.client.fsync(&ME, FILE), failed);
}

#[test]
fn a_write_that_came_to_nothing_is_told_to_whoever_asks_next() {
    let no_space = || ClientError::Fs(FsError::NoSpace);
    let large = pattern(40_000);
    for sync in [false, true] {
        let bench = Bench::leasing();
        bench.write(0, &pattern(10_000));
        bench.stored().full = true;
        let behind = |expected: Result<(), ClientError>| {
            let answer = |result| assert_eq!(result, expected);
            bench
                .client
                .write_behind(&ME, FILE, 1, 10_000, &large, answer)
        };
        assert_eq!(behind(Ok(())), Err(no_space()));
        let told = match sync {
            true => bench.client.fsync(&ME, FILE),
            false => bench.client.flush(FILE),
        };
        assert_eq!(told, Err(no_space()));
        assert_eq!(bench.client.flush(FILE), Ok(()), "it is told once");
        assert_eq!(bench.size(), 10_000);
        // For a while nothing is answered too early.
        assert_eq!(behind(Err(no_space())), Ok(()));
        assert_eq!(bench.client.flush(FILE), Ok(()));
        bench.stored().full = false;
        assert_eq!(behind(Ok(())), Ok(()));
        assert_eq!(bench.size(), 50_000);
    }
}

#[test]
fn what_is_before_damage_can_be_read() {
    const BLOCK: usize = 4_096;
    let bench = Bench::new();
    let all = pattern(60_000);
    bench.write(0, &all);
    let read = |offset, length| {
        let read = bench.client.read_before_damage(&ME, FILE, offset, length);
        read.map_err(|error| error.errno())
    };
    assert!(read(0, 100_000) == Ok(all.clone()));
    for block in [0, 1, 7, 14] {
        // Units are as large as blocks.
        let extent = LAYOUT.extents((block * BLOCK) as u64, 1)[0];
        bench.stored().damaged = Some((extent.server.0, extent.object_offset));
        let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
        for from in [0, 100, 2 * BLOCK, 3 * BLOCK + 5] {
            let expected = if from < start {
                Ok(all[from..start].to_vec())
            } else if from < end {
                Err(5)
            } else {
                Ok(all[from..].to_vec())
            };
            assert!(
                read(from as u64, 100_000) == expected,
                "block {block} from {from}"
            );
        }
        assert_eq!(read(start as u64, 10), Err(5));
        assert!(bench.client.read(&ME, FILE, 0, 100_000).is_err());
    }
}
