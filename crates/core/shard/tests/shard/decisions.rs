//! Messages of distributed operations that come again, come late, or are answered before the disk has what they say.

use crate::support::{Cluster, Step, name, sent};
use pandofs_api::{CommitMessage, PeerMessage, Refusal, Refused, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Record};
use pandofs_types::Ino;

/// The second random number drawn leads to shard 1 of two, as does every other one after it.
fn cluster() -> Cluster {
    Cluster::new(2, DirPolicy::Random, Settings::default())
}

/// A directory of this name is asked for, of which the home is shard 1: the request, and the message that has shard 1 decide.
fn begun(cluster: &mut Cluster, text: &str) -> (Input, PeerMessage) {
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name(text),
        mode: 0o755,
        umask: 0,
    });
    let request = cluster.request(0, mkdir);
    let first = cluster.input(0, request.clone());
    let message = sent(&first.outputs).remove(0);
    assert!(matches!(said(&message), CommitMessage::Do { .. }));
    (request, message)
}

fn said(message: &PeerMessage) -> &CommitMessage {
    match message {
        PeerMessage::Commit { message, .. } => message,
        other => panic!("{other:?} is no message of a distributed operation"),
    }
}

fn give(cluster: &mut Cluster, shard: u16, message: &PeerMessage) -> Step {
    cluster.input(shard, Input::Peer(message.clone()))
}

/// The one message that came of it.
fn answer(step: &Step) -> PeerMessage {
    let messages = sent(&step.outputs);
    let [message] = &messages[..] else {
        panic!("{messages:?}");
    };
    message.clone()
}

#[test]
fn what_is_said_of_a_decision_and_its_answer_wait_for_the_disk() {
    let mut cluster = cluster();
    let (_, decide) = begun(&mut cluster, "a");
    let decided = give(&mut cluster, 1, &decide);
    let committed = give(&mut cluster, 0, &answer(&decided));
    for step in [&decided, &committed] {
        let waits = |output: &Output| match output {
            Output::Send { durable, .. } | Output::Answer { durable, .. } => *durable,
            other => panic!("unexpected {other:?}"),
        };
        assert!(step.outputs.iter().all(waits), "{:?}", step.outputs);
    }
    assert_eq!(committed.outputs.len(), 2, "the client and the participant");
}

/// An older operation is still under way, so that the horizon does not say that this one has ended.
#[test]
fn a_copy_of_the_request_to_decide_does_nothing_after_the_end() {
    let mut cluster = cluster();
    let (_, older) = begun(&mut cluster, "older");
    // One that leads to shard 1, too.
    cluster.draw_until(|number| number % 2 == 1);
    let (_, decide) = begun(&mut cluster, "a");
    let committed = answer(&give(&mut cluster, 1, &decide));
    let acknowledged = give(&mut cluster, 0, &committed);
    give(&mut cluster, 1, &sent(&acknowledged.outputs)[0]);
    let inodes = cluster.nodes[1].shard.status().inodes;
    let again = give(&mut cluster, 1, &decide);
    assert!(again.outputs.is_empty(), "{:?}", again.outputs);
    assert_eq!(cluster.nodes[1].shard.status().inodes, inodes);
    let late = answer(&give(&mut cluster, 1, &older));
    assert!(matches!(said(&late), CommitMessage::Committed { .. }));
}

#[test]
fn what_was_refused_when_it_was_inquired_about_is_refused_when_it_comes() {
    let mut cluster = cluster();
    let (_, decide) = begun(&mut cluster, "a");
    let PeerMessage::Commit {
        from,
        to,
        horizon,
        held,
        message: CommitMessage::Do { tx, number, .. },
    } = decide.clone()
    else {
        panic!("{decide:?}");
    };
    let inquiry = PeerMessage::Commit {
        from,
        to,
        horizon,
        held,
        message: CommitMessage::Inquire { tx, number },
    };
    let inodes = cluster.nodes[1].shard.status().inodes;
    for message in [&inquiry, &decide] {
        let refused = answer(&give(&mut cluster, 1, message));
        assert!(
            matches!(said(&refused), CommitMessage::Refused { why, .. } if *why == Refused::Unknown),
            "{refused:?}"
        );
    }
    assert_eq!(cluster.nodes[1].shard.status().inodes, inodes);
}

/// It was asked to decide, and what became of that is not known: it may have to be made anew.
#[test]
fn after_a_restart_who_was_to_decide_is_asked_what_it_decided_and_the_request_waits() {
    let mut cluster = cluster();
    let (request, _) = begun(&mut cluster, "a");
    let recovered = cluster.restart(0);
    let inquiries = sent(&recovered.outputs);
    assert!(!inquiries.is_empty());
    for message in &inquiries {
        let message = said(message);
        assert!(
            matches!(message, CommitMessage::Inquire { .. }),
            "{message:?}"
        );
    }
    let again = cluster.input(0, request);
    let begins = |record: &Record| matches!(record, Record::Request { .. });
    assert!(!again.records.iter().any(begins), "{:?}", again.records);
    assert!(again.outputs.is_empty(), "{:?}", again.outputs);
    // The participant that was asked has decided nothing. The request is answered, and does not begin another operation as well.
    let refused = answer(&give(&mut cluster, 1, &inquiries[0]));
    let ended = give(&mut cluster, 0, &refused);
    assert!(!ended.records.iter().any(begins), "{:?}", ended.records);
    let answers: Vec<_> = ended
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::Answer { result, .. } => Some(result.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [Err(Refusal::TryAgain)]);
}
