//! Batches: each operation by itself, in the order of what was given, once.

use crate::common::*;
use pandofs_api::{FileBody, InodeReply, Refusal, Reply, Request, RequestKey, op};
use pandofs_client::{ClientError, FileToRead, NewFile};
use pandofs_types::limits::MAX_NEW_FILE_BYTES;
use pandofs_types::{FileKind, FsError, Ino, Name, ServerId, ShardId};
use pandofs_wire::message::RequestBody;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests of one kind that were executed, by key: as a shard knows those that come again.
#[derive(Default)]
struct Executed(Mutex<BTreeMap<(u16, u64), Ino>>);

impl Executed {
    fn once(&self, key: RequestKey) -> Ino {
        let mut executed = self.0.lock().unwrap();
        let next = Ino(100 + executed.len() as u64);
        *executed.entry((key.slot.0, key.sequence)).or_insert(next)
    }
}

fn names(count: usize) -> Vec<Name> {
    (0..count)
        .map(|number| name(&format!("file {number}")))
        .collect()
}

fn filled(ino: Ino, data: &[u8]) -> InodeReply {
    let mut inode = file(ino);
    inode.attr.size = data.len() as u64;
    if let FileBody::Inline { data: kept, .. } = &mut inode.body {
        *kept = data.to_vec();
    }
    inode
}

fn to_read(name: &Name, most: usize) -> FileToRead<'_> {
    FileToRead {
        dir: Ino::ROOT,
        name,
        most,
    }
}

#[test]
fn what_a_lost_connection_leaves_unanswered_is_asked_again_and_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let (executed, requests) = (Executed::default(), AtomicU64::new(0));
    let server = Fake::start(&map, 0, move |request| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        let Request::Create(op::Create { name, .. }) = &asked.request else {
            return unexpected(request);
        };
        if *name == self::name("file 7") {
            return refuse(FsError::Exists);
        }
        let ino = executed.once(asked.key);
        match requests.fetch_add(1, Ordering::SeqCst) {
            // Executed, and the answer is lost with those behind it.
            20 => Reaction::HangUp,
            _ => ok(entry(file(ino), ShardId(0))),
        }
    });
    let client = client(&map);
    let names = names(100);
    let files: Vec<NewFile<'_>> = names
        .iter()
        .map(|name| NewFile {
            dir: Ino::ROOT,
            name,
            mode: 0o644.into(),
            contents: &[],
        })
        .collect();
    let made = client.create_many(&ME, &files);
    assert_eq!(made.len(), 100);
    let mut inos = Vec::new();
    for (place, made) in made.into_iter().enumerate() {
        match place {
            7 => assert_eq!(made, Err(FsError::Exists.into())),
            _ => inos.push(made.unwrap().ino),
        }
    }
    inos.sort_unstable();
    let expected: Vec<Ino> = (100..199).map(Ino).collect();
    assert_eq!(inos, expected, "each was made once");
    // Of the first window, those that were behind the lost answer came again.
    assert!(server.asked().len() > 100);
}

#[test]
fn new_files_get_their_bytes_and_large_ones_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, |request| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::Create(op::Create { name, open, .. }) => {
                assert!(!open, "nothing is left open");
                let ino = 100 + u64::from(name.as_bytes()[5] - b'0');
                ok(entry(file(Ino(ino)), ShardId(0)))
            }
            Request::WriteNew(op::WriteNew { ino: Ino(101), .. }) => {
                refuse(Refusal::Fs(FsError::NoSpace))
            }
            // Somebody else has written to it.
            Request::WriteNew(op::WriteNew { ino: Ino(102), .. }) => refuse(Refusal::NotInline {
                layout: layout(1),
                striped: false,
            }),
            Request::WriteNew(op::WriteNew { ino, data }) => ok(Reply::Inode(filled(*ino, data))),
            Request::GetAttr(op::GetAttr { ino }) => ok(Reply::Inode(filled(*ino, b"as it is"))),
            Request::WriteInline(op::WriteInline { ino, data, .. }) => {
                ok(Reply::Inode(filled(*ino, data)))
            }
            _ => refuse(FsError::FileTooBig),
        }
    });
    let client = client(&map);
    let names = names(5);
    let large = vec![1; MAX_NEW_FILE_BYTES + 1];
    let contents: [&[u8]; 5] = [b"pando", b"aspen", b"oak", b"", &large];
    let files: Vec<NewFile<'_>> = names
        .iter()
        .zip(contents)
        .map(|(name, contents)| NewFile {
            dir: Ino::ROOT,
            name,
            mode: 0o600.into(),
            contents,
        })
        .collect();
    let made = client.create_many(&ME, &files);
    let sizes: Vec<_> = made
        .into_iter()
        .map(|node| node.map(|node| node.attr.size))
        .collect();
    assert_eq!(
        sizes,
        [
            Ok(5),
            Err(FsError::NoSpace.into()),
            Ok(8),
            Ok(0),
            Err(FsError::FileTooBig.into())
        ]
    );
    let wrote = |ino| {
        let asked = server.asked();
        let of_it = |request: &Request| match request {
            Request::WriteNew(op::WriteNew { ino: of, .. })
            | Request::WriteInline(op::WriteInline { ino: of, .. }) => *of == ino,
            _ => false,
        };
        asked.iter().filter(|asked| of_it(&asked.request)).count()
    };
    assert_eq!((wrote(Ino(100)), wrote(Ino(102))), (1, 2));
    assert_eq!((wrote(Ino(103)), wrote(Ino(104))), (0, 0));
}

