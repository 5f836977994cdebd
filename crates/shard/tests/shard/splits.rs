//! A directory grows over several shards while it is in use.

use crate::support::{Cluster, name};
use pandofs_api::{CommitMessage, NewNode, PeerMessage, Refusal, Reply, Request};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::{FsError, Ino, Position, ShardId};
use std::collections::BTreeMap;

const FILES: usize = 400;

fn cluster() -> Cluster {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(16),
        ..Settings::default()
    };
    Cluster::new(4, DirPolicy::default(), settings)
}

fn create(text: &str) -> Request {
    Request::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode: 0o644,
        open: false,
    }
}

fn lookup(text: &str) -> Request {
    Request::Lookup {
        dir: Ino::ROOT,
        name: name(text),
    }
}

/// All entries, by position, from whichever shard serves it.
fn list(cluster: &mut Cluster, map: &mut DirMap) -> Vec<(String, Ino)> {
    let mut found = Vec::new();
    let mut from = Position(0);
    while from < Position::END {
        let shard = map.shard_of(from).0;
        let request = Request::ReadDir {
            dir: Ino::ROOT,
            from,
            plus: true,
            max_entries: 7,
            max_bytes: 4_096,
        };
        match cluster.call(shard, request) {
            Ok(Reply::Entries(page)) => {
                map.merge(&page.map);
                for entry in page.entries {
                    let text = String::from_utf8(entry.name.as_bytes().to_vec()).unwrap();
                    found.push((text, entry.ino));
                }
                from = page.next;
            }
            Err(Refusal::Misdirected(Some(known))) => assert!(map.merge(&known)),
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn entries_and_their_inodes_spread_and_are_all_found() {
    let mut cluster = cluster();
    let mut map = DirMap::single(ShardId(0));
    let mut made = BTreeMap::new();
    for number in 0..FILES {
        let text = format!("file{number}");
        let (reply, _) = cluster.call_by_name(&mut map, &name(&text), &create(&text));
        let Ok(Reply::Entry(entry)) = reply else {
            panic!("{reply:?}")
        };
        made.insert(text, entry.ino);
    }
    let status: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), FILES as u64);
    assert_eq!(
        status.iter().map(|s| s.inodes).sum::<u64>(),
        FILES as u64 + 1
    );
    assert_eq!(status.iter().map(|s| s.partitions).sum::<u64>(), 16);
    for shard in &status {
        assert!(shard.entries > FILES as u64 / 8, "{status:?}");
        assert_eq!(shard.undecided, 0);
    }

    // A client that knows nothing needs one wrong guess, once the home knows.
    for (text, ino) in &made {
        let mut fresh = DirMap::single(ShardId(0));
        let (reply, wrong) = cluster.call_by_name(&mut fresh, &name(text), &lookup(text));
        let Ok(Reply::Entry(entry)) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(entry.ino, *ino);
        assert!(entry.inode.is_some(), "the inode has gone along");
        assert!(wrong <= 1, "{wrong} wrong guesses");
    }

    // Who has the number alone asks the birth shard and follows.
    for ino in made.values() {
        let mut at = ino.birth_shard();
        let mut hops = 0;
        loop {
            match cluster.call(at.0, Request::GetAttr { ino: *ino }) {
                Ok(Reply::Inode(inode)) => break assert_eq!(inode.attr.ino, *ino),
                Err(Refusal::Moved { shard, .. }) => at = shard,
                other => panic!("{other:?}"),
            }
            hops += 1;
            assert!(hops <= 2, "inode {ino} is {hops} hops away");
        }
    }

    let mut listed = list(&mut cluster, &mut DirMap::single(ShardId(0)));
    listed.sort();
    assert_eq!(listed, made.clone().into_iter().collect::<Vec<_>>());

    for text in made.keys() {
        let request = Request::Unlink {
            dir: Ino::ROOT,
            name: name(text),
        };
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &request);
        assert!(matches!(reply, Ok(Reply::Removed { .. })), "{reply:?}");
        let (reply, _) = cluster.call_by_name(&mut map, &name(text), &lookup(text));
        assert_eq!(reply, Err(Refusal::Fs(FsError::NotFound)));
    }
    // Forwarding records go with what they lead to.
    let status: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert_eq!(status.iter().map(|s| s.inodes).sum::<u64>(), 1);
    assert_eq!(status.iter().map(|s| s.reclaiming).sum::<u64>(), 0);
}

#[test]
fn a_crash_at_any_message_of_a_split_leaves_one_owner() {
    // The split of the first partition takes a few messages; crash source or target before each.
    for crashed in 0..4u16 {
        for at in 0..8 {
            let mut cluster = cluster();
            let mut map = DirMap::single(ShardId(0));
            for number in 0..8 {
                let text = format!("file{number}");
                cluster
                    .call_by_name(&mut map, &name(&text), &create(&text))
                    .0
                    .unwrap();
            }
            let request = cluster.request(0, create("one more"));
            let mut outputs = cluster.input(0, request).outputs;
            for _ in 0..at {
                let Some(message) = crate::support::sent(&outputs).into_iter().next() else {
                    break;
                };
                let to = crate::support::receiver(&message);
                outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            }
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            for _ in 0..6 {
                cluster.now += 1_000_000_000;
                for shard in 0..4 {
                    let outputs = cluster.input(shard, Input::Tick).outputs;
                    cluster.carry(outputs, &mut None);
                }
            }
            let mut listed: Vec<_> = list(&mut cluster, &mut map)
                .into_iter()
                .map(|f| f.0)
                .collect();
            listed.sort();
            let mut expected: Vec<_> = (0..8).map(|number| format!("file{number}")).collect();
            expected.push("one more".to_string());
            assert_eq!(listed, expected, "crash of {crashed} at {at}");
            let status: Vec<_> = cluster
                .nodes
                .iter()
                .map(|node| node.shard.status())
                .collect();
            assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), 9);
            assert_eq!(status.iter().map(|s| s.inodes).sum::<u64>(), 10);
            assert_eq!(status.iter().map(|s| s.undecided).sum::<u64>(), 0);
            assert!(
                status.iter().map(|s| s.partitions).sum::<u64>() >= 2,
                "it splits in the end"
            );
        }
    }
}

