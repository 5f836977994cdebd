//! A directory grows over several shards while it is in use.

use crate::support::{Cluster, name};
use pandofs_api::{NewNode, Refusal, Reply, Request};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::Input;
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

/// A file with two names stays where it is; when it has lost one of them before the split ends it goes
/// along, although it was copied without its inode.
#[test]
fn a_file_that_loses_its_other_name_during_a_split_goes_along() {
    let mut cluster = cluster();
    let moving = |text: &str| {
        let position = cluster.map.hash_key.position(text.as_bytes());
        position.radix_index(1) == 1
    };
    let texts: Vec<String> = (0..)
        .map(|n| format!("file{n}"))
        .filter(|t| moving(t))
        .take(9)
        .collect();
    for text in &texts[..8] {
        cluster.call(0, create(text)).unwrap();
    }
    let Ok(Reply::Entry(entry)) = cluster.call(0, lookup(&texts[0])) else {
        panic!("{} is there", texts[0]);
    };
    let ino = entry.ino;
    // Its other name is in the half that moves, too: both are copied without the inode.
    cluster.call(0, unlink(&texts[1])).unwrap();
    let link = Request::Link {
        dir: Ino::ROOT,
        name: name(&texts[1]),
        ino,
        inode_shard: ShardId(0),
    };
    cluster.call(0, link).unwrap();

    // One more name begins the split; what it sends is held back.
    let begins = cluster.request(0, create(&texts[8]));
    let mut held = cluster.input(0, begins).outputs;
    let removal = cluster.request(0, unlink(&texts[1]));
    held.extend(cluster.input(0, removal).outputs);
    cluster.carry(held, &mut None);
    let status = cluster.nodes[0].shard.status();
    assert_eq!(status.splits, 1, "{status:?}");
    let Err(Refusal::Moved { shard, .. }) = cluster.call(0, Request::GetAttr { ino }) else {
        panic!("{ino} has not moved");
    };
    let reply = cluster.call(shard.0, Request::GetAttr { ino });
    let Ok(Reply::Inode(inode)) = reply else {
        panic!("{ino} is lost: {reply:?}");
    };
    assert_eq!(inode.attr.nlink, 1);
}

fn unlink(text: &str) -> Request {
    Request::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    }
}
