//! The gate of a split: who wants a lock in the moving half waits for the last step, and for nothing longer.

use crate::support::{Cluster, create_file, link, name, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, Horizon, PeerMessage, Reply, Request, Step, StepNumber,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{Credentials, FileKind, FsError, Ino, ShardId, Time, TxId};

/// So many that each half of a directory gets some of them.
const SOME: usize = 12;

fn names(of: &str) -> impl Iterator<Item = String> {
    (0..SOME).map(move |number| format!("{of}{number}"))
}

/// A message of shard 1 about an operation that it coordinates.
fn of_shard_1(message: CommitMessage) -> Input {
    Input::Peer(PeerMessage::Commit {
        from: ShardId(1),
        to: ShardId(0),
        horizon: Horizon::default(),
        held: None,
        message,
    })
}

fn tx(sequence: usize) -> TxId {
    TxId {
        coordinator: ShardId(1),
        sequence: 100 + sequence as u64,
    }
}

/// After a restart the half of a directory is to move and a lock in it has still to go. By the time it has gone the half
/// may not move for the rest of the grace, as a file has come to it that may be open.
#[test]
fn nobody_waits_at_a_gate_while_the_half_has_to_stay() {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    };
    // What the root's shard makes it keeps.
    let (dir_depth, dir_width) = (9, 99);
    let policy = DirPolicy::Ddg {
        dir_depth,
        dir_width,
    };
    let mut cluster = Cluster::new(2, policy, settings);
    let mut old: Vec<String> = Vec::new();
    for text in names("old").take(6) {
        cluster.file(&text);
        old.push(text);
    }
    cluster.restart(0);
    let mkdir = Request::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    };
    let Ok(Reply::Entry(dir)) = cluster.call(0, mkdir) else {
        panic!("the directory is made");
    };
    assert_eq!(dir.shard, ShardId(0));
    // Names that an operation of the other shard holds.
    for (number, text) in names("held").enumerate() {
        let step = Step::Insert {
            dir: dir.ino,
            name: name(&text),
            ino: Some(Ino::new(ShardId(1), 1)),
            kind: FileKind::File,
            shard: ShardId(1),
            replace: false,
            caller: Credentials::ROOT,
            time: Time(1_000),
        };
        let tx = tx(number);
        let age = Age { time: Time(1), tx };
        let (number, ask) = (StepNumber(1), Ask::Prepare);
        let held = cluster.input(
            0,
            of_shard_1(CommitMessage::Do {
                tx,
                number,
                step,
                ask,
                age,
            }),
        );
        assert_eq!(sent(&held.outputs).len(), 1);
    }
    for text in names("new") {
        let made = cluster.call(0, create_file(dir.ino, name(&text)));
        assert!(matches!(made, Ok(Reply::Entry(_))), "{made:?}");
    }
    // The gate is there, and the last step could not have its locks.
    for text in &old {
        let rename = Request::Rename {
            dir: Ino::ROOT,
            name: name(text),
            new_dir: dir.ino,
            new_name: name(text),
            new_shard: ShardId(0),
            no_replace: false,
            whiteout: false,
        };
        let renamed = cluster.call(0, rename);
        assert!(matches!(renamed, Ok(Reply::Renamed { .. })), "{renamed:?}");
    }
    for number in 0..SOME {
        let (tx, number, commit) = (tx(number), StepNumber(1), false);
        cluster.input(0, of_shard_1(CommitMessage::Outcome { tx, number, commit }));
    }
    let outputs = cluster.later(0).outputs;
    cluster.carry(outputs, &mut None);
    assert_eq!(cluster.nodes[0].shard.status().partitions, 2, "it stays");
    for text in names("link") {
        let mut request = link(dir.ino, &text, Ino::new(ShardId(1), 1));
        if let Request::Link { inode_shard, .. } = &mut request {
            *inode_shard = ShardId(1);
        }
        let asked = cluster.request(0, request);
        let outputs = cluster.input(0, asked).outputs;
        let mut answer = None;
        cluster.carry(outputs, &mut answer);
        assert_eq!(answer, Some(Err(FsError::Stale.into())), "{text}");
    }
    // When everybody has had the time to say what is open the half goes.
    cluster.pass(2 * SESSION_TIMEOUT);
    cluster.settle();
    assert_eq!(cluster.nodes[1].shard.status().partitions, 1);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    let outputs = cluster.later(0).outputs;
    assert!(!outputs.iter().any(|o| matches!(o, Output::Send { .. })));
}