/// Names of the root in the half that splits off first.
fn moving_names(cluster: &Cluster, count: usize) -> Vec<String> {
    let moves = |text: &String| {
        let position = cluster.map.hash_key.position(text.as_bytes());
        position.radix_index(1) == 1
    };
    let all = (0..).map(|number| format!("file{number}"));
    all.filter(moves).take(count).collect()
}

fn made(reply: Result<Reply, Refusal>) -> Ino {
    match reply {
        Ok(Reply::Entry(entry)) => entry.ino,
        other => panic!("{other:?}"),
    }
}

fn link(dir: Ino, text: &str, ino: Ino) -> Request {
    Request::Link {
        dir,
        name: name(text),
        ino,
        inode_shard: ShardId(0),
    }
}

fn unlink(dir: Ino, text: &str) -> Request {
    Request::Unlink {
        dir,
        name: name(text),
    }
}

/// The root has split, and the file is where its only name is.
fn assert_gone_along(cluster: &mut Cluster, text: &str, ino: Ino) {
    let status = cluster.nodes[0].shard.status();
    assert_eq!(status.splits, 1, "{status:?}");
    let mut map = DirMap::single(ShardId(0));
    let (reply, _) = cluster.call_by_name(&mut map, &name(text), &lookup(text));
    let Ok(Reply::Entry(entry)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(entry.ino, ino);
    let reply = cluster.call(entry.shard.0, Request::GetAttr { ino });
    let Ok(Reply::Inode(inode)) = reply else {
        panic!("{ino} is lost: {reply:?}");
    };
    assert_eq!(inode.attr.nlink, 1);
}

/// A file with two names stays where it is; when it has lost one of them before the split ends it goes
/// along, although it was copied without its inode.
#[test]
fn a_file_that_loses_its_other_name_during_a_split_goes_along() {
    let mut cluster = cluster();
    let texts = moving_names(&cluster, 9);
    for text in &texts[..7] {
        cluster.call(0, create(text)).unwrap();
    }
    let ino = made(cluster.call(0, lookup(&texts[0])));
    // Its other name is in the half that moves, too: both are copied without the inode.
    made(cluster.call(0, link(Ino::ROOT, &texts[7], ino)));

    // One more name begins the split; what it sends is held back.
    let begins = cluster.request(0, create(&texts[8]));
    let mut held = cluster.input(0, begins).outputs;
    let removal = cluster.request(0, unlink(Ino::ROOT, &texts[7]));
    held.extend(cluster.input(0, removal).outputs);
    cluster.carry(held, &mut None);
    assert_gone_along(&mut cluster, &texts[0], ino);
}

/// Once the last step has begun the file keeps its other name until the end: what goes along has been
/// said by then.
#[test]
fn a_file_that_stays_keeps_its_names_during_the_last_step_of_a_split() {
    let mut cluster = cluster();
    let texts = moving_names(&cluster, 9);
    let mkdir = Request::Mkdir {
        dir: Ino::ROOT,
        name: name("elsewhere"),
        mode: 0o755,
    };
    let elsewhere = made(cluster.call(0, mkdir));
    assert_eq!(elsewhere.birth_shard(), ShardId(0));
    for text in &texts[..7] {
        cluster.call(0, create(text)).unwrap();
    }
    let ino = made(cluster.call(0, lookup(&texts[0])));
    made(cluster.call(0, link(elsewhere, "other", ino)));

    let begins = cluster.request(0, create(&texts[7]));
    let mut outputs = cluster.input(0, begins).outputs;
    // Until the target is asked to take over.
    let is_last = |output: &Output| match output {
        Output::Send {
            message: PeerMessage::Commit { message, .. },
            ..
        } => {
            matches!(message, CommitMessage::Do { .. })
        }
        _ => false,
    };
    while !outputs.iter().any(is_last) {
        let sent = outputs.iter().find_map(|output| match output {
            Output::Send { to, message, .. } => Some((*to, message.clone())),
            _ => None,
        });
        let (to, message) = sent.expect("the split goes on");
        outputs = cluster.input(to.0, Input::Peer(message)).outputs;
    }
    let removal = cluster.request(0, unlink(elsewhere, "other"));
    let answered = cluster.input(0, removal).outputs;
    assert!(answered.is_empty(), "{answered:?}");
    cluster.carry(outputs, &mut None);
    let inode = cluster.call(0, Request::GetAttr { ino });
    assert!(
        matches!(&inode, Ok(Reply::Inode(inode)) if inode.attr.nlink == 1),
        "it stayed and lost the other name: {inode:?}"
    );
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
}
