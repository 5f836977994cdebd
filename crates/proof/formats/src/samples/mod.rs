//! Samples of everything that is said to shards and servers, and the values they are made of.
//!
//! The values are small and all different, so that two fields that change places change the bytes.
//!
//! Each list has every variant of its enum at least once, under a name that begins with the variant's.

mod data;
mod reply;
mod request;
mod step;

pub use data::{admin_replies, admin_requests, data_replies, data_requests};
pub use reply::{entry_reply, inode_reply, refusals, replies};
pub use request::{path_operations, request_key, requests, shard_request};
pub use step::{
    above, adopt, age, commit_messages, horizon, moved_inode, new_part, path, peer_messages,
    refused, split_chunk, split_id, split_item, steps, trace_context, tx,
};

use pandofs_api::{DirSettings, Layout, LayoutChoice};
use pandofs_placement::{
    DirBounds, DirMap, DirPolicy, FileBounds, FilePolicy, GrainState, Granularity, PartitionIndex,
    Placing,
};
use pandofs_types::{
    Acl, AclEntry, Acls, Attr, Capabilities, Credentials, FileKind, FileLock, FsError, Ino,
    LockKind, LockMode, LockRange, Name, ServerId, ShardId, Time,
};

/// Samples with their names.
pub type Named<T> = Vec<(&'static str, T)>;

/// A directory born on shard 2.
pub const DIR: Ino = Ino(2 << Ino::SERIAL_BITS | 0x21);
/// A file born on shard 1.
pub const FILE: Ino = Ino(1 << Ino::SERIAL_BITS | 0x1234);
/// 2025-01-01 00:00:00 UTC and 1 ns.
pub const TIME: Time = Time(1_735_689_600_000_000_001);

/// # Panics
/// When `text` is no name.
pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap_or_else(|error| panic!("'{text}': {error}"))
}

/// With supplementary groups and capabilities.
pub fn caller() -> Credentials {
    Credentials {
        uid: 1000,
        gid: 100,
        groups: vec![27, 70_000],
        capabilities: Capabilities::DAC_READ_SEARCH.with(Capabilities::SETFCAP),
    }
}

/// Over three of four servers, not from the first one on.
pub fn layout() -> Layout {
    Layout {
        unit: 1 << 20,
        count: 3,
        first: ServerId(2),
        servers: 4,
    }
}

/// Every kind of inode.
pub fn file_kinds() -> Named<FileKind> {
    vec![
        ("File", FileKind::File),
        ("Dir", FileKind::Dir),
        ("Symlink", FileKind::Symlink),
        ("Fifo", FileKind::Fifo),
        ("Socket", FileKind::Socket),
        ("Char", FileKind::Char),
        ("Block", FileKind::Block),
    ]
}

/// Every error.
pub fn fs_errors() -> Named<FsError> {
    vec![
        ("NotFound", FsError::NotFound),
        ("Exists", FsError::Exists),
        ("NotDir", FsError::NotDir),
        ("IsDir", FsError::IsDir),
        ("NotEmpty", FsError::NotEmpty),
        ("Access", FsError::Access),
        ("NotPermitted", FsError::NotPermitted),
        ("Invalid", FsError::Invalid),
        ("NameTooLong", FsError::NameTooLong),
        ("TooManyLinks", FsError::TooManyLinks),
        ("NoSpace", FsError::NoSpace),
        ("NoAttribute", FsError::NoAttribute),
        ("TooBig", FsError::TooBig),
        ("FileTooBig", FsError::FileTooBig),
        ("Stale", FsError::Stale),
        ("NotSupported", FsError::NotSupported),
        ("Busy", FsError::Busy),
        ("Io", FsError::Io),
        ("WouldBlock", FsError::WouldBlock),
        ("Deadlock", FsError::Deadlock),
        ("NoLocks", FsError::NoLocks),
        ("Interrupted", FsError::Interrupted),
    ]
}

/// Every placement policy.
pub fn policies() -> Named<DirPolicy> {
    vec![
        (
            "Ddg",
            DirPolicy::Ddg {
                dir_depth: 4,
                dir_width: 300,
            },
        ),
        ("Random", DirPolicy::Random),
        ("Subtree", DirPolicy::Subtree),
        ("CrushPath", DirPolicy::CrushPath),
        (
            "Adaptive",
            DirPolicy::Adaptive(DirBounds {
                least_depth: 2,
                most_depth: 6,
                least_width: 4,
                most_width: 300,
            }),
        ),
    ]
}

