//! Outcomes that reach a shard for some steps of an operation and not yet for others.

use crate::support::{Cluster, create_file, horizon, name, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, PeerMessage, Reply, Request, Step, StepNumber, op, step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::Input;
use pandofs_storage::store::Store;
use pandofs_types::{Ino, ShardId, Time, TxId};

/// Two files on shard 1 of two.
fn cluster() -> (Cluster, [Ino; 2]) {
    // The second random number drawn leads to shard 1.
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    let Ok(Reply::Entry(dir)) = cluster.call(0, mkdir) else {
        panic!("the directory is made");
    };
    assert_eq!(dir.shard, ShardId(1));
    let files = ["a", "b"].map(|text| {
        let created = cluster.call(1, create_file(dir.ino, name(text)));
        let Ok(Reply::Entry(file)) = created else {
            panic!("the file is made: {created:?}");
        };
        assert_eq!(file.shard, ShardId(1));
        file.ino
    });
    (cluster, files)
}

fn tx(sequence: u64) -> TxId {
    TxId {
        coordinator: ShardId(0),
        sequence,
    }
}

/// A message of shard 0 about an operation that it coordinates.
fn of_coordinator(message: CommitMessage) -> Input {
    Input::Peer(PeerMessage::Commit {
        from: ShardId(0),
        to: ShardId(1),
        horizon: horizon(100),
        held: None,
        message,
    })
}

fn touch(sequence: u64, number: u16, ino: Ino) -> Input {
    let tx = tx(sequence);
    of_coordinator(CommitMessage::Do {
        tx,
        number: StepNumber(number),
        step: Step::Touch(step::Touch {
            ino,
            must_own: None,
            time: Time(5_000),
        }),
        ask: Ask::Prepare,
        age: Age {
            time: Time(sequence as i64),
            tx,
        },
    })
}

fn said(outputs: &[pandofs_shard::Output]) -> Vec<CommitMessage> {
    let message = |sent| match sent {
        PeerMessage::Commit { message, .. } => Some(message),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(message).collect()
}

/// What a step held is free when it has ended, also while another step of its operation is prepared here. A shard that
/// kept it, and had it free after a restart, refused a step and found it prepared when it replayed its log.
#[test]
fn a_step_is_answered_alike_before_and_after_a_restart_when_another_has_ended() {
    let (mut cluster, [a, b]) = cluster();
    for (number, ino) in [(1, a), (2, b)] {
        let said = said(&cluster.input(1, touch(100, number, ino)).outputs);
        assert!(
            matches!(said[..], [CommitMessage::Prepared { .. }]),
            "{said:?}"
        );
    }
    let outcome = of_coordinator(CommitMessage::Outcome {
        tx: tx(100),
        number: StepNumber(1),
        commit: true,
    });
    cluster.input(1, outcome);
    cluster.nodes[1].store.flush().unwrap();

    let later = [touch(101, 1, a), touch(102, 1, b)];
    let before = later
        .clone()
        .map(|asked| said(&cluster.input(1, asked).outputs));
    assert!(
        matches!(before[0][..], [CommitMessage::Prepared { .. }]),
        "it is free: {before:?}"
    );
    assert!(
        matches!(before[1][..], [CommitMessage::Refused { .. }]),
        "it is held: {before:?}"
    );
    cluster.restart(1);
    let after = later.map(|asked| said(&cluster.input(1, asked).outputs));
    assert_eq!(before, after);
}
