//! Keys and values of the store, pinned byte by byte; `docs/data-layout.md` describes them.

use pandofs_api::Refusal;
use pandofs_formats::samples::{self, DIR, FILE, TIME, name};
use pandofs_formats::{Golden, check, variants};
use pandofs_namespace::Meta;
use pandofs_namespace::keys::{self, FORMAT_VERSION, Kind, Role};
use pandofs_namespace::records::{
    Body, EntryRecord, InodeRecord, NumbersRecord, Part, PartsRecord, PathLineRecord, PathRecord,
    ReclaimRecord, SlotRecord, SplitRecord, StagingRecord, decode, encode,
};
use pandofs_placement::PartitionIndex;
use pandofs_types::{Acls, FileKind, FsId, Ino, Position, SessionId, ShardId, SlotId, Time, TxId};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

const RULE: &str = "\
Keys and values of the store, in the format FORMAT_VERSION of crates/core/namespace/src/keys.rs.
A store that is there keeps the bytes it has: any change here needs a new FORMAT_VERSION.";

fn path(of: &str) -> String {
    format!(
        "{}/tests/golden/{of}-{FORMAT_VERSION}.txt",
        env!("CARGO_MANIFEST_DIR")
    )
}

variants!(kind_of, KINDS, Kind:
    Meta, Inode, Entry, Parts, Forwarding, Xattr, Transaction, Slot, Reclaim, Split, Staging, Staged,
    Horizon, LockHolder, Leaseholder, Numbers, Grantholder, Path, PathPointer, PathLine, PathLog, Data);
variants!(body_of, BODIES, Body: Nothing, Symlink, Inline, Striped, Dir, Sparse);
variants!(reclaim_of, RECLAIMS, ReclaimRecord: Orphan, Gone, Truncate, Fill);

const SHARD: ShardId = ShardId(0x0203);
const POSITION: Position = Position(0x0102_0304_0506_0780);

#[test]
fn keys_are_pinned() {
    let leaf = name("leaf");
    let (tx, split) = (samples::tx(), samples::split_id());
    let session = SessionId(0x0123_4567_89ab_cdef);
    let all = [
        (Kind::Meta, "Meta", keys::meta(SHARD)),
        (Kind::Inode, "Inode", keys::inode(SHARD, FILE)),
        (
            Kind::Entry,
            "Entry",
            keys::entry(SHARD, DIR, POSITION, &leaf),
        ),
        (Kind::Parts, "Parts", keys::parts(SHARD, DIR)),
        (
            Kind::Forwarding,
            "Forwarding",
            keys::forwarding(SHARD, FILE),
        ),
        (
            Kind::Xattr,
            "Xattr",
            keys::xattr(SHARD, FILE, b"user.colour"),
        ),
        (
            Kind::Transaction,
            "Transaction coordinator",
            keys::transaction(SHARD, Role::Coordinator, tx, 0),
        ),
        (
            Kind::Transaction,
            "Transaction participant",
            keys::transaction(SHARD, Role::Participant, tx, 300),
        ),
        (Kind::Slot, "Slot", keys::slot(SHARD, session, SlotId(7))),
        (Kind::Reclaim, "Reclaim", keys::reclaim(SHARD, FILE)),
        (Kind::Split, "Split", keys::split(SHARD, DIR)),
        (Kind::Staging, "Staging", keys::staging(SHARD, split)),
        (Kind::Staged, "Staged", keys::staged(SHARD, split, &leaf)),
        (Kind::Horizon, "Horizon", keys::horizon(SHARD, ShardId(5))),
        (
            Kind::LockHolder,
            "LockHolder",
            keys::lock_holder(SHARD, session),
        ),
        (
            Kind::Leaseholder,
            "Leaseholder",
            keys::leaseholder(SHARD, session),
        ),
        (Kind::Numbers, "Numbers", keys::numbers(SHARD, session)),
        (
            Kind::Grantholder,
            "Grantholder",
            keys::grantholder(SHARD, session),
        ),
        (Kind::Path, "Path", keys::path(SHARD, 0x00ab_cdef)),
        (
            Kind::PathPointer,
            "PathPointer",
            keys::path_pointer(SHARD, 0x00ab_cdef),
        ),
        (Kind::PathLine, "PathLine", keys::path_line(SHARD, 300)),
        (Kind::PathLog, "PathLog", keys::path_log(SHARD)),
        (Kind::Data, "Data", keys::data(SHARD, FILE)),
    ];
    check(&path("keys"), RULE, |golden| {
        for (kind, name, key) in &all {
            assert_eq!(Kind::from_byte(key[0]), Some(*kind), "{name}");
            assert_eq!(key[..3], keys::prefix(*kind, SHARD), "{name}");
            golden.bytes(name, key);
        }
        golden.complete("Kind", KINDS, all.iter().map(|(kind, ..)| kind_of(kind)));
    });
}

