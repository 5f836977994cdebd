//! A small sound file system to plant problems in.
//!
//! ```text
//! /                   shard 0
//! /shared             shard 1: partition 0 on shard 1, partition 1 on shard 2
//! /shared/inner       shard 3
//! /shared/plain       with an attribute
//! /shared/linked      also /other
//! /shared/striped     on the servers 0 and 1
//! /shared/moved…      born on shard 1, moved to shard 2 with the split
//! ```

use crate::Tables;
use crate::inode::{Holds, Inode};
use crate::tables::EntryKey;
use pandofs_api::{DirSettings, Layout};
use pandofs_namespace::Meta;
use pandofs_namespace::records::{Body, EntryRecord, InodeRecord, Part, PartsRecord};
use pandofs_placement::{
    ClusterMap, DirMap, DirPolicy, GrainState, PartitionIndex, ServerInfo, Settings,
};
use pandofs_types::{FileKind, FsId, HashKey, Ino, Name, ServerId, ShardId, Time};

pub(crate) const ROOT_DIR: Ino = Ino::ROOT;
/// `/shared`
pub(crate) const SHARED: Ino = Ino(1 << Ino::SERIAL_BITS | 1);
/// `/shared/inner`
pub(crate) const INNER: Ino = Ino(3 << Ino::SERIAL_BITS | 1);
/// A file of `/shared` that its birth shard 1 gave to shard 2.
pub(crate) const MOVED: Ino = Ino(1 << Ino::SERIAL_BITS | 9);
/// `/shared/striped`
pub(crate) const STRIPED: Ino = Ino(1 << Ino::SERIAL_BITS | 8);

/// Numbers that no shard has given out yet begin here.
const NEXT_SERIAL: u64 = 100;

pub(crate) fn layout() -> Layout {
    Layout {
        unit: 4_096,
        count: 2,
        first: ServerId(0),
        servers: 4,
    }
}

fn map() -> ClusterMap {
    let server = |id: u16| ServerInfo {
        id: ServerId(id),
        addresses: vec![],
        weight: ServerInfo::WEIGHT_ONE,
        domain: String::new(),
    };
    ClusterMap::create(
        FsId(7),
        "check".into(),
        HashKey(1, 2),
        4,
        (0..4).map(server).collect(),
        DirPolicy::default(),
        Settings::default(),
    )
    .unwrap()
}

fn inode(kind: FileKind, nlink: u32, holds: Holds) -> Inode {
    Inode {
        kind,
        may_be_named: false,
        xattrs: 0,
        xattr_bytes: 0,
        nlink,
        holds,
    }
}

fn file(nlink: u32) -> Inode {
    let (held, layout) = (5, layout());
    inode(FileKind::File, nlink, Holds::Inline { held, layout })
}

/// As a shard stores it.
fn stored(inode: &Inode) -> InodeRecord {
    let body = match inode.holds {
        Holds::Nothing => Body::Nothing,
        Holds::Dir { parent } => Body::Dir { parent },
        Holds::Inline { held, layout } => Body::Inline { held, layout },
        Holds::Objects(layout) => Body::Striped(layout),
    };
    InodeRecord {
        kind: inode.kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        nlink: inode.nlink,
        rdev: 0,
        size: 0,
        atime: Time(0),
        mtime: Time(0),
        ctime: Time(0),
        btime: Time(0),
        body,
        xattrs: inode.xattrs,
        xattr_bytes: inode.xattr_bytes,
        trail: vec![],
        acls: pandofs_types::Acls::default(),
        may_be_named: inode.may_be_named,
        truncations: 0,
    }
}

fn parts(map: &DirMap, index: u32) -> PartsRecord {
    PartsRecord {
        path: None,
        map: map.clone(),
        mode: 0o755,
        uid: 0,
        gid: 0,
        settings: DirSettings::default(),
        grain: GrainState::root(map.home()),
        mtime: Time(0),
        ctime: Time(0),
        parts: vec![Part {
            index: PartitionIndex(index),
            entries: 0,
            subdirs: 0,
        }],
        acls: pandofs_types::Acls::default(),
    }
}

