//! Two names that change places over several shards.

use crate::support::{Cluster, create_file, name, receiver, sent};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::{FileKind, FsError, Ino};

const SHARDS: u16 = 4;

/// A cluster, and a directory on another shard for each of these names in the root.
fn cluster(dirs: &[&str]) -> (Cluster, Vec<Ino>) {
    let mut cluster = Cluster::new(SHARDS, DirPolicy::Random, Settings::default());
    let mut homes = vec![Ino::ROOT];
    for dir in dirs {
        loop {
            let made = mkdir(&mut cluster, Ino::ROOT, dir);
            let home = made.birth_shard();
            if homes.iter().all(|other| other.birth_shard() != home) {
                homes.push(made);
                break;
            }
            let remove = Request::Rmdir(op::Rmdir {
                dir: Ino::ROOT,
                name: name(dir),
            });
            cluster.call(0, remove.clone()).unwrap();
            // Draws one more number, or those that place directories would go round in a circle.
            cluster.call(0, remove).unwrap_err();
        }
    }
    (cluster, homes.split_off(1))
}

fn made(reply: Result<Reply, Refusal>) -> Ino {
    match reply {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("nothing was made: {other:?}"),
    }
}

fn mkdir(cluster: &mut Cluster, dir: Ino, text: &str) -> Ino {
    let request = Request::Mkdir(op::Mkdir {
        dir,
        name: name(text),
        mode: 0o755,
        umask: 0,
    });
    made(cluster.call(dir.birth_shard().0, request))
}

fn create(cluster: &mut Cluster, dir: Ino, text: &str) -> Ino {
    let request = create_file(dir, name(text));
    made(cluster.call(dir.birth_shard().0, request))
}

fn exchange(one: (Ino, &str), two: (Ino, &str)) -> Request {
    Request::Exchange(op::Exchange {
        dir: one.0,
        name: name(one.1),
        new_dir: two.0,
        new_name: name(two.1),
        new_shard: two.0.birth_shard(),
    })
}

fn lookup(cluster: &mut Cluster, dir: Ino, text: &str) -> (Ino, FileKind) {
    let request = Request::Lookup(op::Lookup {
        dir,
        name: name(text),
    });
    match cluster.call(dir.birth_shard().0, request) {
        Ok(Reply::Entry(entry)) => (entry.ino, entry.kind),
        other => panic!("{text} is not there: {other:?}"),
    }
}

/// Parent and link count of a directory.
fn links(cluster: &mut Cluster, dir: Ino) -> (Ino, u32) {
    match cluster.call(
        dir.birth_shard().0,
        Request::GetAttr(op::GetAttr { ino: dir }),
    ) {
        Ok(Reply::Inode(inode)) => (inode.dir.unwrap().parent, inode.attr.nlink),
        other => panic!("{dir} is not there: {other:?}"),
    }
}

#[test]
fn a_file_and_a_directory_change_places() {
    let (mut cluster, dirs) = cluster(&["a", "b"]);
    let (a, b) = (dirs[0], dirs[1]);
    let sub = mkdir(&mut cluster, a, "sub");
    let file = create(&mut cluster, b, "file");
    let request = exchange((a, "sub"), (b, "file"));
    assert_eq!(
        cluster.call(a.birth_shard().0, request),
        Ok(Reply::Exchanged {
            ino: sub,
            other: file
        })
    );
    assert_eq!(lookup(&mut cluster, a, "sub"), (file, FileKind::File));
    assert_eq!(lookup(&mut cluster, b, "file"), (sub, FileKind::Dir));
    assert_eq!(links(&mut cluster, sub), (b, 2));
    assert_eq!(links(&mut cluster, a).1, 2);
    assert_eq!(links(&mut cluster, b).1, 3);
    // And back, asked the other way round.
    let request = exchange((a, "sub"), (b, "file"));
    assert!(cluster.call(a.birth_shard().0, request).is_ok());
    assert_eq!(links(&mut cluster, sub), (a, 2));
    assert_eq!(links(&mut cluster, b).1, 2);
}

#[test]
fn nothing_comes_below_itself_in_either_direction() {
    let (mut cluster, dirs) = cluster(&["a", "b"]);
    let (a, b) = (dirs[0], dirs[1]);
    let sub = mkdir(&mut cluster, a, "sub");
    let deep = mkdir(&mut cluster, sub, "deep");
    create(&mut cluster, deep, "file");
    let invalid = Err(Refusal::Fs(FsError::Invalid));
    for (one, two) in [
        ((Ino::ROOT, "a"), (a, "sub")),
        ((Ino::ROOT, "a"), (deep, "file")),
        ((deep, "file"), (Ino::ROOT, "a")),
        ((a, "sub"), (Ino::ROOT, "a")),
    ] {
        let request = exchange(one, two);
        assert_eq!(cluster.call(one.0.birth_shard().0, request), invalid);
    }
    let missing = exchange((Ino::ROOT, "a"), (b, "nothing"));
    assert_eq!(
        cluster.call(0, missing),
        Err(Refusal::Fs(FsError::NotFound))
    );
    assert_eq!(links(&mut cluster, sub), (a, 3));
}

#[test]
fn two_names_of_one_file_stay_as_they_are() {
    let (mut cluster, dirs) = cluster(&["a", "b"]);
    let (a, b) = (dirs[0], dirs[1]);
    let file = create(&mut cluster, a, "one");
    let link = Request::Link(op::Link {
        dir: b,
        name: name("two"),
        ino: file,
        inode_shard: a.birth_shard(),
    });
    assert_eq!(made(cluster.call(b.birth_shard().0, link)), file);
    let request = exchange((a, "one"), (b, "two"));
    let same = Reply::Exchanged {
        ino: file,
        other: file,
    };
    assert_eq!(cluster.call(a.birth_shard().0, request), Ok(same));
    assert_eq!(lookup(&mut cluster, b, "two").0, file);
}

#[test]
fn every_crash_leaves_both_names_or_neither_changed() {
    let mut outcomes = [0, 0];
    for crashed in 0..SHARDS {
        for at in 0..12 {
            let (mut cluster, dirs) = cluster(&["a", "b"]);
            let (a, b) = (dirs[0], dirs[1]);
            let one = mkdir(&mut cluster, a, "x");
            let two = create(&mut cluster, b, "y");
            let request = cluster.request(a.birth_shard().0, exchange((a, "x"), (b, "y")));
            let mut outputs = cluster.input(a.birth_shard().0, request).outputs;
            for _ in 0..at {
                let mut messages = sent(&outputs);
                if messages.is_empty() {
                    break;
                }
                let message = messages.remove(0);
                outputs.retain(|output| matches!(output, Output::Send { .. }));
                outputs.remove(0);
                let to = receiver(&message).0;
                outputs.extend(cluster.input(to, Input::Peer(message)).outputs);
            }
            // Messages under way are lost with it; all are sent again.
            let mut outputs = cluster.restart(crashed).outputs;
            for _ in 0..8 {
                cluster.carry(outputs, &mut None);
                outputs = Vec::new();
                cluster.now += 1_000_000_000;
                for shard in 0..SHARDS {
                    outputs.extend(cluster.input(shard, Input::Tick).outputs);
                }
            }
            cluster.carry(outputs, &mut None);
            let found = (
                lookup(&mut cluster, a, "x").0,
                lookup(&mut cluster, b, "y").0,
            );
            let parent = links(&mut cluster, one).0;
            if found == (one, two) {
                assert_eq!(parent, a);
                outcomes[0] += 1;
            } else {
                assert_eq!((found, parent), ((two, one), b));
                outcomes[1] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 3), "{outcomes:?}");
}