#[test]
fn keys_are_read_back() {
    let key = keys::entry(SHARD, DIR, POSITION, &name("leaf"));
    assert_eq!(keys::parse_entry(&key), Some((DIR, POSITION, name("leaf"))));
    for key in [
        keys::inode(SHARD, FILE),
        keys::data(SHARD, FILE),
        keys::parts(SHARD, FILE),
        keys::forwarding(SHARD, FILE),
        keys::reclaim(SHARD, FILE),
        keys::split(SHARD, FILE),
        keys::xattr(SHARD, FILE, b"user.colour"),
    ] {
        assert_eq!(keys::parse_ino(&key), Some(FILE), "{key:02x?}");
    }
    let split = samples::split_id();
    assert_eq!(keys::parse_split(&keys::staging(SHARD, split)), Some(split));
    let staged = keys::staged(SHARD, split, &name("leaf"));
    assert_eq!(keys::parse_split(&staged), Some(split));
}

#[test]
fn keys_that_are_cut_short_are_not_read() {
    let entry = keys::entry(SHARD, DIR, POSITION, &name("leaf"));
    let staging = keys::staging(SHARD, samples::split_id());
    // Kind, shard, directory, position, and one byte of a name at least.
    for length in 0..20 {
        assert_eq!(keys::parse_entry(&entry[..length]), None, "{length} bytes");
    }
    for length in 0..11 {
        assert_eq!(keys::parse_ino(&entry[..length]), None, "{length} bytes");
    }
    for length in 0..staging.len() {
        assert_eq!(
            keys::parse_split(&staging[..length]),
            None,
            "{length} bytes"
        );
    }
}

fn pin<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    golden: &mut Golden,
    name: &str,
    value: &T,
) {
    golden.value(name, value, encode, |bytes| decode("sample", bytes));
}

fn inode(kind: FileKind, rdev: u32, body: Body) -> InodeRecord {
    InodeRecord {
        kind,
        mode: 0o4751,
        uid: 1000,
        gid: 100,
        nlink: 2,
        rdev,
        size: 5_000_000_000,
        atime: Time(TIME.0 + 1),
        mtime: Time(TIME.0 + 2),
        ctime: Time(TIME.0 + 3),
        btime: Time(-1),
        body,
        xattrs: 3,
        xattr_bytes: 1_000,
        trail: vec![ShardId(1), ShardId(300)],
        acls: Acls::default(),
        may_be_named: false,
        truncations: 300,
    }
}

#[test]
fn inodes_and_entries_are_pinned() {
    let inline = Body::Inline {
        held: 300,
        layout: samples::layout(),
    };
    let inodes = [
        ("fifo", inode(FileKind::Fifo, 0, Body::Nothing)),
        ("socket", inode(FileKind::Socket, 0, Body::Nothing)),
        ("char", inode(FileKind::Char, 0x0501, Body::Nothing)),
        ("block", inode(FileKind::Block, 0x0801, Body::Nothing)),
        (
            "symlink",
            inode(FileKind::Symlink, 0, Body::Symlink(b"../trunk".to_vec())),
        ),
        ("inline", inode(FileKind::File, 0, inline)),
        (
            "striped",
            inode(FileKind::File, 0, Body::Striped(samples::layout())),
        ),
        (
            "directory",
            inode(FileKind::Dir, 0, Body::Dir { parent: Ino::ROOT }),
        ),
        (
            "sparse",
            inode(FileKind::File, 0, Body::Sparse(samples::layout())),
        ),
        (
            "directory with lists",
            InodeRecord {
                acls: samples::acls(),
                ..inode(FileKind::Dir, 0, Body::Dir { parent: Ino::ROOT })
            },
        ),
        (
            "without a name yet",
            InodeRecord {
                nlink: 0,
                may_be_named: true,
                ..inode(FileKind::File, 0, Body::Striped(samples::layout()))
            },
        ),
    ];
    check(&path("inodes"), RULE, |golden| {
        for (name, inode) in &inodes {
            pin(golden, &format!("InodeRecord {name}"), inode);
        }
        golden.complete(
            "Body",
            BODIES,
            inodes.iter().map(|(_, inode)| body_of(&inode.body)),
        );
        for (name, kind) in samples::file_kinds() {
            let entry = EntryRecord {
                ino: FILE,
                kind,
                shard: ShardId(300),
            };
            pin(golden, &format!("EntryRecord {name}"), &entry);
        }
        pin(golden, "forwarding", &ShardId(300));
    });
}

