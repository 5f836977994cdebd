//! The modification time of a directory is set after the names that an answered operation still brings.

use crate::support::{Cluster, create_file, name, receiver, sent};
use pandofs_api::{CommitMessage, PeerMessage, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::MAX_RETRY_PAUSE;
use pandofs_types::{Ino, Name, SetAttr, SetTime, ShardId, Time};

const SHARDS: u16 = 4;
const SET: Time = Time(77);

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

/// A name of the directory that belongs to the shard.
fn name_on(cluster: &mut Cluster, dir: Ino, shard: u16, what: &str) -> Name {
    let mut texts = (0..100).map(|number| name(&format!("{what}-{number}")));
    let belongs = |text: &Name| {
        let lookup = Request::Lookup(op::Lookup {
            dir,
            name: text.clone(),
        });
        !matches!(cluster.call(shard, lookup), Err(Refusal::Misdirected(_)))
    };
    texts.find(belongs).expect("each shard has many names")
}

fn rename(dir: Ino, from: &Name, to: &Name, to_shard: u16) -> Request {
    Request::Rename(op::Rename {
        dir,
        name: from.clone(),
        new_dir: dir,
        new_name: to.clone(),
        new_shard: ShardId(to_shard),
        no_replace: false,
        whiteout: false,
    })
}

fn mtime(cluster: &mut Cluster, dir: Ino, shard: u16) -> Time {
    match cluster.call(shard, Request::DirPart(op::DirPart { dir })) {
        Ok(Reply::Part(part)) => part.mtime,
        other => panic!("{other:?}"),
    }
}

/// Carries messages, but for what tells `shard` that an operation was committed.
fn carry_but_decisions(
    cluster: &mut Cluster,
    shard: u16,
    outputs: Vec<Output>,
) -> (Vec<PeerMessage>, bool) {
    let (mut kept, mut answered, mut queue) = (Vec::new(), false, outputs);
    while !queue.is_empty() {
        let answers = |output: &Output| matches!(output, Output::Answer { result: Ok(_), .. });
        answered |= queue.iter().any(answers);
        let mut next = Vec::new();
        for message in sent(&queue) {
            let to = receiver(&message).0;
            let decided = matches!(
                &message,
                PeerMessage::Commit {
                    message: CommitMessage::Outcome { .. },
                    ..
                }
            );
            if decided && to == shard {
                kept.push(message);
            } else {
                next.extend(cluster.input(to, Input::Peer(message)).outputs);
            }
        }
        queue = next;
    }
    (kept, answered)
}

/// A file is moved from a name on the first shard to one on the second, while its inode is on the third,
/// which decides. The second hears of that only after the time was set.
fn set_while_a_name_is_on_its_way(home_is_late: bool) {
    let (mut cluster, dir) = cluster();
    let home = dir.birth_shard().0;
    let mut others = (0..SHARDS).filter(|shard| *shard != home);
    let (one, two) = (others.next().unwrap(), others.next().unwrap());
    let (late, inode) = if home_is_late {
        (home, two)
    } else {
        (two, home)
    };
    let born = name_on(&mut cluster, dir, inode, "born");
    let create = create_file(dir, born.clone());
    assert!(cluster.call(inode, create).is_ok());
    let from = name_on(&mut cluster, dir, one, "from");
    let moved = cluster.call(inode, rename(dir, &born, &from, one));
    assert!(moved.is_ok(), "{moved:?}");
    let to = name_on(&mut cluster, dir, late, "to");
    let request = cluster.request(one, rename(dir, &from, &to, late));
    let outputs = cluster.input(one, request).outputs;
    let (decisions, answered) = carry_but_decisions(&mut cluster, late, outputs);
    assert!(answered && decisions.len() == 1, "{decisions:?}");

    let set = SetAttr {
        mtime: Some(SetTime::At(SET)),
        ..SetAttr::default()
    };
    let request = cluster.request(home, Request::SetAttr(op::SetAttr { ino: dir, set }));
    let outputs = cluster.input(home, request).outputs;
    let mut answer = None;
    cluster.carry(outputs, &mut answer);
    for decision in decisions {
        let outputs = cluster.input(late, Input::Peer(decision)).outputs;
        cluster.carry(outputs, &mut answer);
    }
    if answer.is_none() {
        cluster.now += MAX_RETRY_PAUSE.as_nanos() as i64;
        let outputs = cluster.input(home, Input::Tick).outputs;
        cluster.carry(outputs, &mut answer);
    }
    assert!(matches!(answer, Some(Ok(Reply::Inode(_)))), "{answer:?}");
    for shard in 0..SHARDS {
        assert_eq!(mtime(&mut cluster, dir, shard), SET, "on shard {shard}");
    }
}

#[test]
fn a_name_that_was_answered_does_not_change_the_time_that_was_set_since() {
    set_while_a_name_is_on_its_way(false);
}

#[test]
fn not_at_the_home_either() {
    set_while_a_name_is_on_its_way(true);
}