/// A file system with nothing wrong.
pub(crate) fn sound() -> Tables {
    let mut tables = Tables::empty(map().into());
    let dir = |parent| inode(FileKind::Dir, 1, Holds::Dir { parent });
    tables.inodes.insert((ShardId(0), ROOT_DIR), dir(ROOT_DIR));
    tables.inodes.insert((ShardId(1), SHARED), dir(ROOT_DIR));
    tables.inodes.insert((ShardId(3), INNER), dir(SHARED));
    let shared = DirMap::with_slots([1, 2, 3, 0].map(ShardId).to_vec(), 2);
    tables.parts.insert(
        (ShardId(0), ROOT_DIR),
        parts(&DirMap::single(ShardId(0)), 0),
    );
    tables.parts.insert((ShardId(1), SHARED), parts(&shared, 0));
    tables.parts.insert((ShardId(2), SHARED), parts(&shared, 1));
    tables
        .parts
        .insert((ShardId(3), INNER), parts(&DirMap::single(ShardId(3)), 0));

    enter(
        &mut tables,
        ROOT_DIR,
        "shared",
        SHARED,
        FileKind::Dir,
        ShardId(1),
    );
    enter(
        &mut tables,
        SHARED,
        "inner",
        INNER,
        FileKind::Dir,
        ShardId(3),
    );

    let plain = Ino::new(ShardId(1), 5);
    let linked = Ino::new(ShardId(1), 6);
    let mut with_attribute = file(1);
    with_attribute.xattrs = 1;
    with_attribute.xattr_bytes = 11;
    tables.xattrs.insert((ShardId(1), plain), (1, 11));
    tables.inodes.insert((ShardId(1), plain), with_attribute);
    tables.inodes.insert((ShardId(1), linked), file(2));
    tables.inodes.insert(
        (ShardId(1), STRIPED),
        inode(FileKind::File, 1, Holds::Objects(layout())),
    );
    enter(
        &mut tables,
        SHARED,
        "plain",
        plain,
        FileKind::File,
        ShardId(1),
    );
    enter(
        &mut tables,
        SHARED,
        "linked",
        linked,
        FileKind::File,
        ShardId(1),
    );
    enter(
        &mut tables,
        ROOT_DIR,
        "other",
        linked,
        FileKind::File,
        ShardId(1),
    );
    enter(
        &mut tables,
        SHARED,
        "striped",
        STRIPED,
        FileKind::File,
        ShardId(1),
    );
    tables.objects.insert((ServerId(0), STRIPED), 4_096);
    tables.objects.insert((ServerId(1), STRIPED), 100);

    tables.inodes.insert((ShardId(2), MOVED), file(1));
    tables.forwarding.insert((ShardId(1), MOVED), ShardId(2));
    let name = (0..)
        .map(|number| format!("moved{number}"))
        .find(|name| shared.shard_of(tables.map.hash_key.position(name.as_bytes())) == ShardId(2));
    enter(
        &mut tables,
        SHARED,
        &name.unwrap(),
        MOVED,
        FileKind::File,
        ShardId(2),
    );

    for (&place, inode) in &tables.inodes {
        if let Holds::Inline { held, .. } = inode.holds {
            tables.data.insert(place, held);
        }
    }
    for shard in (0..4).map(ShardId) {
        let meta = Meta {
            format: 1,
            fs: tables.map.fs,
            applied: 1,
            next_serial: NEXT_SERIAL,
            next_sequence: 1,
            entries: tables
                .entries
                .keys()
                .filter(|key| key.shard == shard)
                .count() as u64,
            inodes: tables.inodes.keys().filter(|(at, _)| *at == shard).count() as u64,
            partitions: tables.parts.keys().filter(|(at, _)| *at == shard).count() as u64,
            splits: 0,
        };
        tables.metas.insert(shard, meta);
    }
    tables
}

/// Puts a name where it belongs.
fn enter(tables: &mut Tables, dir: Ino, name: &str, ino: Ino, kind: FileKind, shard: ShardId) {
    let position = tables.map.hash_key.position(name.as_bytes());
    let home = tables.parts[&(dir.birth_shard(), dir)].map.clone();
    let index = home.partition_of(position);
    let at = home.shard_of_partition(index);
    let part = tables
        .parts
        .get_mut(&(at, dir))
        .unwrap()
        .part_mut(index)
        .unwrap();
    part.entries += 1;
    part.subdirs += u32::from(kind == FileKind::Dir);
    let key = EntryKey {
        shard: at,
        dir,
        position,
        name: Name::new(name.as_bytes()).unwrap(),
    };
    tables.entries.insert(key, EntryRecord { ino, kind, shard });
}

/// The key and record of an entry.
pub(crate) fn key_of(tables: &Tables, dir: Ino, name: &str) -> (EntryKey, EntryRecord) {
    let name = Name::new(name.as_bytes()).unwrap();
    let found = tables
        .entries
        .iter()
        .find(|(key, _)| key.dir == dir && key.name == name);
    let (key, entry) = found.unwrap();
    (key.clone(), entry.clone())
}