fn parts(map: pandofs_placement::DirMap, settings: pandofs_api::DirSettings) -> PartsRecord {
    let part = |index, entries, subdirs| Part {
        index: PartitionIndex(index),
        entries,
        subdirs,
    };
    PartsRecord {
        map,
        mode: 0o2775,
        uid: 1000,
        gid: 100,
        settings,
        grain: samples::grain(),
        mtime: TIME,
        ctime: Time(TIME.0 + 1),
        parts: vec![part(0, 8_001, 3), part(2, 40, 0)],
        acls: samples::acls(),
        path: Some(samples::path()),
    }
}

#[test]
fn directories_are_pinned() {
    check(&path("directories"), RULE, |golden| {
        let plain = parts(samples::single_map(), pandofs_api::DirSettings::default());
        pin(golden, "PartsRecord never split", &plain);
        for (name, policy) in samples::policies() {
            let settings = pandofs_api::DirSettings {
                policy: Some(policy),
                ..samples::settings()
            };
            let record = parts(samples::split_map(), settings);
            pin(
                golden,
                &format!("PartsRecord split, policy {name}"),
                &record,
            );
        }
        let split = SplitRecord {
            split: samples::split_id(),
            index: PartitionIndex(1),
            child: PartitionIndex(3),
            target: ShardId(300),
            back: false,
        };
        pin(golden, "SplitRecord", &split);
        let staging = StagingRecord {
            dir: DIR,
            chunks: 3,
        };
        pin(golden, "StagingRecord", &staging);
        let path = PathRecord {
            path: samples::path(),
            dir: DIR,
            above: samples::above(),
            seen: 300,
        };
        pin(golden, "PathRecord", &path);
        let line = PathLineRecord {
            last: 300,
            sum: u64::MAX,
        };
        pin(golden, "PathLineRecord", &line);
        pin(golden, "staged, with its inode", &samples::split_item());
        let alone = pandofs_api::SplitItem {
            inode: None,
            ..samples::split_item()
        };
        pin(golden, "staged, without", &alone);
    });
}

#[test]
fn the_rest_is_pinned() {
    let layout = samples::layout();
    let trail = vec![ShardId(1), ShardId(300)];
    let reclaims = [
        ("Orphan", ReclaimRecord::Orphan),
        (
            "Gone",
            ReclaimRecord::Gone {
                layout: Some(layout),
                trail: trail.clone(),
            },
        ),
        (
            "Gone without data",
            ReclaimRecord::Gone {
                layout: None,
                trail,
            },
        ),
        (
            "Truncate",
            ReclaimRecord::Truncate {
                layout,
                size: 70_000,
                truncations: 301,
            },
        ),
        (
            "Fill",
            ReclaimRecord::Fill {
                tx: TxId {
                    coordinator: ShardId(3),
                    sequence: 9,
                },
                layout: samples::layout(),
                data: b"sap".to_vec(),
            },
        ),
    ];
    check(&path("shard"), RULE, |golden| {
        let meta = Meta {
            format: FORMAT_VERSION,
            fs: FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
            applied: 1_000,
            next_serial: 2_000,
            next_sequence: 3_000,
            entries: 4_000,
            inodes: 5_000,
            partitions: 6_000,
            splits: 7_000,
        };
        pin(golden, "Meta", &meta);
        for (name, reclaim) in &reclaims {
            pin(golden, &format!("ReclaimRecord {name}"), reclaim);
        }
        golden.complete(
            "ReclaimRecord",
            RECLAIMS,
            reclaims.iter().map(|(_, r)| reclaim_of(r)),
        );
        pin(golden, "horizon", &samples::horizon());
        let blocks = vec![(300, 400), (70_000, 70_001)];
        pin(
            golden,
            "NumbersRecord",
            &NumbersRecord {
                blocks,
                unordered: vec![70, 72],
            },
        );
        // A slot's answer is what was sent: whatever changes a reply changes stores, too.
        for (name, reply) in samples::replies() {
            let slot = SlotRecord {
                sequence: 300,
                result: Ok(reply),
            };
            pin(golden, &format!("SlotRecord {name}"), &slot);
        }
        for (name, refusal) in samples::refusals() {
            let slot = SlotRecord {
                sequence: 300,
                result: Err::<_, Refusal>(refusal),
            };
            pin(golden, &format!("SlotRecord refused, {name}"), &slot);
        }
    });
}

#[test]
fn a_value_with_something_behind_it_is_not_read() {
    let mut bytes = encode(&ReclaimRecord::Orphan);
    assert_eq!(
        decode::<ReclaimRecord>("reclaim record", &bytes).unwrap(),
        ReclaimRecord::Orphan
    );
    bytes.push(0);
    let error = decode::<ReclaimRecord>("reclaim record", &bytes).unwrap_err();
    assert!(error.to_string().contains("1 bytes too many"), "{error}");
}
