//! Branch files: files whose inodes are on another shard than their entries.

use crate::support::{Cluster, name, sent};
use pandofs_api::{CommitMessage, EntryReply, NewNode, PeerMessage, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, FilePolicy, Settings};
use pandofs_shard::{Input, Output, Record};
use pandofs_types::{CommitProtocol, FsError, Ino, SessionId, ShardId};
use std::collections::{BTreeSet, VecDeque};

/// Another shard, drawn at random, after every file.
fn settings() -> Settings {
    Settings {
        file_policy: FilePolicy::Ddg { file_width: 1 },
        ..Settings::default()
    }
}

fn create(text: &str, open: bool) -> Request {
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: NewNode::File,
        mode: 0o600,
        umask: 0,
        open,
    })
}

fn unlink(text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    })
}

fn lookup(text: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name(text),
    })
}

/// Makes files until the next one is a branch file on shard 1, and asks for that.
fn begin(cluster: &mut Cluster) -> (Vec<Record>, Vec<Output>) {
    for file in 0..64 {
        let request = cluster.request(0, create(&format!("file {file}"), true));
        let step = cluster.input(0, request);
        if !sent(&step.outputs).is_empty() {
            return (step.records, step.outputs);
        }
    }
    panic!("64 files, and none is a branch file");
}

fn answers(outputs: &[Output]) -> Vec<&EntryReply> {
    let of = |output| match output {
        &Output::Answer {
            result: Ok(Reply::Entry(ref entry)),
            ..
        } => Some(entry),
        _ => None,
    };
    outputs.iter().filter_map(of).collect()
}

#[test]
fn three_messages_and_four_records_make_a_branch_file_that_is_open() {
    let mut cluster = Cluster::new(2, DirPolicy::default(), settings());
    let (records, outputs) = begin(&mut cluster);
    assert!(matches!(records[..], [Record::Request { .. }]));
    assert!(answers(&outputs).is_empty());

    let there = cluster.input(1, Input::Peer(sent(&outputs)[0].clone()));
    assert!(matches!(there.records[..], [Record::Commit { .. }]));
    let watched = Output::Watch {
        session: SessionId(5),
    };
    assert!(
        there.outputs.contains(&watched),
        "a session that says nothing here has the file open for ever: {:?}",
        there.outputs
    );

    let back = cluster.input(0, Input::Peer(sent(&there.outputs)[0].clone()));
    assert!(matches!(back.records[..], [Record::Commit { .. }]));
    let made = answers(&back.outputs)[0].clone();
    assert_eq!(made.shard, ShardId(1));
    assert_eq!(made.ino.birth_shard(), ShardId(1));
    assert!(made.inode.is_some());
    let end = cluster.input(1, Input::Peer(sent(&back.outputs)[0].clone()));
    assert!(matches!(end.records[..], [Record::Commit { .. }]) && end.outputs.is_empty());

    // Somebody else takes its name; it stays until it is closed.
    let ino = made.ino;
    let named = (0..64).map(|file| format!("file {file}")).find(|text| {
        let found = cluster.call(0, lookup(text));
        matches!(found, Ok(Reply::Entry(entry)) if entry.ino == ino)
    });
    let gone = cluster.call(0, unlink(&named.expect("it has a name")));
    assert_eq!(gone, Ok(Reply::Removed { ino }));
    let Ok(Reply::Inode(inode)) = cluster.call(1, Request::GetAttr(op::GetAttr { ino })) else {
        panic!("it is gone, and its maker has it open");
    };
    assert_eq!(inode.attr.nlink, 0);
    let release = cluster.request(1, Request::Release(op::Release { inos: vec![ino] }));
    cluster.input(1, release);
    assert!(
        cluster
            .call(1, Request::GetAttr(op::GetAttr { ino }))
            .is_err()
    );
}