/// Reports of an oracle, as text.
pub(crate) fn problems(tables: &Tables, oracle: &str) -> Vec<String> {
    let mut problems = Vec::new();
    crate::check_tables(tables, &mut problems);
    problems
        .iter()
        .filter(|p| p.oracle == oracle)
        .map(ToString::to_string)
        .collect()
}

/// Reports of an oracle about `subject`.
///
/// # Panics
/// When that is nothing.
pub(crate) fn found(tables: &Tables, oracle: &str, subject: &str) -> String {
    let start = format!("{oracle}: {subject}: ");
    let all = problems(tables, oracle);
    let about: Vec<String> = all
        .iter()
        .filter(|p| p.starts_with(&start))
        .cloned()
        .collect();
    assert!(!about.is_empty(), "nothing about '{subject}' in {all:#?}");
    about.join("\n")
}

#[test]
fn nothing_is_wrong_with_a_sound_file_system() {
    let mut problems = Vec::new();
    crate::check_tables(&sound(), &mut problems);
    assert_eq!(problems, []);
}

#[test]
fn the_tables_of_a_dump_are_those_that_were_stored() {
    use crate::{ClusterDump, check};
    use pandofs_namespace::{keys, records::encode};
    use std::collections::BTreeMap;

    let tables = sound();
    let mut shards: BTreeMap<ShardId, crate::ShardPairs> = BTreeMap::new();
    let mut put = |shard: ShardId, key: Vec<u8>, value: Vec<u8>| {
        shards.entry(shard).or_default().push((key, value));
    };
    for (&shard, meta) in &tables.metas {
        put(shard, keys::meta(shard), encode(meta));
    }
    for (&(shard, ino), inode) in &tables.inodes {
        put(shard, keys::inode(shard, ino), encode(&stored(inode)));
    }
    for (key, entry) in &tables.entries {
        put(
            key.shard,
            keys::entry(key.shard, key.dir, key.position, &key.name),
            encode(entry),
        );
    }
    for (&(shard, dir), parts) in &tables.parts {
        put(shard, keys::parts(shard, dir), encode(parts));
    }
    for (&(shard, ino), to) in &tables.forwarding {
        put(shard, keys::forwarding(shard, ino), encode(to));
    }
    for &(shard, ino) in tables.xattrs.keys() {
        put(shard, keys::xattr(shard, ino, b"user.a"), b"value".to_vec());
    }
    for (&(shard, ino), &bytes) in &tables.data {
        put(shard, keys::data(shard, ino), vec![7; bytes as usize]);
    }
    let mut objects: BTreeMap<ServerId, Vec<(Ino, u64)>> = BTreeMap::new();
    for (&(server, ino), &bytes) in &tables.objects {
        objects.entry(server).or_default().push((ino, bytes));
    }
    let mut dump = ClusterDump {
        map: (*tables.map).clone(),
        shards,
        objects,
    };
    assert_eq!(check(&dump), []);
    let decoded = Tables::decode(&dump, &mut Vec::new());
    assert_eq!(decoded.entries, tables.entries);
    assert_eq!(decoded.inodes, tables.inodes);
    assert_eq!(decoded.xattrs, tables.xattrs);
    assert_eq!(decoded.data, tables.data);
    // Read in parts, they are the same.
    let mut joined = Tables::empty(decoded.map.clone());
    for (&shard, pairs) in &dump.shards {
        let mut part = Tables::empty(decoded.map.clone());
        for (key, value) in pairs {
            part.take(shard, key, value, &mut Vec::new());
        }
        joined.join(part);
    }
    for (&server, objects) in &dump.objects {
        joined.take_objects(server, objects);
    }
    assert_eq!(joined, decoded);

    // Planted: garbage of every kind is reported, and hides nothing else.
    let pairs = dump.shards.get_mut(&ShardId(0)).unwrap();
    pairs.push((vec![200, 0, 0], vec![]));
    pairs.push((vec![keys::Kind::Inode as u8, 0, 0, 1], vec![]));
    pairs.push((keys::inode(ShardId(1), SHARED), vec![]));
    pairs.push((keys::reclaim(ShardId(0), SHARED), vec![77]));
    let problems = check(&dump);
    assert_eq!(problems.len(), 4, "{problems:#?}");
    assert!(problems.iter().all(|problem| problem.oracle == "readable"));
}
