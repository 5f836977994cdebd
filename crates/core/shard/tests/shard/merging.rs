//! Partitions that go back to where they were split from, and what else their shards hear meanwhile.

use crate::copying::{begun, cluster_of};
use crate::splits::moving_names;
use crate::support::{Cluster, create_file, name, receiver, sent};
use pandofs_api::{CommitMessage, PeerMessage, Refusal, Refused, Request, Step, op};
use pandofs_namespace::keys;
use pandofs_namespace::records::{PartsRecord, decode};
use pandofs_placement::{DirPolicy, PartitionIndex, Settings};
use pandofs_shard::{Input, Output};
use pandofs_storage::store::KvRead;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{Credentials, FsError, Ino, SetAttr, ShardId};
use std::collections::VecDeque;

/// Names with which a partition splits.
const THRESHOLD: u32 = 8;

fn cluster(shards: u16, partitions: u32) -> Cluster {
    let settings = Settings {
        split_threshold: THRESHOLD,
        max_partitions: Some(partitions),
        ..Settings::default()
    };
    Cluster::new(shards, DirPolicy::default(), settings)
}

/// Carries messages, and all that follows, but those that are held back, which it returns.
fn carry(
    cluster: &mut Cluster,
    outputs: &[Output],
    holds: impl Fn(&PeerMessage) -> bool,
) -> Vec<PeerMessage> {
    let mut held = Vec::new();
    let mut queue: VecDeque<PeerMessage> = sent(outputs).into();
    while let Some(message) = queue.pop_front() {
        if holds(&message) {
            held.push(message);
            continue;
        }
        let to = receiver(&message).0;
        queue.extend(sent(&cluster.input(to, Input::Peer(message)).outputs));
    }
    held
}

/// Asks a shard for what it does at once.
fn asked(cluster: &mut Cluster, shard: ShardId, request: Request) -> Vec<Output> {
    let request = cluster.request(shard.0, request);
    let outputs = cluster.input(shard.0, request).outputs;
    let is_done =
        |output: &Output| matches!(output, Output::Answer { result, .. } if result.is_ok());
    assert!(outputs.iter().any(is_done), "{outputs:?}");
    outputs
}

fn create(text: &str) -> Request {
    create_file(Ino::ROOT, name(text))
}

fn unlink(text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    })
}

/// The map of the root as a shard knows it.
fn parts(cluster: &Cluster, shard: ShardId) -> PartsRecord {
    let key = keys::parts(shard, Ino::ROOT);
    let store = &cluster.nodes[usize::from(shard.0)].store;
    let stored = store.get(&key).unwrap().expect("it has a partition");
    decode("parts", &stored).unwrap()
}

fn is_adoption(message: &PeerMessage) -> bool {
    matches!(
        message,
        PeerMessage::Commit {
            message: CommitMessage::Do {
                step: Step::Adopt(adopt),
                ..
            },
            ..
        } if adopt.back
    )
}

/// A shard without a partition is told nothing of the directory any more, and may remember what it was told before.
#[test]
fn of_a_directory_that_comes_back_the_rights_come_too() {
    let mut cluster = cluster_of(THRESHOLD as usize, 2);
    let (home, other) = (ShardId(0), ShardId(1));
    // The home never says that it has heard of the merge.
    let is_notice = |message: &PeerMessage| matches!(message, PeerMessage::MapNotice { .. });
    let texts = moving_names(&cluster, 17);
    let (first, second) = texts.split_at(9);
    for text in first {
        let outputs = asked(&mut cluster, home, create(text));
        carry(&mut cluster, &outputs, is_notice);
    }
    assert_eq!(cluster.nodes[1].shard.status().entries, 9);
    for text in &first[1..] {
        let outputs = asked(&mut cluster, other, unlink(text));
        carry(&mut cluster, &outputs, is_notice);
    }
    assert_eq!(cluster.nodes[0].shard.status().entries, 1);
    assert_eq!(parts(&cluster, other).parts, []);

    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    let dir = Ino::ROOT;
    asked(
        &mut cluster,
        home,
        Request::SetAttr(op::SetAttr { ino: dir, set }),
    );
    for text in second {
        let outputs = asked(&mut cluster, home, create(text));
        carry(&mut cluster, &outputs, is_notice);
    }
    for _ in 0..100 {
        cluster.now += RESEND_INTERVAL.as_nanos() as i64;
        for shard in 0..2 {
            let outputs = cluster.input(shard, Input::Tick).outputs;
            carry(&mut cluster, &outputs, is_notice);
        }
    }
    assert_eq!(cluster.nodes[1].shard.status().entries, 9);
    let lookup = Request::Lookup(op::Lookup {
        dir,
        name: name(&second[0]),
    });
    let stranger = Credentials::user(1_000, 1_000, vec![]);
    let refused = cluster.call_by(&stranger, other.0, lookup);
    assert_eq!(refused, Err(Refusal::Fs(FsError::Access)));
}

