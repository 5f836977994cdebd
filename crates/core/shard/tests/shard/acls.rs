//! Access control lists and attributes that only the system gives meaning to.

use crate::support::{Cluster, name};
use pandofs_api::{Allocation, FIRST_TRUNCATIONS, NewNode, Refusal, Reply, Request, XattrMode, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_types::acl::{ACCESS_ACL, DEFAULT_ACL};
use pandofs_types::{Acl, AclEntry, FsError, Ino, SetAttr, ShardId, Time};

const SHARDS: u16 = 4;

/// A directory in the root that has a partition on every shard.
fn cluster() -> (Cluster, Ino) {
    let settings = Settings {
        initial_partitions: 4,
        max_partitions: Some(4),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(SHARDS, DirPolicy::Random, settings);
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    match cluster.call(0, request) {
        Ok(Reply::Entry(entry)) => (cluster, entry.ino),
        other => panic!("no directory was made: {other:?}"),
    }
}

/// Makes a file in the directory wherever its name belongs; the inode, its permission bits, the shard.
fn create(cluster: &mut Cluster, dir: Ino, text: &str) -> (Ino, u16, ShardId) {
    let request = Request::Create(op::Create {
        dir,
        name: name(text),
        node: NewNode::File,
        mode: 0o666,
        umask: 0o077,
        open: false,
    });
    for shard in 0..SHARDS {
        match cluster.call(shard, request.clone()) {
            Ok(Reply::Entry(entry)) => {
                return (entry.ino, entry.inode.unwrap().attr.mode, entry.shard);
            }
            Err(Refusal::Misdirected(_)) => {}
            other => panic!("{text} was not made: {other:?}"),
        }
    }
    panic!("{text} belongs nowhere");
}

fn set(ino: Ino, name: &[u8], value: &[u8]) -> Request {
    Request::SetXattr(op::SetXattr {
        ino,
        name: name.to_vec(),
        value: value.to_vec(),
        mode: XattrMode::Either,
    })
}

fn get(ino: Ino, name: &[u8]) -> Request {
    let name = name.to_vec();
    Request::GetXattr(op::GetXattr { ino, name })
}

const NONE: Result<Reply, Refusal> = Err(Refusal::Fs(FsError::NoAttribute));

#[test]
fn a_default_list_is_in_sync_at_every_partition_when_it_is_answered() {
    let (mut cluster, dir) = cluster();
    let home = dir.birth_shard().0;
    assert_eq!(create(&mut cluster, dir, "before").1, 0o600);
    let default = Acl {
        owner: 7,
        group: 5,
        other: 0,
        mask: Some(7),
        users: vec![AclEntry { id: 9, rights: 6 }],
        groups: vec![],
    };
    let value = default.to_xattr();
    let done = cluster.call(home, set(dir, DEFAULT_ACL, &value));
    assert_eq!(done, Ok(Reply::Done));
    let read = cluster.call(home, get(dir, DEFAULT_ACL));
    assert_eq!(read, Ok(Reply::Value(value)));
    let mut shards: Vec<_> = (0..40)
        .map(|file| {
            let (ino, mode, shard) = create(&mut cluster, dir, &format!("file-{file}"));
            assert_eq!(mode, 0o660, "the umask does not count");
            let inherited = Acl {
                owner: 6,
                mask: Some(6),
                ..default.clone()
            };
            let value = Ok(Reply::Value(inherited.to_xattr()));
            assert_eq!(cluster.call(shard.0, get(ino, ACCESS_ACL)), value);
            shard.0
        })
        .collect();
    shards.sort_unstable();
    shards.dedup();
    assert_eq!(shards.len(), usize::from(SHARDS));
    assert_eq!(
        cluster.call(
            home,
            Request::RemoveXattr(op::RemoveXattr {
                ino: dir,
                name: DEFAULT_ACL.to_vec()
            })
        ),
        Ok(Reply::Done)
    );
    assert_eq!(cluster.call(home, get(dir, DEFAULT_ACL)), NONE);
    assert_eq!(create(&mut cluster, dir, "after").1, 0o600);
}

#[test]
fn a_list_that_says_no_more_than_permission_bits_is_kept_as_these() {
    let (mut cluster, dir) = cluster();
    let (file, _, shard) = create(&mut cluster, dir, "file");
    let bits = Acl {
        owner: 7,
        group: 4,
        other: 1,
        mask: None,
        users: vec![],
        groups: vec![],
    };
    for (ino, at) in [(file, shard.0), (dir, dir.birth_shard().0)] {
        let done = cluster.call(at, set(ino, ACCESS_ACL, &bits.to_xattr()));
        assert_eq!(done, Ok(Reply::Done));
        assert_eq!(cluster.call(at, get(ino, ACCESS_ACL)), NONE);
        match cluster.call(at, Request::GetAttr(op::GetAttr { ino })) {
            Ok(Reply::Inode(inode)) => {
                assert_eq!((inode.attr.mode, inode.attr.has_xattrs), (0o741, false));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn file_capabilities_go_with_what_they_were_given_to() {
    let (mut cluster, dir) = cluster();
    let (file, _, shard) = create(&mut cluster, dir, "file");
    const CAPABILITY: &[u8] = b"security.capability";
    let set_attr = |set| Request::SetAttr(op::SetAttr { ino: file, set });
    let changes = [
        Request::WriteInline(op::WriteInline {
            ino: file,
            offset: 0,
            data: b"other".to_vec(),
        }),
        set_attr(SetAttr {
            size: Some(3),
            ..SetAttr::default()
        }),
        set_attr(SetAttr {
            gid: Some(7),
            ..SetAttr::default()
        }),
        Request::AppendInline(op::AppendInline {
            ino: file,
            data: b"more".to_vec(),
        }),
        Request::Allocate(op::Allocate {
            ino: file,
            offset: 0,
            length: 2,
            allocation: Allocation::Punch,
        }),
        set_attr(SetAttr {
            size: Some(0),
            ..SetAttr::default()
        }),
        // Of a file that is striped, which an empty one is at once.
        Request::Extend(op::Extend {
            ino: file,
            length: 9,
        }),
        Request::WroteData(op::WroteData {
            ino: file,
            start: 0,
            end: 9,
            mtime: Time(cluster.now),
            sparse: false,
            truncations: FIRST_TRUNCATIONS,
        }),
    ];
    for change in changes {
        if matches!(change, Request::Extend(_)) {
            let striped = cluster.call(shard.0, Request::Stripe(op::Stripe { ino: file }));
            assert!(striped.is_ok(), "{striped:?}");
        }
        let done = cluster.call(shard.0, set(file, CAPABILITY, b"all"));
        assert_eq!(done, Ok(Reply::Done));
        let chmod = set_attr(SetAttr {
            mode: Some(0o755),
            ..SetAttr::default()
        });
        assert!(cluster.call(shard.0, chmod).is_ok());
        let value = Ok(Reply::Value(b"all".to_vec()));
        assert_eq!(cluster.call(shard.0, get(file, CAPABILITY)), value);
        assert!(cluster.call(shard.0, change.clone()).is_ok());
        let gone = cluster.call(shard.0, get(file, CAPABILITY));
        assert_eq!(gone, NONE, "after {change:?}");
    }
    let list = cluster.call(shard.0, Request::ListXattr(op::ListXattr { ino: file }));
    assert_eq!(list, Ok(Reply::Names(vec![])));
}

#[test]
fn the_time_of_a_change_does_not_go_back_where_a_clock_is_behind() {
    let (mut cluster, dir) = cluster();
    let (file, _, shard) = create(&mut cluster, dir, "file");
    let list = Acl {
        owner: 7,
        group: 5,
        other: 0,
        mask: Some(7),
        users: vec![AclEntry { id: 9, rights: 6 }],
        groups: vec![],
    };
    const NAME: &[u8] = b"user.a";
    for (ino, at) in [(file, shard.0), (dir, dir.birth_shard().0)] {
        let ctime =
            |cluster: &mut Cluster| match cluster.call(at, Request::GetAttr(op::GetAttr { ino })) {
                Ok(Reply::Inode(inode)) => inode.attr.ctime,
                other => panic!("{other:?}"),
            };
        let remove = op::RemoveXattr {
            ino,
            name: NAME.to_vec(),
        };
        let changes = [
            set(ino, NAME, b"1"),
            set(ino, NAME, b"2"),
            Request::RemoveXattr(remove),
            set(ino, ACCESS_ACL, &list.to_xattr()),
        ];
        for change in changes {
            let before = ctime(&mut cluster);
            cluster.skew -= 1_000_000_000;
            assert_eq!(cluster.call(at, change.clone()), Ok(Reply::Done));
            let after = ctime(&mut cluster);
            assert!(after > before, "{change:?}: {before:?}, {after:?}");
        }
    }
}
