//! Requests and messages that come while the last step of a split is undecided.

use crate::copying::{begun, cluster_of, give};
use crate::splits::moving_names;
use crate::support::{Cluster, answer_to_step, create_file, name, sent};
use pandofs_api::{
    Adopt, Ask, CommitMessage, PeerMessage, Refused, Reply, Request, SplitId, Step, op, step,
};
use pandofs_placement::PartitionIndex;
use pandofs_shard::{Input, Output};
use pandofs_types::{Ino, Position, ShardId, Time};

/// The root gives half of itself to shard 1, which is asked to decide and has not heard of it: that message.
fn handing() -> (Cluster, PeerMessage) {
    let mut cluster = cluster_of(8, 4);
    let texts = moving_names(&cluster, 9);
    let (chunk, _) = begun(&mut cluster, &texts);
    let done = give(&mut cluster, &chunk);
    let decide = give(&mut cluster, &done);
    assert_eq!(adopted(&decide).child, PartitionIndex(1));
    (cluster, decide)
}

fn adopted(message: &PeerMessage) -> Adopt {
    match message {
        PeerMessage::Commit {
            message:
                CommitMessage::Do {
                    step: Step::Adopt(adopt),
                    ..
                },
            ..
        } => (**adopt).clone(),
        other => panic!("{other:?} is no last step"),
    }
}

/// Answer of shard 0 to a step that shard 1 asks for, whose operation is younger than any other.
fn said(cluster: &mut Cluster, step: Step) -> CommitMessage {
    answer_to_step(cluster, step, Ask::Decide, Time(i64::MAX))
}

fn expect_busy(told: &CommitMessage) {
    let is_busy = |why: &Refused| *why == Refused::Busy;
    assert!(
        matches!(told, CommitMessage::Refused { why, .. } if is_busy(why)),
        "{told:?}"
    );
}

/// The other shard may have the half, and names that were made in it, and this one not have heard.
#[test]
fn a_listing_waits_until_it_is_known_who_has_the_half() {
    let (mut cluster, decide) = handing();
    let list = Request::ReadDir(op::ReadDir {
        dir: Ino::ROOT,
        from: Position::FIRST,
        max_entries: 100,
        max_bytes: 10_000,
        plus: false,
    });
    let request = cluster.request(0, list);
    let ticket = cluster.last_ticket();
    assert_eq!(cluster.input(0, request).outputs, []);
    let told = sent(&cluster.input(1, Input::Peer(decide)).outputs);
    let is_end = |message: &&PeerMessage| matches!(message, PeerMessage::Commit { .. });
    let committed = told.iter().find(is_end).expect("it is decided").clone();
    let outputs = cluster.input(0, Input::Peer(committed)).outputs;
    let listed = outputs.iter().find_map(|output| match output {
        Output::Answer {
            ticket: of, result, ..
        } if *of == ticket => Some(result.clone()),
        _ => None,
    });
    let Some(Ok(Reply::Entries(page))) = listed else {
        panic!("{outputs:?}");
    };
    assert_eq!(page.entries, [], "all names have moved");
}

/// It would be deleted with the rest of the half when the decision comes.
#[test]
fn a_part_of_the_half_is_not_taken_back_before_it_is_given() {
    let (mut cluster, decide) = handing();
    let child = PartitionIndex(3);
    let mut part = adopted(&decide).part;
    part.map.activate_at(child, ShardId(0));
    let back = Adopt {
        split: SplitId {
            source: ShardId(1),
            sequence: 1,
        },
        part,
        child,
        chunks: 0,
        ..adopted(&decide)
    };
    let told = said(&mut cluster, Step::Adopt(Box::new(back)));
    expect_busy(&told);
}

#[test]
fn nothing_is_given_up_for_another_attempt_than_the_one_under_way() {
    let mut cluster = cluster_of(8, 4);
    let texts = moving_names(&cluster, 9);
    let (chunk, _) = begun(&mut cluster, &texts);
    let PeerMessage::SplitChunk { chunk, .. } = chunk else {
        panic!("{chunk:?}");
    };
    let split = SplitId {
        sequence: chunk.split.sequence + 1,
        ..chunk.split
    };
    let dir = Ino::ROOT;
    let told = said(&mut cluster, Step::GiveUp(step::GiveUp { dir, split }));
    expect_busy(&told);
    let create = create_file(Ino::ROOT, name(&texts[0]));
    assert!(cluster.call(0, create).is_err(), "the names are still here");
}
