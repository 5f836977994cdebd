//! Samples of the answers of shards.

use super::{
    DIR, FILE, Named, TIME, attr, layout, lock, name, placing, settings, single_map, split_map,
};
use pandofs_api::{
    BatchReply, DirEntry, DirPart, DirReply, EntriesReply, EntryReply, FileBody, GrantTerms,
    Granted, InodeReply, PathReply, Refusal, Reply,
};
use pandofs_types::{Epoch, FileKind, FsError, Ino, Position, ShardId, Time};

/// A file kept inline, with its data.
pub fn inode_reply() -> InodeReply {
    InodeReply {
        attr: attr(FILE, FileKind::File),
        body: FileBody::Inline {
            data: b"sap".to_vec(),
            layout: layout(),
        },
        dir: None,
        truncations: 0,
    }
}

fn striped() -> InodeReply {
    InodeReply {
        body: FileBody::Striped(layout()),
        truncations: 300,
        ..inode_reply()
    }
}

fn sparse() -> InodeReply {
    InodeReply {
        body: FileBody::Sparse(layout()),
        ..inode_reply()
    }
}

fn directory() -> InodeReply {
    InodeReply {
        attr: attr(DIR, FileKind::Dir),
        body: FileBody::None,
        dir: Some(Box::new(DirReply {
            map: split_map(),
            parent: Ino::ROOT,
            settings: settings(),
        })),
        truncations: 0,
    }
}

/// With the inode beside it.
pub fn entry_reply() -> EntryReply {
    EntryReply {
        ino: FILE,
        kind: FileKind::File,
        shard: ShardId(2),
        inode: Some(inode_reply()),
    }
}

/// Every reply.
pub fn replies() -> Named<Reply> {
    let elsewhere = EntryReply {
        inode: None,
        ..entry_reply()
    };
    let entry = |text, ordinal, inode| DirEntry {
        name: name(text),
        position: Position::from_hash(0x1000).with_ordinal(ordinal),
        ino: FILE,
        kind: FileKind::File,
        shard: ShardId(2),
        inode,
    };
    let entries = EntriesReply {
        entries: vec![entry("a", 0, None), entry("b", 1, Some(striped()))],
        next: Position::END,
        map: split_map(),
        parent: Some(Ino::ROOT),
        dir: DIR,
    };
    let part = DirPart {
        entries: 8_001,
        subdirs: 3,
        mtime: TIME,
        ctime: Time(TIME.0 + 1),
        map: single_map(),
    };
    vec![
        ("Done", Reply::Done),
        ("Entry", Reply::Entry(entry_reply())),
        ("Entry elsewhere", Reply::Entry(elsewhere)),
        ("Inode inline", Reply::Inode(inode_reply())),
        ("Inode striped", Reply::Inode(striped())),
        ("Inode sparse", Reply::Inode(sparse())),
        ("Inode directory", Reply::Inode(directory())),
        ("Removed", Reply::Removed { ino: FILE }),
        ("Renamed", Reply::Renamed { ino: DIR }),
        ("Link", Reply::Link(b"../trunk".to_vec())),
        ("Value", Reply::Value(b"yellow".to_vec())),
        (
            "Names",
            Reply::Names(vec![b"user.a".to_vec().into(), b"user.b".to_vec().into()]),
        ),
        ("Entries", Reply::Entries(entries)),
        ("Part", Reply::Part(part)),
        (
            "Exchanged",
            Reply::Exchanged {
                ino: FILE,
                other: DIR,
            },
        ),
        ("Lock", Reply::Lock(Some(lock()))),
        ("Lock none", Reply::Lock(None)),
        ("LostLocks", Reply::LostLocks(vec![(FILE, lock())])),
        ("NotClosed", Reply::NotClosed(vec![(FILE, ShardId(3))])),
        ("Granted", Reply::Granted(Some(Box::new(granted())))),
        ("Granted nothing", Reply::Granted(None)),
        (
            "Numbers",
            Reply::Numbers {
                first: FILE,
                count: 300,
                unordered: 64,
            },
        ),
        ("Batch", Reply::Batch(Box::new(batch_reply()))),
        (
            "Batch refused",
            Reply::Batch(Box::new(BatchReply {
                done: 2,
                refused: Some(Refusal::Fs(FsError::NotFound)),
                incarnation: None,
                ..batch_reply()
            })),
        ),
    ]
}

fn terms() -> GrantTerms {
    GrantTerms {
        time: TIME,
        placing: Some(placing()),
        is_low: true,
    }
}

fn granted() -> Granted {
    Granted {
        incarnation: 0x0123_4567_89ab_cdef,
        terms: terms(),
        pairs: vec![(b"key".to_vec().into(), b"value".to_vec().into())],
    }
}

fn batch_reply() -> BatchReply {
    BatchReply {
        done: 300,
        refused: None,
        incarnation: Some(0x0123_4567_89ab_cdef),
        terms: terms(),
    }
}

/// Every refusal.
pub fn refusals() -> Named<Refusal> {
    vec![
        ("Fs", Refusal::Fs(FsError::NotFound)),
        ("Misdirected", Refusal::Misdirected(Some(split_map()))),
        ("Misdirected unknown", Refusal::Misdirected(None)),
        (
            "NewNameMisdirected",
            Refusal::NewNameMisdirected(Some(single_map())),
        ),
        (
            "NewNameMisdirected unknown",
            Refusal::NewNameMisdirected(None),
        ),
        (
            "Moved",
            Refusal::Moved {
                ino: FILE,
                shard: ShardId(300),
            },
        ),
        ("WrongServer", Refusal::WrongServer { epoch: Epoch(4) }),
        ("TryAgain", Refusal::TryAgain),
        (
            "NotInline striped",
            Refusal::NotInline {
                layout: layout(),
                striped: true,
            },
        ),
        (
            "NotInline too large",
            Refusal::NotInline {
                layout: layout(),
                striped: false,
            },
        ),
        ("StaleSequence", Refusal::StaleSequence),
        ("Malformed", Refusal::Malformed("mode 0o10000".to_owned())),
        ("NotYet", Refusal::NotYet),
        (
            "ByPath Unknown",
            Refusal::ByPath(PathReply::Unknown { seen: 300 }),
        ),
        (
            "ByPath LeadsTo",
            Refusal::ByPath(PathReply::LeadsTo {
                dir: DIR,
                map: Some(split_map()),
            }),
        ),
    ]
}