/// Settings of a directory, all given.
pub fn settings() -> DirSettings {
    DirSettings {
        threshold: Some(1_000),
        max_partitions: Some(16),
        initial_partitions: Some(2),
        policy: Some(DirPolicy::Random),
        layout: Some(layout_choice()),
        file_policy: Some(FilePolicy::Ddg { file_width: 300 }),
    }
}

/// Every policy for the inodes of files.
pub fn file_policies() -> Named<FilePolicy> {
    vec![
        ("WithEntry", FilePolicy::WithEntry),
        ("Ddg", FilePolicy::Ddg { file_width: 300 }),
        (
            "Adaptive",
            FilePolicy::Adaptive(FileBounds {
                least: 8_000,
                most: 1 << 20,
            }),
        ),
    ]
}

/// A choice of all of a layout.
pub fn layout_choice() -> LayoutChoice {
    LayoutChoice {
        unit: Some(65_536),
        count: Some(2),
        first: Some(ServerId(3)),
    }
}

/// Bytes 16 to the last one.
pub fn lock() -> FileLock {
    FileLock {
        kind: LockKind::Record,
        owner: 0x0123_4567_89ab_cdef,
        pid: 4_321,
        mode: LockMode::Exclusive,
        range: LockRange {
            first: 16,
            last: LockRange::MAX,
        },
    }
}

/// In the middle of a distribution unit.
pub fn grain() -> GrainState {
    GrainState {
        dir_depth: 3,
        dir_shard: ShardId(5),
        dir_num: 12,
        file_shard: ShardId(2),
        file_num: 200,
    }
}

/// Three numbers that differ.
pub fn granularity() -> Granularity {
    Granularity {
        dir_depth: 5,
        dir_width: 16,
        file_width: 8_000,
    }
}

/// Loads by which something is placed.
pub fn placing() -> Placing {
    Placing {
        granularity: granularity(),
        shard: ShardId(300),
    }
}

/// An access list and a default one.
pub fn acls() -> Acls {
    let named = |id, rights| AclEntry { id, rights };
    let access = Acl {
        owner: 7,
        group: 5,
        other: 1,
        mask: Some(5),
        users: vec![named(1001, 6), named(70_000, 0)],
        groups: vec![named(27, 4)],
    };
    let default = Acl {
        owner: 6,
        group: 4,
        other: 0,
        mask: None,
        users: vec![],
        groups: vec![],
    };
    Acls {
        access: Some(Box::new(access)),
        default: Some(Box::new(default)),
    }
}

/// The map of a directory that never split.
pub fn single_map() -> DirMap {
    DirMap::single(ShardId(2))
}

/// The map of a directory with partitions 0, 1 and 2, and a slot for one more.
pub fn split_map() -> DirMap {
    let mut map = DirMap::with_slots(vec![ShardId(2), ShardId(3), ShardId(300), ShardId(1)], 2);
    map.activate(PartitionIndex(2));
    map
}

