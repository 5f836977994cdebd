//! Samples of the requests of clients to shards.

use super::step::{above, path};
use super::{DIR, FILE, Named, TIME, caller, layout_choice, lock, name, placing, settings};
use pandofs_api::op::{self, Early, EarlyOperation, PathOperation};
use pandofs_api::{Allocation, NewNode, Request, RequestKey, ShardRequest, XattrMode};
use pandofs_types::{
    Credentials, Epoch, LockKind, LockRange, NewMode, Position, SessionId, SetAttr, SetTime,
    ShardId, SlotId, Time,
};

/// Of a session with a large number, as real ones have.
pub fn request_key() -> RequestKey {
    RequestKey {
        session: SessionId(0x0123_4567_89ab_cdef),
        slot: SlotId(7),
        sequence: 300,
    }
}

/// A request with what every request carries.
pub fn shard_request(request: Request) -> ShardRequest {
    ShardRequest {
        shard: ShardId(2),
        epoch: Epoch(3),
        key: request_key(),
        caller: caller(),
        request,
    }
}

fn create(node: NewNode) -> Request {
    Request::Create(op::Create {
        dir: DIR,
        name: name("leaf"),
        node,
        mode: 0o644,
        umask: 0o022,
        open: true,
    })
}

fn set_xattr(mode: XattrMode) -> Request {
    Request::SetXattr(op::SetXattr {
        ino: FILE,
        name: b"user.colour".to_vec(),
        value: b"yellow".to_vec(),
        mode,
    })
}

fn allocate(allocation: Allocation) -> Request {
    Request::Allocate(op::Allocate {
        ino: FILE,
        offset: 130,
        length: 300,
        allocation,
    })
}

