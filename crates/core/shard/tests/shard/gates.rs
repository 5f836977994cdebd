//! The gate of a split: a request for a lock in the moving half waits for the last step, and for nothing longer.

use crate::grants::in_force_of;
use crate::support::{Cluster, create_file, link, name, sent};
use pandofs_api::{
    Age, Ask, CommitMessage, DirSettings, Horizon, PeerMessage, Refusal, Reply, Request, Step,
    StepNumber, op, step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{GATE_PATIENCE, SESSION_TIMEOUT};
use pandofs_types::{Credentials, FileKind, FsError, Ino, SessionId, ShardId, Time, TxId};
use std::collections::VecDeque;

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

/// Shard 0 has started again and a half of a new directory is to move from it, in which the other shard holds names; files
/// that may be open are elsewhere.
fn about_to_move() -> (Cluster, Ino, Vec<String>) {
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    };
    // The root's shard keeps all that it makes.
    let (dir_depth, dir_width) = (9, 99);
    let policy = DirPolicy::Ddg {
        dir_depth,
        dir_width,
    };
    let mut cluster = Cluster::new(2, policy, settings);
    let old: Vec<String> = names("old").take(6).collect();
    for text in &old {
        cluster.file(text);
    }
    cluster.restart(0);
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o755,
        umask: 0,
    });
    let Ok(Reply::Entry(dir)) = cluster.call(0, mkdir) else {
        panic!("the directory is made");
    };
    assert_eq!(dir.shard, ShardId(0));
    // Names that an operation of the other shard holds.
    for (number, text) in names("held").enumerate() {
        let step = Step::Insert(step::Insert {
            dir: dir.ino,
            name: name(&text),
            ino: Some(Ino::new(ShardId(1), 1)),
            kind: FileKind::File,
            shard: ShardId(1),
            replace: false,
            caller: Credentials::ROOT,
            time: Time(1_000),
        });
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
    (cluster, dir.ino, old)
}

/// Asks for a name in the directory of a file of the other shard, which is not there; the answer, if there is one.
fn ask(cluster: &mut Cluster, dir: Ino, text: &str) -> Option<Result<Reply, Refusal>> {
    let mut request = link(dir, text, Ino::new(ShardId(1), 1));
    if let Request::Link(op::Link { inode_shard, .. }) = &mut request {
        *inode_shard = ShardId(1);
    }
    let asked = cluster.request(0, request);
    let outputs = cluster.input(0, asked).outputs;
    let mut answer = None;
    cluster.carry(outputs, &mut answer);
    answer
}

/// By the time that a lock in the half has gone it may not move for the rest of the grace, as a file has come to it that
/// may be open.
#[test]
fn nobody_waits_at_a_gate_while_the_half_has_to_stay() {
    let (mut cluster, dir, old) = about_to_move();
    for text in &old {
        let rename = Request::Rename(op::Rename {
            dir: Ino::ROOT,
            name: name(text),
            new_dir: dir,
            new_name: name(text),
            new_shard: ShardId(0),
            no_replace: false,
            whiteout: false,
        });
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
        let told = Some(Err(FsError::Stale.into()));
        assert_eq!(ask(&mut cluster, dir, &text), told, "{text}");
    }
    // When everybody has had the time to say what is open the half goes.
    cluster.pass(2 * SESSION_TIMEOUT);
    cluster.settle();
    assert_eq!(cluster.nodes[1].shard.status().partitions, 1);
    assert_eq!(cluster.nodes[0].shard.status().splits, 1);
    let outputs = cluster.later(0).outputs;
    assert!(!outputs.iter().any(|o| matches!(o, Output::Send { .. })));
}

/// The last step comes after the end of a grant of the directory, and its holder lets go of it once all is executed that it
/// has answered: a mkdir among that may not wait for the last step.
#[test]
fn what_was_answered_under_a_grant_passes_the_gate() {
    let (mut cluster, dir, _) = about_to_move();
    let settings = DirSettings {
        policy: Some(DirPolicy::Random),
        ..DirSettings::default()
    };
    let set = Request::SetDirSettings(op::SetDirSettings { dir, settings });
    cluster.call(0, set).expect("it is set");
    let session = SessionId(5);
    cluster.input(0, Input::TakesLeases { session });
    in_force_of(&mut cluster, session.0, 0);
    let incarnation = in_force_of(&mut cluster, session.0, 0);
    let mut gone_on = 0;
    for (number, text) in names("away").enumerate() {
        for random in 0..8 {
            let away = Request::MkdirAway(op::MkdirAway {
                incarnation,
                mkdir: op::Mkdir {
                    dir,
                    name: name(&text),
                    mode: 0o755,
                    umask: 0,
                },
                time: Time(cluster.now),
                random,
                placing: None,
                ino: Ino::new(ShardId(1), 1_000 + number as u64),
            });
            let asked = cluster.request(0, away);
            let step = cluster.input(0, asked);
            let is_refused = step
                .outputs
                .iter()
                .any(|o| matches!(o, Output::Answer { .. }));
            assert!(is_refused || !step.records.is_empty(), "{text} waits");
            if !is_refused {
                gone_on += 1;
                break;
            }
        }
    }
    assert!(gone_on > 0, "some are placed on the other shard");
    assert!(
        names("link").any(|text| ask(&mut cluster, dir, &text).is_none()),
        "the gate is there"
    );
}

/// The other shard's server is away, and what it holds does not go.
#[test]
fn nobody_waits_at_a_gate_for_long() {
    let (mut cluster, dir, _) = about_to_move();
    let held_up = |cluster: &mut Cluster, of: &str| {
        let asked = names(of).map(|text| ask(cluster, dir, &text));
        asked.filter(Option::is_none).count()
    };
    let waiting = held_up(&mut cluster, "one");
    assert!(waiting > 0, "the gate keeps them out");
    // The waiting requests go on.
    cluster.now += GATE_PATIENCE.as_nanos() as i64 + 1;
    let mut answered = 0;
    let mut queue: VecDeque<_> = cluster.input(0, Input::Tick).outputs.into();
    while let Some(output) = queue.pop_front() {
        match output {
            Output::Answer { .. } => answered += 1,
            Output::Send { to, message, .. } => {
                queue.extend(cluster.input(to.0, Input::Peer(message)).outputs);
            }
            _ => {}
        }
    }
    assert_eq!(answered, waiting);
    cluster.later(0);
    assert_eq!(held_up(&mut cluster, "two"), 0);
    // Then the gate is there again.
    cluster.now += GATE_PATIENCE.as_nanos() as i64;
    cluster.input(0, Input::Tick);
    assert!(held_up(&mut cluster, "three") > 0);
}