/// Attributes in which no two numbers are alike.
pub fn attr(ino: Ino, kind: FileKind) -> Attr {
    Attr {
        ino,
        kind,
        mode: 0o4751,
        nlink: 2,
        uid: 1000,
        gid: 100,
        rdev: 0x0801,
        size: 5_000_000_000,
        blocks: 9_765_625,
        atime: Time(TIME.0 + 1),
        mtime: Time(TIME.0 + 2),
        ctime: Time(TIME.0 + 3),
        btime: Time(-1),
        has_xattrs: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants;
    use pandofs_api::op::PathOperation;
    use pandofs_api::{
        AdminReply, AdminRequest, CommitMessage, DataReply, DataRequest, PeerMessage, Refusal,
        Refused, Reply, Request, Step,
    };
    use std::collections::BTreeSet;

    fn assert_complete<T>(
        samples: &Named<T>,
        name_of: fn(&T) -> &'static str,
        all: &[&'static str],
    ) {
        let names: BTreeSet<_> = samples.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), samples.len(), "a name stands twice");
        for (name, sample) in samples {
            let first = name.split(' ').next();
            assert_eq!(
                first,
                Some(name_of(sample)),
                "'{name}' is another variant's name"
            );
        }
        let seen: BTreeSet<_> = samples.iter().map(|(_, sample)| name_of(sample)).collect();
        let missing: Vec<_> = all
            .iter()
            .filter(|variant| !seen.contains(**variant))
            .collect();
        assert!(missing.is_empty(), "no sample of {missing:?}");
    }

    variants!(kind_of, KINDS, FileKind: File, Dir, Symlink, Fifo, Socket, Char, Block);
    variants!(policy_of, POLICIES, DirPolicy: Ddg, Random, Subtree, CrushPath, Adaptive);
    variants!(file_policy_of, FILE_POLICIES, FilePolicy: WithEntry, Ddg, Adaptive);
    variants!(error_of, ERRORS, FsError:
        NotFound, Exists, NotDir, IsDir, NotEmpty, Access, NotPermitted, Invalid, NameTooLong,
        TooManyLinks, NoSpace, NoAttribute, TooBig, FileTooBig, Stale, NotSupported, Busy, Io,
        WouldBlock, Deadlock, NoLocks, Interrupted);
    variants!(request_of, REQUESTS, Request:
        Lookup, Create, Mkdir, Unlink, Rmdir, Link, Rename, GetAttr, SetAttr, Open, Release, Reopen,
        ReadLink, ReadInline, WriteInline, Stripe, WroteData, GetXattr, ListXattr, SetXattr,
        RemoveXattr, Sync, ReadDir, DirPart, SetDirSettings, Exchange, Allocate, AppendInline,
        Extend, Accessed, SetLock, Unlock, GetLock, Closing, Relock,
        CreateUnnamed, SetLayout, Spread, Followed, Grant, Renew, TakeNumbers, Batch, WriteNew, MkdirAway, BeginGrants,
        ByPath, KeepPath, RmdirAway);
    variants!(path_operation_of, PATH_OPERATIONS, PathOperation:
        Lookup, OpenName, ReadDir, Create, Mkdir, Unlink, Rmdir, Link, Rename, Exchange);
    variants!(reply_of, REPLIES, Reply:
        Done, Entry, Inode, Removed, Renamed, Link, Value, Names, Entries, Part, Exchanged, Lock,
        LostLocks, NotClosed, Granted, Numbers, Batch);
    variants!(refusal_of, REFUSALS, Refusal:
        Fs, Misdirected, NewNameMisdirected, Moved, WrongServer, TryAgain, NotInline,
        StaleSequence, Malformed, NotYet, ByPath);
    variants!(step_of, STEPS, Step:
        Insert, Remove, NewDir, NewPart, Link, Unlink, Touch, DropDir, DropPart, SetParent,
        HoldAncestors, SetDir, Adopt, GiveUp, Swap, SetAcl, NewFile, Whiteout, PathLine);
    variants!(refused_of, REFUSED, Refused: Fs, Busy, Misdirected, Moved, SameFile, Unknown);
    variants!(commit_of, COMMITS, CommitMessage:
        Do, Prepared, Committed, Refused, Ack, Outcome, Finished, Inquire, InquireOutcome,
        Vote, PreCommit, PreCommitted);
    variants!(peer_of, PEERS, PeerMessage:
        Commit, SplitChunk, SplitChunkDone, SplitAbandoned, MapNotice, MapNoticeDone, Forwarded,
        ForgetForwarding, ForgetForwardingDone, Data, DataDone, MergeAsk, MergeGo, SlotsAsk, SlotsTold,
        Load, Trace);
    variants!(data_request_of, DATA_REQUESTS, DataRequest:
        Read, Write, Truncate, Remove, Sync, Usage, Space, Allocate, Seek, Fill);
    variants!(data_reply_of, DATA_REPLIES, DataReply:
        Done, Data, Usage, Space, Failed, Found, OtherTruncations);
    variants!(admin_request_of, ADMIN_REQUESTS, AdminRequest: Status, Map, Dump, Objects, Flush, Scrub, TakeMap, Activity);
    variants!(admin_reply_of, ADMIN_REPLIES, AdminReply: Done, Status, Map, Pairs, Objects, Failed, Scrub, Activity);

    #[test]
    fn there_is_a_sample_of_every_variant() {
        assert_complete(&file_kinds(), kind_of, KINDS);
        assert_complete(&policies(), policy_of, POLICIES);
        assert_complete(&file_policies(), file_policy_of, FILE_POLICIES);
        assert_complete(&fs_errors(), error_of, ERRORS);
        assert_complete(&requests(), request_of, REQUESTS);
        assert_complete(&path_operations(), path_operation_of, PATH_OPERATIONS);
        assert_complete(&replies(), reply_of, REPLIES);
        assert_complete(&refusals(), refusal_of, REFUSALS);
        assert_complete(&steps(), step_of, STEPS);
        assert_complete(&refused(), refused_of, REFUSED);
        assert_complete(&commit_messages(), commit_of, COMMITS);
        assert_complete(&peer_messages(), peer_of, PEERS);
        assert_complete(&data_requests(), data_request_of, DATA_REQUESTS);
        assert_complete(&data_replies(), data_reply_of, DATA_REPLIES);
        assert_complete(&admin_requests(), admin_request_of, ADMIN_REQUESTS);
        assert_complete(&admin_replies(), admin_reply_of, ADMIN_REPLIES);
    }
}