/// Where the coordinator decides, the answer may be ahead of the outcome.
#[test]
fn who_has_the_answer_waits_until_the_file_is_there() {
    for commit_protocol in [CommitProtocol::TwoPhase, CommitProtocol::ThreePhase] {
        let settings = Settings {
            commit_protocol,
            ..settings()
        };
        let mut cluster = Cluster::new(2, DirPolicy::default(), settings);
        let (_, outputs) = begin(&mut cluster);
        let mut held = VecDeque::from(sent(&outputs));
        let ino = loop {
            let message = held.pop_front().expect("it is answered");
            let PeerMessage::Commit { to, .. } = message else {
                panic!("{message:?}");
            };
            let outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            held.extend(sent(&outputs));
            if let Some(entry) = answers(&outputs).first() {
                break entry.ino;
            }
        };
        assert!(
            held.iter().any(|message| matches!(
                message,
                PeerMessage::Commit {
                    message: CommitMessage::Outcome { commit: true, .. },
                    ..
                }
            )),
            "{held:?}"
        );
        // It is closed, which does not count yet, and asked for.
        let release = Request::Release(op::Release { inos: vec![ino] });
        let left = Reply::NotClosed(vec![(ino, ShardId(1))]);
        assert_eq!(cluster.call(1, release.clone()), Ok(left));
        let ask = cluster.request(1, Request::GetAttr(op::GetAttr { ino }));
        assert!(cluster.input(1, ask).outputs.is_empty());
        let mut answer = None;
        for message in held {
            let outputs = cluster.input(1, Input::Peer(message)).outputs;
            cluster.carry(outputs, &mut answer);
        }
        assert!(matches!(answer, Some(Ok(Reply::Inode(_)))), "{answer:?}");
        assert_eq!(cluster.call(1, release), Ok(Reply::Done));
        // Nobody has it open any more: with its last name it goes.
        let status = cluster.nodes[1].shard.status();
        assert_eq!(status.opens, 0);
    }
}

#[test]
fn every_crash_leaves_a_file_or_nothing() {
    for crashed in [0u16, 1] {
        for at in 0..3 {
            let mut cluster = Cluster::new(2, DirPolicy::default(), settings());
            let (_, mut outputs) = begin(&mut cluster);
            for _ in 0..at {
                let message = sent(&outputs).remove(0);
                let PeerMessage::Commit { to, .. } = message else {
                    panic!("{message:?}");
                };
                outputs = cluster.input(to.0, Input::Peer(message)).outputs;
            }
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            for _ in 0..4 {
                cluster.now += 1_000_000_000;
                for shard in [0, 1] {
                    let outputs = cluster.input(shard, Input::Tick).outputs;
                    cluster.carry(outputs, &mut None);
                }
            }
            let mut branches = 0;
            for node in &cluster.nodes {
                assert_eq!(node.shard.status().undecided, 0, "{crashed} at {at}");
            }
            for file in 0..64 {
                match cluster.call(0, lookup(&format!("file {file}"))) {
                    Ok(Reply::Entry(entry)) => {
                        branches += u64::from(entry.shard == ShardId(1));
                        let ino = entry.ino;
                        let found =
                            cluster.call(entry.shard.0, Request::GetAttr(op::GetAttr { ino }));
                        assert!(found.is_ok(), "{crashed} at {at}: {found:?}");
                    }
                    Err(Refusal::Fs(FsError::NotFound)) => {}
                    other => panic!("{crashed} at {at}: {other:?}"),
                }
            }
            assert_eq!(cluster.nodes[1].shard.status().inodes, branches);
        }
    }
}

/// Figure 2 of Xiong et al., first part: as many files of the directory on one shard as the width says.
#[test]
fn files_go_to_another_shard_after_every_width() {
    let settings = Settings {
        file_policy: FilePolicy::Ddg { file_width: 3 },
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::default(), settings);
    let mut shards = Vec::new();
    for file in 0..30 {
        let made = cluster.call(0, create(&format!("file {file}"), false));
        let Ok(Reply::Entry(entry)) = made else {
            panic!("{made:?}");
        };
        shards.push(entry.shard);
    }
    assert_eq!(shards[..3], [ShardId(0); 3]);
    for unit in shards.chunks(3) {
        assert!(unit.iter().all(|shard| *shard == unit[0]), "{shards:?}");
    }
    let all: BTreeSet<_> = shards.iter().collect();
    assert!(all.len() > 1, "{shards:?}");
}