/// Every request.
pub fn requests() -> Named<Request> {
    let (dir, ino) = (DIR, FILE);
    let symlink = NewNode::Symlink {
        target: b"../trunk".to_vec(),
    };
    let set_all = SetAttr {
        mode: Some(0o600),
        uid: Some(1),
        gid: Some(2),
        size: Some(10_000),
        atime: Some(SetTime::Now),
        mtime: Some(SetTime::At(TIME)),
        clear_set_id: true,
    };
    let mut all = vec![
        (
            "Lookup",
            Request::Lookup(op::Lookup {
                dir,
                name: name("leaf"),
            }),
        ),
        ("Create file", create(NewNode::File)),
        ("Create symlink", create(symlink)),
        ("Create fifo", create(NewNode::Fifo)),
        ("Create socket", create(NewNode::Socket)),
        ("Create char", create(NewNode::Char { rdev: 0x0501 })),
        ("Create block", create(NewNode::Block { rdev: 0x0801 })),
        (
            "Mkdir",
            Request::Mkdir(op::Mkdir {
                dir,
                name: name("branch"),
                mode: 0o755,
                umask: 0o022,
            }),
        ),
        (
            "Unlink",
            Request::Unlink(op::Unlink {
                dir,
                name: name("leaf"),
            }),
        ),
        (
            "Rmdir",
            Request::Rmdir(op::Rmdir {
                dir,
                name: name("branch"),
            }),
        ),
        (
            "Link",
            Request::Link(op::Link {
                dir,
                name: name("twin"),
                ino,
                inode_shard: ShardId(1),
            }),
        ),
        (
            "Rename",
            Request::Rename(op::Rename {
                dir,
                name: name("leaf"),
                new_dir: pandofs_types::Ino::ROOT,
                new_name: name("fallen"),
                new_shard: ShardId(4),
                no_replace: true,
                whiteout: true,
            }),
        ),
        ("GetAttr", Request::GetAttr(op::GetAttr { ino })),
        (
            "SetAttr all",
            Request::SetAttr(op::SetAttr { ino, set: set_all }),
        ),
        (
            "SetAttr nothing",
            Request::SetAttr(op::SetAttr {
                ino,
                set: SetAttr::default(),
            }),
        ),
        (
            "Open",
            Request::Open(op::Open {
                ino,
                access: 6,
                truncate: true,
                data: true,
            }),
        ),
        (
            "Release",
            Request::Release(op::Release {
                inos: vec![ino, dir],
            }),
        ),
        (
            "Reopen",
            Request::Reopen(op::Reopen {
                opens: vec![(ino, 2)],
            }),
        ),
        ("ReadLink", Request::ReadLink(op::ReadLink { ino })),
        ("ReadInline", Request::ReadInline(op::ReadInline { ino })),
        (
            "WriteInline",
            Request::WriteInline(op::WriteInline {
                ino,
                offset: 130,
                data: b"sap".to_vec(),
            }),
        ),
        ("Stripe", Request::Stripe(op::Stripe { ino })),
        (
            "WroteData",
            Request::WroteData(op::WroteData {
                ino,
                start: 130,
                end: 1 << 33,
                mtime: Time(TIME.0 + 9),
                sparse: true,
                truncations: 300,
            }),
        ),
        (
            "GetXattr",
            Request::GetXattr(op::GetXattr {
                ino,
                name: b"user.colour".to_vec(),
            }),
        ),
        ("ListXattr", Request::ListXattr(op::ListXattr { ino })),
        ("SetXattr either", set_xattr(XattrMode::Either)),
        ("SetXattr create", set_xattr(XattrMode::Create)),
        ("SetXattr replace", set_xattr(XattrMode::Replace)),
        (
            "RemoveXattr",
            Request::RemoveXattr(op::RemoveXattr {
                ino,
                name: b"user.colour".to_vec(),
            }),
        ),
        ("Sync", Request::Sync(op::Sync)),
        (
            "ReadDir",
            Request::ReadDir(op::ReadDir {
                dir,
                from: Position::from_hash(0x00ab_cdef_0123_4567).with_ordinal(3),
                plus: true,
                max_entries: 192,
                max_bytes: 65_536,
            }),
        ),
        ("DirPart", Request::DirPart(op::DirPart { dir })),
        (
            "SetDirSettings",
            Request::SetDirSettings(op::SetDirSettings {
                dir,
                settings: settings(),
            }),
        ),
        (
            "Exchange",
            Request::Exchange(op::Exchange {
                dir,
                name: name("leaf"),
                new_dir: pandofs_types::Ino::ROOT,
                new_name: name("fallen"),
                new_shard: ShardId(4),
            }),
        ),
        (
            "Allocate reserve",
            allocate(Allocation::Reserve { keep_size: true }),
        ),
        ("Allocate punch", allocate(Allocation::Punch)),
        (
            "Allocate zero",
            allocate(Allocation::Zero { keep_size: false }),
        ),
        (
            "AppendInline",
            Request::AppendInline(op::AppendInline {
                ino,
                data: b"sap".to_vec(),
            }),
        ),
        ("Extend", Request::Extend(op::Extend { ino, length: 300 })),
        (
            "Accessed",
            Request::Accessed(op::Accessed {
                inos: vec![(ino, TIME), (dir, Time(TIME.0 + 1))],
                rule: pandofs_types::AtimeRule::Strict,
            }),
        ),
        (
            "SetLock",
            Request::SetLock(op::SetLock {
                ino,
                lock: lock(),
                blocking: true,
                wait_ms: 10_000,
            }),
        ),
        (
            "Unlock",
            Request::Unlock(op::Unlock {
                ino,
                kind: LockKind::Flock,
                owner: 300,
                range: LockRange::WHOLE,
            }),
        ),
        (
            "GetLock",
            Request::GetLock(op::GetLock { ino, lock: lock() }),
        ),
        (
            "Closing",
            Request::Closing(op::Closing {
                ino,
                owners: vec![(LockKind::Flock, 300), (LockKind::Record, 9)],
            }),
        ),
        (
            "Relock",
            Request::Relock(op::Relock {
                locks: vec![(ino, lock())],
                last: true,
            }),
        ),
        (
            "CreateUnnamed",
            Request::CreateUnnamed(op::CreateUnnamed {
                dir,
                at: Position(300),
                mode: 0o640,
                umask: 0o022,
                may_be_named: true,
            }),
        ),
        (
            "SetLayout",
            Request::SetLayout(op::SetLayout {
                ino,
                layout: layout_choice(),
            }),
        ),
        (
            "Spread",
            Request::Spread(op::Spread {
                dir,
                entries_per_second: 2_000,
            }),
        ),
        ("Followed", Request::Followed(op::Followed { ino })),
        ("Grant", Request::Grant(op::Grant { dir })),
        ("BeginGrants", Request::BeginGrants(op::BeginGrants)),
        (
            "KeepPath",
            Request::KeepPath(op::KeepPath {
                path: path(),
                dir: DIR,
                above: above(),
                seen: 300,
            }),
        ),
        (
            "Renew",
            Request::Renew(op::Renew {
                incarnation: 0x0123_4567_89ab_cdef,
            }),
        ),
        (
            "TakeNumbers",
            Request::TakeNumbers(op::TakeNumbers {
                count: 300,
                unordered: 64,
            }),
        ),
    ];
    let write_new = Request::WriteNew(op::WriteNew {
        ino: FILE,
        data: b"all of it".to_vec(),
    });
    all.push(("WriteNew", write_new));
    let batch = Request::Batch(batch(all.iter().map(|(_, request)| request)));
    all.push(("Batch", batch));
    let away = Request::MkdirAway(op::MkdirAway {
        incarnation: u64::MAX,
        mkdir: op::Mkdir {
            dir,
            name: name("branch"),
            mode: 0o755,
            umask: 0o022,
        },
        time: TIME,
        random: u64::MAX,
        placing: Some(placing()),
        ino: DIR,
    });
    all.push(("MkdirAway", away));
    let away = Request::RmdirAway(op::RmdirAway {
        incarnation: u64::MAX,
        home_incarnation: 5,
        rmdir: op::Rmdir {
            dir,
            name: name("branch"),
        },
        time: TIME,
        random: u64::MAX,
        ino: DIR,
    });
    all.push(("RmdirAway", away));
    let open = PathOperation::OpenName(op::OpenName {
        dir,
        name: name("leaf"),
        access: 6,
        create: Some(NewMode {
            mode: 0o644,
            umask: 0o22,
        }),
    });
    let by_path = all.iter().filter_map(|(_, request)| in_directory(request));
    let mut by_path: Vec<_> = by_path.chain([open]).map(by_path_of).collect();
    by_path.dedup_by_key(|(name, _)| *name);
    all.extend(by_path);
    all
}

