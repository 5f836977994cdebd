//! Outcomes that reach a shard for some steps of an operation and not yet for others.

use crate::support::{Cluster, create_file, horizon, name, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, DirSettings, PeerMessage, Reply, Request, Step, StepNumber, op, step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::Input;
use pandofs_storage::store::Store;
use pandofs_types::{AtimeRule, Credentials, Ino, SetAttr, ShardId, Time, TxId};

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

/// The locks of a step are free when it has ended, also while another step of its operation is prepared here. A shard
/// that kept them, and had them free after a restart, refused a step and found it prepared when it replayed its log.
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

/// The change was answered by its coordinator, perhaps, and a request after that is to meet the new rights.
#[test]
fn a_name_is_waited_for_while_the_rights_to_its_directory_change() {
    let (mut cluster, [file, _]) = cluster();
    let getattr = Request::GetAttr(op::GetAttr { ino: file });
    assert!(cluster.call(1, getattr).is_ok());
    let dir = Ino::new(ShardId(1), 1);
    let lookup = Request::Lookup(op::Lookup {
        dir,
        name: name("a"),
    });
    assert!(
        cluster.call(1, lookup.clone()).is_ok(),
        "the first directory there"
    );
    let change = of_coordinator(CommitMessage::Do {
        tx: tx(700),
        number: StepNumber(1),
        step: Step::SetDir(step::SetDir {
            dir,
            set: SetAttr {
                mode: Some(0o700),
                ..SetAttr::default()
            },
            settings: DirSettings::default(),
            caller: Credentials::ROOT,
            time: Time(5_000),
        }),
        ask: Ask::Prepare,
        age: Age {
            time: Time(700),
            tx: tx(700),
        },
    });
    cluster.input(1, change);
    let waits = cluster.request(1, lookup);
    assert!(cluster.input(1, waits).outputs.is_empty());
}

/// The operation that has the inode locked goes by it as it was.
#[test]
fn a_time_of_access_is_not_written_to_what_an_operation_has_locked() {
    let (mut cluster, [file, _]) = cluster();
    let atime = |cluster: &mut Cluster| match cluster
        .call(1, Request::GetAttr(op::GetAttr { ino: file }))
    {
        Ok(Reply::Inode(inode)) => inode.attr.atime,
        other => panic!("{other:?}"),
    };
    let before = atime(&mut cluster);
    cluster.input(1, touch(700, 1, file));
    cluster.now += 1_000_000;
    let accessed = Request::Accessed(op::Accessed {
        inos: vec![(file, Time(before.0 + 1_000))],
        rule: AtimeRule::Strict,
    });
    assert_eq!(cluster.call(1, accessed), Ok(Reply::Done));
    let (tx, number, commit) = (tx(700), StepNumber(1), false);
    let over = CommitMessage::Outcome { tx, number, commit };
    cluster.input(1, of_coordinator(over));
    assert_eq!(atime(&mut cluster), before);
}
