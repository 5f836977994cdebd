//! Somebody sets the wall clock. It changes time stamps and nothing else.

use crate::support::{Cluster, create_file, name, sent};
use pandofs_api::{CommitMessage, Horizon, NewNode, PeerMessage, Refused, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, SLOT_RETENTION};
use pandofs_types::{Ino, ShardId};

const HOUR: i64 = 3_600_000_000_000;

fn cluster() -> Cluster {
    Cluster::new(2, DirPolicy::Random, Settings::default())
}

/// Shard 0 begins to make a directory on shard 1; what it asks of it.
fn begins(cluster: &mut Cluster) -> CommitMessage {
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("a"),
        mode: 0o755,
        umask: 0,
    });
    // The second random number drawn leads to shard 1.
    let asked = cluster.request(0, mkdir);
    only(&cluster.input(0, asked).outputs)
}

fn only(outputs: &[Output]) -> CommitMessage {
    match &sent(outputs)[..] {
        [PeerMessage::Commit { message, .. }] => message.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_answered_is_sent_again_after_the_clock_was_set_back() {
    let mut cluster = cluster();
    let asked = begins(&mut cluster);
    cluster.skew -= HOUR;
    assert_eq!(only(&cluster.later(0).outputs), asked);
    // Nor any sooner because it was set forth.
    cluster.skew += 3 * HOUR;
    assert_eq!(sent(&cluster.input(0, Input::Tick).outputs), []);
    cluster.now += RESEND_INTERVAL.as_nanos() as i64;
    assert_eq!(only(&cluster.input(0, Input::Tick).outputs), asked);
}

#[test]
fn an_operation_that_gave_way_starts_again_after_the_clock_was_set_back() {
    let mut cluster = cluster();
    let CommitMessage::Do { tx, number, .. } = begins(&mut cluster) else {
        panic!("a step is asked for");
    };
    let message = CommitMessage::Refused {
        tx,
        number,
        why: Refused::Busy,
    };
    let refused = PeerMessage::Commit {
        from: ShardId(1),
        to: ShardId(0),
        horizon: Horizon::default(),
        held: None,
        message,
    };
    cluster.input(0, Input::Peer(refused));
    cluster.skew -= HOUR;
    let again = only(&cluster.later(0).outputs);
    assert!(
        matches!(again, CommitMessage::Do { tx: other, .. } if other != tx),
        "{again:?}"
    );
}

#[test]
fn the_grace_ends_after_the_clock_was_set_back() {
    let mut cluster = cluster();
    let create = Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name("open"),
        node: NewNode::File,
        mode: 0o644,
        umask: 0,
        open: true,
    });
    assert!(matches!(cluster.call(0, create), Ok(Reply::Entry(_))));
    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name("open"),
    });
    assert!(matches!(cluster.call(0, unlink), Ok(Reply::Removed { .. })));
    cluster.restart(0);
    assert_eq!(cluster.nodes[0].shard.status().reclaiming, 1);
    cluster.pass(SESSION_TIMEOUT / 2);
    cluster.skew -= HOUR;
    cluster.pass(SESSION_TIMEOUT / 4);
    assert_eq!(cluster.nodes[0].shard.status().reclaiming, 1, "not yet");
    cluster.pass(SESSION_TIMEOUT / 2);
    assert_eq!(cluster.nodes[0].shard.status().reclaiming, 0);
}

#[test]
fn answers_are_kept_for_sessions_that_are_heard_of_whatever_the_clock_says() {
    let mut cluster = cluster();
    let asked = cluster.request(0, create_file(Ino::ROOT, name("a")));
    let answer = |cluster: &mut Cluster, asked: &Input| {
        let mut answer = None;
        let outputs = cluster.input(0, asked.clone()).outputs;
        cluster.carry(outputs, &mut answer);
        answer.expect("it is answered")
    };
    let first = answer(&mut cluster, &asked);
    assert!(first.is_ok(), "{first:?}");
    cluster.skew += 48 * HOUR;
    cluster.input(0, Input::Tick);
    assert_eq!(answer(&mut cluster, &asked), first);
    cluster.restart(0);
    cluster.skew += 48 * HOUR;
    cluster.input(0, Input::Tick);
    assert_eq!(answer(&mut cluster, &asked), first);
    // Of one that was not heard of for so long nothing is kept.
    cluster.now += SLOT_RETENTION.as_nanos() as i64 + 1;
    cluster.input(0, Input::Tick);
    let last = answer(&mut cluster, &asked);
    assert!(last.is_err(), "{last:?}");
}
