//! Forwarding records of files that have moved to another shard.

use crate::support::{Cluster, create_file, name};
use pandofs_api::{CommitMessage, PeerMessage, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{FsError, Ino, ShardId};

/// The target of a split adopts a file, and its word of that is late; the file is removed there, and the source is to
/// forget that it forwards to it before it does.
#[test]
fn a_file_that_dies_before_its_source_has_given_it_up_leaves_no_record() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(16),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::default(), settings);
    let moves = |text: &String| {
        let position = cluster.map.hash_key.position(text.as_bytes());
        position.radix_index(1) == 1
    };
    let all = (0..).map(|number| format!("file{number}"));
    let names: Vec<String> = all.filter(moves).take(9).collect();
    let mut outputs = Vec::new();
    for text in &names {
        let create = create_file(Ino::ROOT, name(text));
        let input = cluster.request(0, create);
        outputs.extend(cluster.input(0, input).outputs);
    }
    let ino = match &outputs[0] {
        Output::Answer {
            result: Ok(Reply::Entry(entry)),
            ..
        } => entry.ino,
        other => panic!("{other:?}"),
    };

    // Everything is carried but the target's word that it has decided.
    let (mut late, mut target) = (None, ShardId(0));
    while let Some(output) = outputs.pop() {
        let Output::Send { to, message, .. } = output else {
            continue;
        };
        if let PeerMessage::Commit {
            from,
            message: CommitMessage::Committed { .. },
            ..
        } = &message
        {
            target = *from;
            late = Some(message);
        } else {
            outputs.extend(cluster.input(to.0, Input::Peer(message)).outputs);
        }
    }
    let late = late.expect("the target decides");

    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name(&names[0]),
    });
    assert_eq!(cluster.call(target.0, unlink), Ok(Reply::Removed { ino }));
    let given_up = cluster.input(0, Input::Peer(late)).outputs;
    cluster.carry(given_up, &mut None);

    cluster.now += 2 * RESEND_INTERVAL.as_nanos() as i64;
    let again = cluster.input(target.0, Input::Tick).outputs;
    cluster.carry(again, &mut None);
    let asked = cluster.call(0, Request::GetAttr(op::GetAttr { ino }));
    assert_eq!(
        asked,
        Err(Refusal::Fs(FsError::Stale)),
        "nobody forwards to it"
    );
}