/// A new name may be in the half that was copied before.
#[test]
fn nothing_comes_back_to_a_partition_that_is_being_split() {
    let mut cluster = cluster(4, 4);
    let home = ShardId(0);
    let all: Vec<String> = (0..200).map(|number| format!("file{number}")).collect();
    let moving = moving_names(&cluster, all.len());
    let upper = moving_names(&cluster, 5);
    let moves = |text: &&String| !moving.contains(text);
    let lower: Vec<String> = all.iter().filter(moves).take(9).cloned().collect();
    for text in upper.iter().chain(&lower[..4]) {
        let outputs = asked(&mut cluster, home, create(text));
        carry(&mut cluster, &outputs, |_| false);
    }
    let map = parts(&cluster, home).map;
    let child = PartitionIndex(1);
    assert!(map.is_active(child));
    let other = map.shard_of_partition(child);
    let is_chunk = |message: &PeerMessage| matches!(message, PeerMessage::SplitChunk { from, .. } if *from == home);
    let mut chunks = Vec::new();
    for text in &lower[4..] {
        let outputs = asked(&mut cluster, home, create(text));
        chunks.extend(carry(&mut cluster, &outputs, is_chunk));
    }
    assert_eq!(chunks.len(), 1, "it splits again");
    for text in &lower[..8] {
        let outputs = asked(&mut cluster, home, unlink(text));
        carry(&mut cluster, &outputs, is_chunk);
    }
    let mut adoptions = Vec::new();
    for text in &upper[1..] {
        let outputs = asked(&mut cluster, other, unlink(text));
        let holds = |message: &PeerMessage| is_chunk(message) || is_adoption(message);
        adoptions.extend(carry(&mut cluster, &outputs, holds));
    }
    let [adoption] = &adoptions[..] else {
        panic!("{adoptions:?}");
    };
    let outputs = cluster.input(home.0, Input::Peer(adoption.clone())).outputs;
    let messages = sent(&outputs);
    assert!(
        matches!(
            messages[..],
            [PeerMessage::Commit {
                message: CommitMessage::Refused {
                    why: Refused::Busy,
                    ..
                },
                ..
            }]
        ),
        "{messages:?}"
    );
}

/// It speaks of more than of the end of what is under way, of which the home has not heard: were it acknowledged, that would
/// not be said again.
#[test]
fn a_home_that_cannot_take_up_a_map_during_a_split_does_not_say_that_it_has() {
    let mut cluster = cluster_of(THRESHOLD as usize, 2);
    let texts = moving_names(&cluster, 9);
    begun(&mut cluster, &texts);
    let (home, other) = (ShardId(0), ShardId(1));
    let child = PartitionIndex(1);
    let mut map = parts(&cluster, home).map;
    map.activate_at(child, other);
    map.deactivate(child);
    let notice = PeerMessage::MapNotice {
        from: other,
        to: home,
        dir: Ino::ROOT,
        map,
    };
    let told = cluster.input(home.0, Input::Peer(notice));
    assert_eq!((sent(&told.outputs), told.records.len()), (vec![], 0));
}
