//! Partitions that are given back while something else happens to their directory.

use crate::support::{Cluster, create_file, name, receiver, sent};
use pandofs_api::{CommitMessage, PeerMessage, Reply, Request, Step, op};
use pandofs_placement::{DirMap, DirPolicy, PartitionIndex, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::{Ino, Name, ShardId};
use std::collections::VecDeque;

const SHARDS: u16 = 4;
const PARTITIONS: u32 = 4;
const DIRECTORIES: usize = 16;
const FILES: usize = 40;

/// Makes a directory that splits as far as it may and is emptied. The messages of its shards about merging are lost.
fn empty_and_split(cluster: &mut Cluster, dir: &Name) -> Ino {
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: dir.clone(),
        mode: 0o755,
        umask: 0,
    });
    let Ok(Reply::Entry(made)) = cluster.call(0, mkdir) else {
        panic!("it is made")
    };
    let dir = made.ino;
    let mut map = DirMap::single(dir.birth_shard());
    let names: Vec<_> = (0..FILES)
        .map(|number| name(&format!("file{number}")))
        .collect();
    for name in &names {
        let create = create_file(dir, name.clone());
        let (reply, _) = cluster.call_by_name(&mut map, name, &create);
        assert!(reply.is_ok(), "{reply:?}");
    }
    for name in &names {
        let lookup = Request::Lookup(op::Lookup {
            dir,
            name: name.clone(),
        });
        // From here on the map is known.
        let (reply, _) = cluster.call_by_name(&mut map, name, &lookup);
        assert!(reply.is_ok(), "{reply:?}");
    }
    for name in &names {
        let shard = map.shard_of(cluster.map.hash_key.position(name.as_bytes()));
        let unlink = Request::Unlink(op::Unlink {
            dir,
            name: name.clone(),
        });
        let request = cluster.request(shard.0, unlink);
        let outputs = cluster.input(shard.0, request).outputs;
        let removed =
            |output: &Output| matches!(output, Output::Answer { result, .. } if result.is_ok());
        assert!(outputs.iter().any(removed), "{outputs:?}");
    }
    dir
}

/// The answers when each partition on this shard asks whether it may go back.
fn may_go(cluster: &mut Cluster, dir: Ino, shard: u16) -> Vec<PeerMessage> {
    let mut may_go = Vec::new();
    for child in (1..PARTITIONS).map(PartitionIndex) {
        for to in (0..SHARDS).filter(|to| *to != shard) {
            let ask = PeerMessage::MergeAsk {
                from: ShardId(shard),
                to: ShardId(to),
                dir,
                child,
            };
            let outputs = cluster.input(to, Input::Peer(ask)).outputs;
            // It tells a map, which is on disk before anybody goes by it.
            let is_kept = |output: &Output| {
                !matches!(
                    output,
                    Output::Send {
                        message: PeerMessage::MergeGo { .. },
                        durable: false,
                        ..
                    }
                )
            };
            assert!(outputs.iter().all(is_kept), "{outputs:?}");
            may_go.extend(sent(&outputs));
        }
    }
    may_go.retain(|message| {
        matches!(message, PeerMessage::MergeGo { .. }) && receiver(message).0 == shard
    });
    may_go
}

/// The removal is prepared where a partition is; before that is decided the partition is told to go back.
#[test]
fn no_partition_begins_to_go_back_while_its_directory_is_removed() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(PARTITIONS),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(SHARDS, DirPolicy::Random, settings);
    let mut told = 0;
    for number in 0..DIRECTORIES {
        let name = name(&format!("dir{number}"));
        let dir = empty_and_split(&mut cluster, &name);
        let rmdir = Request::Rmdir(op::Rmdir {
            dir: Ino::ROOT,
            name,
        });
        let request = cluster.request(0, rmdir);
        let mut queue: VecDeque<_> = sent(&cluster.input(0, request).outputs).into();
        while let Some(message) = queue.pop_front() {
            let drops = matches!(
                &message,
                PeerMessage::Commit {
                    message: CommitMessage::Do {
                        step: Step::DropPart(_),
                        ..
                    },
                    ..
                }
            );
            let to = receiver(&message).0;
            let outputs = sent(&cluster.input(to, Input::Peer(message)).outputs);
            let is_prepared = outputs.iter().any(|message| {
                matches!(
                    message,
                    PeerMessage::Commit {
                        message: CommitMessage::Prepared { .. },
                        ..
                    }
                )
            });
            if drops && is_prepared {
                for go in may_go(&mut cluster, dir, to) {
                    told += 1;
                    queue.extend(sent(&cluster.input(to, Input::Peer(go)).outputs));
                }
            }
            queue.extend(outputs);
        }
    }
    assert!(told > 0, "no partition was told to go back");
    for _ in 0..6 {
        cluster.now += 1_000_000_000;
        for shard in 0..SHARDS {
            let outputs = cluster.input(shard, Input::Tick).outputs;
            cluster.carry(outputs, &mut None);
        }
    }
    let nodes = cluster.nodes.iter();
    let status: Vec<_> = nodes.map(|node| node.shard.status()).collect();
    assert_eq!(status.iter().map(|s| s.undecided).sum::<u64>(), 0);
    let root_alone = 1;
    assert_eq!(
        status.iter().map(|s| s.partitions).sum::<u64>(),
        root_alone,
        "a directory was not removed"
    );
}

#[test]
fn each_merge_is_counted_where_the_partition_was() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(PARTITIONS),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(SHARDS, DirPolicy::Random, settings);
    let mut map = DirMap::single(ShardId(0));
    let names: Vec<_> = (0..FILES)
        .map(|number| name(&format!("file{number}")))
        .collect();
    for name in &names {
        let create = create_file(Ino::ROOT, name.clone());
        let (reply, _) = cluster.call_by_name(&mut map, name, &create);
        assert!(reply.is_ok(), "{reply:?}");
    }
    let partitions = |cluster: &Cluster| -> u64 {
        let nodes = cluster.nodes.iter();
        nodes.map(|node| node.shard.status().partitions).sum()
    };
    let merged = |cluster: &Cluster| -> u64 {
        let nodes = cluster.nodes.iter();
        nodes.map(|node| node.shard.merged()).sum()
    };
    let split = partitions(&cluster);
    assert_eq!((split, merged(&cluster)), (u64::from(PARTITIONS), 0));
    for name in &names {
        let unlink = Request::Unlink(op::Unlink {
            dir: Ino::ROOT,
            name: name.clone(),
        });
        let (reply, _) = cluster.call_by_name(&mut map, name, &unlink);
        assert!(reply.is_ok(), "{reply:?}");
    }
    for _ in 0..6 {
        cluster.now += 1_000_000_000;
        for shard in 0..SHARDS {
            let outputs = cluster.input(shard, Input::Tick).outputs;
            cluster.carry(outputs, &mut None);
        }
    }
    let left = partitions(&cluster);
    assert!(left < split, "nothing was merged");
    assert_eq!(merged(&cluster), split - left);
}
