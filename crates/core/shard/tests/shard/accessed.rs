//! Times of access, which clients tell some time after they have read.

use crate::support::{Cluster, name};
use pandofs_api::{Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_types::limits::MAX_ACCESSES_PER_MESSAGE;
use pandofs_types::{AtimeRule, Attr, Ino, SetAttr, SetTime, ShardId, Time};

fn cluster() -> (Cluster, Ino) {
    let mut cluster = Cluster::new(2, DirPolicy::Subtree, Settings::default());
    let ino = cluster.file("file");
    (cluster, ino)
}

fn attr(cluster: &mut Cluster, ino: Ino) -> Attr {
    match cluster.call(0, Request::GetAttr(op::GetAttr { ino })) {
        Ok(Reply::Inode(inode)) => inode.attr,
        other => panic!("{other:?}"),
    }
}

fn read(cluster: &mut Cluster, inos: &[Ino], at: i64, rule: AtimeRule) {
    let inos = inos.iter().map(|ino| (*ino, Time(at))).collect();
    let told = cluster.call(0, Request::Accessed(op::Accessed { inos, rule }));
    assert_eq!(told, Ok(Reply::Done));
}

#[test]
fn a_reading_is_seen_once_after_each_change_and_changes_nothing_else() {
    let (mut cluster, file) = cluster();
    let elsewhere = Ino::new(ShardId(1), 77);
    for ino in [file, Ino::ROOT] {
        let before = attr(&mut cluster, ino);
        let now = cluster.now;
        read(&mut cluster, &[elsewhere, ino], now, AtimeRule::Relative);
        let after = attr(&mut cluster, ino);
        let atime = Time(now);
        assert_eq!(after, Attr { atime, ..before });
        let now = cluster.now;
        read(&mut cluster, &[ino], now, AtimeRule::Relative);
        assert_eq!(attr(&mut cluster, ino).atime, after.atime, "once");
        read(&mut cluster, &[ino], now, AtimeRule::Strict);
        assert_eq!(attr(&mut cluster, ino).atime, Time(now));
        read(&mut cluster, &[ino], i64::MAX, AtimeRule::Strict);
        assert!(attr(&mut cluster, ino).atime <= Time(cluster.now));
    }
}

/// Records of the log that a reading is worth.
fn records(cluster: &mut Cluster, ino: Ino, at: i64) -> usize {
    let rule = AtimeRule::Relative;
    let request = Request::Accessed(op::Accessed {
        inos: vec![(ino, Time(at))],
        rule,
    });
    let input = cluster.request(0, request);
    let step = cluster.input(0, input);
    let mut answer = None;
    cluster.carry(step.outputs, &mut answer);
    assert_eq!(answer, Some(Ok(Reply::Done)));
    step.records.len()
}

#[test]
fn what_changes_no_time_is_not_recorded() {
    let (mut cluster, file) = cluster();
    let now = cluster.now;
    assert_eq!(records(&mut cluster, file, now), 0, "when it was made");
    let now = cluster.now;
    assert_eq!(records(&mut cluster, file, now), 1);
    let now = cluster.now;
    assert_eq!(records(&mut cluster, file, now), 0, "read already");
    assert_eq!(records(&mut cluster, Ino(12_345), now), 0, "not here");
}

/// Its home does not know when other shards changed their parts of it.
#[test]
fn each_reading_of_a_directory_that_is_spread_counts() {
    let settings = Settings {
        initial_partitions: 2,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::Subtree, settings);
    let request = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    let made = (0..2).find_map(|shard| cluster.call(shard, request.clone()).ok());
    let Some(Reply::Entry(entry)) = made else {
        panic!("{made:?}");
    };
    let home = entry.ino.birth_shard().0;
    for _ in 0..2 {
        let now = cluster.now;
        let read = Request::Accessed(op::Accessed {
            inos: vec![(entry.ino, Time(now))],
            rule: AtimeRule::Relative,
        });
        assert_eq!(cluster.call(home, read), Ok(Reply::Done));
        match cluster.call(home, Request::GetAttr(op::GetAttr { ino: entry.ino })) {
            Ok(Reply::Inode(inode)) => assert_eq!(inode.attr.atime, Time(now)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_time_that_was_set_later_stays() {
    let (mut cluster, file) = cluster();
    let read_at = cluster.now;
    let set = SetAttr {
        atime: Some(SetTime::At(Time(5))),
        ..SetAttr::default()
    };
    assert!(
        cluster
            .call(0, Request::SetAttr(op::SetAttr { ino: file, set }))
            .is_ok()
    );
    read(&mut cluster, &[file], read_at, AtimeRule::Relative);
    read(&mut cluster, &[file], read_at, AtimeRule::Strict);
    assert_eq!(attr(&mut cluster, file).atime, Time(5));
}

#[test]
fn too_many_at_once_are_refused() {
    let (mut cluster, file) = cluster();
    let inos = vec![(file, Time(1)); MAX_ACCESSES_PER_MESSAGE + 1];
    let rule = AtimeRule::Strict;
    assert!(
        cluster
            .call(0, Request::Accessed(op::Accessed { inos, rule }))
            .is_err()
    );
}