/// Every operation in a directory that is named by its path.
pub fn path_operations() -> Named<PathOperation> {
    let operation = |(name, request): (&'static str, Request)| match request {
        Request::ByPath(by_path) => Some((name.strip_prefix("ByPath ")?, by_path.operation)),
        _ => None,
    };
    requests().into_iter().filter_map(operation).collect()
}

fn in_directory(request: &Request) -> Option<PathOperation> {
    Some(match request.clone() {
        Request::Lookup(op) => PathOperation::Lookup(op),
        Request::ReadDir(op) => PathOperation::ReadDir(op),
        Request::Create(op) => PathOperation::Create(op),
        Request::Mkdir(op) => PathOperation::Mkdir(op),
        Request::Unlink(op) => PathOperation::Unlink(op),
        Request::Rmdir(op) => PathOperation::Rmdir(op),
        Request::Link(op) => PathOperation::Link(op),
        Request::Rename(op) => PathOperation::Rename(op),
        Request::Exchange(op) => PathOperation::Exchange(op),
        _ => return None,
    })
}

macro_rules! by_path {
    ($($name:ident),+ $(,)?) => {
        fn by_path_of(mut operation: PathOperation) -> (&'static str, Request) {
            let name = match &operation {
                $(PathOperation::$name(_) => concat!("ByPath ", stringify!($name))),+
            };
            // A client does not know it.
            *operation.dir_mut() = op::ByPath::UNKNOWN;
            let new_path = matches!(operation, PathOperation::Rename(_)).then(path);
            let path = path();
            (name, Request::ByPath(op::ByPath { path, new_path, operation }))
        }
    };
}

pandofs_api::path_operations!(by_path);

/// A batch of all those that may be executed early.
fn batch<'a>(requests: impl Iterator<Item = &'a Request>) -> op::Batch {
    let early = requests
        .filter_map(EarlyOperation::of)
        .map(|operation| Early {
            caller: 1,
            time: TIME,
            random: u64::MAX,
            ino: matches!(operation, EarlyOperation::Create(_)).then_some(FILE),
            operation,
        });
    op::Batch {
        incarnation: u64::MAX,
        callers: vec![Credentials::ROOT, caller()],
        placing: Some(placing()),
        early: early.collect(),
    }
}