#[test]
fn names_lead_to_inodes_on_other_shards_and_rights_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 2, 2);
    let answer = |request: &RequestBody| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::Lookup(op::Lookup { name, .. }) => match name.as_bytes() {
                b"here" => ok(entry(filled(Ino(50), b"pando"), asked.shard)),
                b"secret" => {
                    let mut inode = filled(Ino(51), b"pando");
                    (inode.attr.mode, inode.attr.uid) = (0o600, 0);
                    ok(entry(inode, asked.shard))
                }
                b"away" => {
                    let Reply::Entry(mut entry) = entry(file(Ino(52)), ShardId(1)) else {
                        unreachable!("it is an entry");
                    };
                    entry.inode = None;
                    ok(Reply::Entry(entry))
                }
                b"pipe" => {
                    let mut inode = file(Ino(53));
                    inode.attr.kind = FileKind::Fifo;
                    inode.body = FileBody::None;
                    ok(entry(inode, asked.shard))
                }
                _ => refuse(FsError::NotFound),
            },
            Request::GetAttr(op::GetAttr { ino: Ino(52) }) if asked.shard == ShardId(1) => {
                ok(Reply::Inode(filled(Ino(52), b"one tree")))
            }
            Request::ReadInline(op::ReadInline { ino: Ino(50) }) => {
                ok(Reply::Inode(filled(Ino(50), b"pando")))
            }
            Request::ReadInline(op::ReadInline { ino: Ino(52) }) => {
                ok(Reply::Inode(filled(Ino(52), b"one tree")))
            }
            _ => unexpected(request),
        }
    };
    let first = Fake::start(&map, 0, answer);
    let _second = Fake::start(&map, 1, answer);
    assert_eq!(map.server_of(ShardId(1)), ServerId(1));
    let client = client(&map);
    let names = ["here", "secret", "away", "missing", "pipe"].map(name);
    let wanted: Vec<(Ino, &Name)> = names.iter().map(|name| (Ino::ROOT, name)).collect();
    let found = client.stat_many(&ME, &wanted);
    let sizes: Vec<Result<u64, ClientError>> = found
        .into_iter()
        .map(|node| node.map(|node| node.attr.size))
        .collect();
    let not_found = || Err(FsError::NotFound.into());
    assert_eq!(sizes, [Ok(5), Ok(5), Ok(8), not_found(), Ok(0)]);

    let files: Vec<FileToRead<'_>> = names.iter().map(|name| to_read(name, 3)).collect();
    let read = client.open_read_many(&ME, &files);
    let refused = |error: FsError| Err(ClientError::from(error));
    assert_eq!(
        read,
        [
            Ok(b"pan".to_vec()),
            refused(FsError::Access),
            Ok(b"one".to_vec()),
            refused(FsError::NotFound),
            refused(FsError::Invalid)
        ]
    );
    let opened = |request: &Request| request.operation().is_remembered();
    assert!(!first.asked().iter().any(|asked| opened(&asked.request)));
}

#[test]
fn a_file_that_is_replaced_between_its_name_and_its_bytes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let looks = AtomicU64::new(0);
    let _server = Fake::start(&map, 0, move |request| {
        let RequestBody::Shard(asked) = request else {
            return unexpected(request);
        };
        match &asked.request {
            Request::Lookup(op::Lookup { name, .. }) if *name == self::name("none") => {
                refuse(FsError::NotFound)
            }
            Request::Lookup(_) => match looks.fetch_add(1, Ordering::SeqCst) {
                0 => ok(entry(filled(Ino(50), b"old"), ShardId(0))),
                _ => ok(entry(filled(Ino(51), b"new"), ShardId(0))),
            },
            Request::ReadInline(op::ReadInline { ino: Ino(51) })
            | Request::GetAttr(op::GetAttr { ino: Ino(51) }) => {
                ok(Reply::Inode(filled(Ino(51), b"new")))
            }
            // Another client has renamed a file over it.
            _ => refuse(FsError::Stale),
        }
    });
    let client = client(&map);
    let (file, none) = (name("file"), name("none"));
    let read = client.open_read_many(&ME, &[to_read(&file, 9), to_read(&none, 9)]);
    assert_eq!(read, [Ok(b"new".to_vec()), Err(FsError::NotFound.into())]);
}

#[test]
fn a_new_file_that_is_removed_before_it_has_its_bytes_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let _server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(asked) => match &asked.request {
            Request::Create(_) => ok(entry(file(Ino(100)), ShardId(0))),
            _ => refuse(FsError::Stale),
        },
        _ => unexpected(request),
    });
    let client = client(&map);
    let name = name("file");
    let new = NewFile {
        dir: Ino::ROOT,
        name: &name,
        mode: 0o644.into(),
        contents: b"pando",
    };
    let made = client.create_many(&ME, &[new]).remove(0);
    assert_eq!(made.map(|node| node.ino), Ok(Ino(100)));
}

#[test]
fn a_missing_name_is_looked_up_once() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, |request| match request {
        RequestBody::Shard(_) => refuse(FsError::NotFound),
        _ => unexpected(request),
    });
    let client = client(&map);
    let names = names(3);
    let wanted: Vec<(Ino, &Name)> = names.iter().map(|name| (Ino::ROOT, name)).collect();
    let found = client.stat_many(&ME, &wanted);
    assert!(
        found
            .iter()
            .all(|found| *found == Err(FsError::NotFound.into()))
    );
    assert_eq!(server.asked().len(), 3);
}
