//! Changes, and messages that come again, while a partition is being copied to another shard.

use crate::splits::{made, moving_names};
use crate::support::{Cluster, create_file, link, name, receiver, sent};
use pandofs_api::{PeerMessage, Reply, Request, XattrMode, op};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::SPLIT_DELTA_ENTRIES;
use pandofs_types::{Ino, ShardId};

/// Two shards, and a root that splits with one name more than so many.
fn cluster(threshold: usize) -> Cluster {
    cluster_of(threshold, 2)
}

/// The same with so many partitions at most.
pub(crate) fn cluster_of(threshold: usize, partitions: u32) -> Cluster {
    let settings = Settings {
        split_threshold: threshold as u32,
        max_partitions: Some(partitions),
        ..Settings::default()
    };
    Cluster::new(2, DirPolicy::default(), settings)
}

fn create(text: &str) -> Request {
    create_file(Ino::ROOT, name(text))
}

/// Makes files until the split begins: the first chunk, on its way to the target, and the files' numbers.
pub(crate) fn begun(cluster: &mut Cluster, texts: &[String]) -> (PeerMessage, Vec<Ino>) {
    let mut outputs = Vec::new();
    let mut inos = Vec::new();
    for text in texts {
        let input = cluster.request(0, create(text));
        for output in cluster.input(0, input).outputs {
            match output {
                Output::Answer { result, .. } => inos.push(made(result)),
                other => outputs.push(other),
            }
        }
    }
    let [chunk @ PeerMessage::SplitChunk { .. }] = &sent(&outputs)[..] else {
        panic!("{outputs:?}");
    };
    (chunk.clone(), inos)
}

/// Gives a message to its shard: the one that came of it.
pub(crate) fn give(cluster: &mut Cluster, message: &PeerMessage) -> PeerMessage {
    let to = receiver(message).0;
    let step = cluster.input(to, Input::Peer(message.clone()));
    let [answer] = &sent(&step.outputs)[..] else {
        panic!("{:?}", step.outputs);
    };
    answer.clone()
}

/// The shard that has the inode of a name, by the name, and the inode.
fn found(cluster: &mut Cluster, text: &str) -> (ShardId, Ino) {
    let lookup = Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name(text),
    });
    let mut map = DirMap::single(ShardId(0));
    match cluster.call_by_name(&mut map, &name(text), &lookup).0 {
        Ok(Reply::Entry(entry)) => (entry.shard, entry.ino),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_name_that_is_made_as_the_last_step_is_proposed_goes_along() {
    let mut cluster = cluster(8);
    let texts = moving_names(&cluster, 10);
    let (chunk, _) = begun(&mut cluster, &texts[..9]);
    let done = give(&mut cluster, &chunk);
    // The record of the last step comes after that of the name, which is looked at before it.
    let late = cluster.request(0, create(&texts[9]));
    let step = cluster.batch(0, vec![late, Input::Peer(done)]);
    cluster.carry(step.outputs, &mut None);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    for text in &texts {
        assert_eq!(found(&mut cluster, text).0, ShardId(1));
    }
}

/// It was copied with the one name that it had.
#[test]
fn a_file_that_gets_another_name_during_a_split_stays() {
    let mut cluster = cluster(8);
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("elsewhere"),
        mode: 0o755,
        umask: 0,
    });
    let elsewhere = made(cluster.call(0, mkdir));
    assert_eq!(elsewhere.birth_shard(), ShardId(0));
    let texts = moving_names(&cluster, 8);
    let (chunk, inos) = begun(&mut cluster, &texts);
    made(cluster.call(0, link(elsewhere, "other", inos[0])));
    let done = give(&mut cluster, &chunk);
    let step = cluster.input(0, Input::Peer(done));
    cluster.carry(step.outputs, &mut None);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    assert_eq!(found(&mut cluster, &texts[0]), (ShardId(0), inos[0]));
    let getattr = Request::GetAttr(op::GetAttr { ino: inos[0] });
    match cluster.call(0, getattr) {
        Ok(Reply::Inode(inode)) => assert_eq!(inode.attr.nlink, 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn chunks_and_their_answers_that_come_again_change_nothing() {
    const FILES: usize = 2 * SPLIT_DELTA_ENTRIES;
    let mut cluster = cluster(FILES - 1);
    let texts = moving_names(&cluster, FILES);
    let (first, inos) = begun(&mut cluster, &texts);
    let attribute = b"user.late".to_vec();
    for &ino in &inos {
        let request = Request::SetXattr(op::SetXattr {
            ino,
            name: attribute.clone(),
            value: b"yes".to_vec(),
            mode: XattrMode::Either,
        });
        assert!(cluster.call(0, request).is_ok());
    }
    let first_done = give(&mut cluster, &first);
    let second = give(&mut cluster, &first_done);
    assert!(matches!(second, PeerMessage::SplitChunk { .. }));
    let again = cluster.input(0, Input::Peer(first_done.clone()));
    assert!(again.outputs.is_empty(), "{:?}", again.outputs);
    let second_done = give(&mut cluster, &second);
    assert_eq!(give(&mut cluster, &first), first_done);
    let step = cluster.input(0, Input::Peer(second_done));
    cluster.carry(step.outputs, &mut None);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    for (text, ino) in texts.iter().zip(inos) {
        let (shard, found) = found(&mut cluster, text);
        assert_eq!(found, ino);
        let get = Request::GetXattr(op::GetXattr {
            ino,
            name: attribute.clone(),
        });
        assert_eq!(
            cluster.call(shard.0, get),
            Ok(Reply::Value(b"yes".to_vec())),
            "{text}"
        );
    }
}
