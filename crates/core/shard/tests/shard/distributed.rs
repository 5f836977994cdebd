//! A directory whose home is on another shard than its entry: S2PC-MP as in figure 3(a) of the paper.

use crate::support::{Cluster, name, sent};
use pandofs_api::{Ask, CommitMessage, PeerMessage, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Record};
use pandofs_types::{CommitProtocol, FsError, Ino, SessionId, ShardId};

/// The second random number drawn leads to shard 1 of two.
fn cluster() -> Cluster {
    Cluster::new(2, DirPolicy::Random, Settings::default())
}

fn mkdir(dir: Ino, text: &str) -> Request {
    Request::Mkdir(op::Mkdir {
        dir,
        name: name(text),
        mode: 0o755,
        umask: 0,
    })
}

fn commit_of(message: &PeerMessage) -> &CommitMessage {
    match message {
        PeerMessage::Commit { message, .. } => message,
        other => panic!("{other:?} is no message of a distributed operation"),
    }
}

#[test]
fn three_messages_and_four_records_make_a_directory_on_another_shard() {
    let mut cluster = cluster();
    let request = cluster.request(0, mkdir(Ino::ROOT, "a"));
    let first = cluster.input(0, request);
    assert!(
        matches!(first.records[..], [Record::Request { .. }]),
        "{:?}",
        first.records
    );
    let messages = sent(&first.outputs);
    assert!(matches!(
        commit_of(&messages[0]),
        CommitMessage::Do {
            ask: Ask::Decide,
            ..
        }
    ));
    assert_eq!(first.outputs.len(), 1);

    let second = cluster.input(1, Input::Peer(messages[0].clone()));
    assert!(
        matches!(second.records[..], [Record::Commit { .. }]),
        "{:?}",
        second.records
    );
    let messages = sent(&second.outputs);
    assert!(matches!(
        commit_of(&messages[0]),
        CommitMessage::Committed { .. }
    ));
    assert_eq!(second.outputs.len(), 1);

    // While it is undecided here, a request for the name waits.
    let lookup = cluster.request(
        0,
        Request::Lookup(op::Lookup {
            dir: Ino::ROOT,
            name: name("a"),
        }),
    );
    assert!(cluster.input(0, lookup).outputs.is_empty());

    let third = cluster.input(0, Input::Peer(messages[0].clone()));
    assert!(
        matches!(third.records[..], [Record::Commit { .. }]),
        "{:?}",
        third.records
    );
    let messages = sent(&third.outputs);
    assert!(matches!(commit_of(&messages[0]), CommitMessage::Ack { .. }));
    let answers: Vec<_> = third
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::Answer {
                result: Ok(Reply::Entry(entry)),
                ..
            } => Some(entry.ino),
            _ => None,
        })
        .collect();
    assert_eq!(
        answers.len(),
        2,
        "the maker and the one who waited: {:?}",
        third.outputs
    );
    assert_eq!(answers[0], answers[1]);

    let fourth = cluster.input(1, Input::Peer(messages[0].clone()));
    assert!(
        matches!(fourth.records[..], [Record::Commit { .. }]),
        "{:?}",
        fourth.records
    );
    assert!(fourth.outputs.is_empty());
    assert_eq!(cluster.nodes[0].log.len() + cluster.nodes[1].log.len(), 4);
}

#[test]
fn five_messages_of_two_phase_commit_suffice_when_two_of_them_come_at_once() {
    let settings = Settings {
        commit_protocol: CommitProtocol::TwoPhase,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, DirPolicy::Random, settings);
    let request = cluster.request(0, mkdir(Ino::ROOT, "a"));
    let mut to = 0;
    let mut outputs = cluster.input(0, request).outputs;
    let mut messages = 0;
    let mut answered = false;
    while !outputs.is_empty() {
        let batch = sent(&outputs);
        answered |= outputs
            .iter()
            .any(|output| matches!(output, Output::Answer { result: Ok(_), .. }));
        messages += batch.len();
        to = 1 - to;
        let batch = batch.into_iter().map(Input::Peer).collect();
        outputs = cluster.batch(to, batch).outputs;
    }
    assert!(answered);
    assert_eq!(messages, 5);
}

#[test]
fn every_crash_leaves_all_or_nothing() {
    // Crash one shard or the other before each message is delivered; recovery finishes the operation.
    for crashed in [0u16, 1] {
        for at in 0..3 {
            let mut cluster = cluster();
            let request = cluster.request(0, mkdir(Ino::ROOT, "a"));
            let mut outputs = cluster.input(0, request).outputs;
            for _ in 0..at {
                let message = sent(&outputs).remove(0);
                let to = match &message {
                    PeerMessage::Commit { to, .. } => to.0,
                    other => panic!("{other:?}"),
                };
                outputs = cluster.input(to, Input::Peer(message)).outputs;
            }
            // The message on its way is lost with the connection.
            let recovered = cluster.restart(crashed).outputs;
            cluster.carry(recovered, &mut None);
            // Time passes, and what is missing is sent again.
            for _ in 0..4 {
                cluster.now += 1_000_000_000;
                for shard in [0, 1] {
                    let outputs = cluster.input(shard, Input::Tick).outputs;
                    cluster.carry(outputs, &mut None);
                }
            }
            for node in &cluster.nodes {
                assert_eq!(
                    node.shard.status().undecided,
                    0,
                    "crash of {crashed} at {at}"
                );
            }
            let found = cluster.call(
                0,
                Request::Lookup(op::Lookup {
                    dir: Ino::ROOT,
                    name: name("a"),
                }),
            );
            match found {
                Ok(Reply::Entry(entry)) => {
                    let inode = cluster.call(
                        entry.shard.0,
                        Request::GetAttr(op::GetAttr { ino: entry.ino }),
                    );
                    assert!(inode.is_ok(), "crash of {crashed} at {at}: {inode:?}");
                }
                Err(Refusal::Fs(FsError::NotFound)) => {
                    assert_eq!(cluster.nodes[1].shard.status().inodes, 0);
                }
                other => panic!("crash of {crashed} at {at}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_directory_is_removed_where_it_is() {
    let mut cluster = cluster();
    for text in ["a", "b", "c", "d"] {
        let made = cluster.call(0, mkdir(Ino::ROOT, text)).unwrap();
        let Reply::Entry(made) = made else {
            panic!("{made:?}")
        };
        let file = Request::Create(op::Create {
            dir: made.ino,
            name: name("f"),
            node: pandofs_api::NewNode::File,
            mode: 0o644,
            umask: 0,
            open: false,
        });
        cluster.call(made.shard.0, file).unwrap();
        let rmdir = || {
            Request::Rmdir(op::Rmdir {
                dir: Ino::ROOT,
                name: name(text),
            })
        };
        assert_eq!(
            cluster.call(0, rmdir()),
            Err(Refusal::Fs(FsError::NotEmpty))
        );
        let unlink = Request::Unlink(op::Unlink {
            dir: made.ino,
            name: name("f"),
        });
        cluster.call(made.shard.0, unlink).unwrap();
        cluster.call(0, rmdir()).unwrap();
        let again = Request::GetAttr(op::GetAttr { ino: made.ino });
        assert_eq!(
            cluster.call(made.shard.0, again),
            Err(Refusal::Fs(FsError::Stale))
        );
    }
    let status: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert_eq!(status.iter().map(|s| s.inodes).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(status.iter().map(|s| s.entries).sum::<u64>(), 0);
}

#[test]
fn a_silent_session_still_gets_the_first_answer_and_an_ended_one_is_forgotten() {
    let mut cluster = cluster();
    let request = cluster.request(0, create_in_root("a"));
    let answer = |outputs: &[Output]| match outputs {
        [Output::Answer { result, .. }] => result.clone(),
        other => panic!("{other:?}"),
    };
    let first = answer(&cluster.input(0, request.clone()).outputs);
    assert!(matches!(first, Ok(Reply::Entry(_))), "{first:?}");
    let session = SessionId(5);
    cluster.input(
        0,
        Input::SessionGone {
            session,
            ended: false,
        },
    );
    assert_eq!(answer(&cluster.input(0, request.clone()).outputs), first);
    cluster.input(
        0,
        Input::SessionGone {
            session,
            ended: true,
        },
    );
    let again = answer(&cluster.input(0, request).outputs);
    assert_eq!(again, Err(Refusal::Fs(FsError::Exists)));
}

fn create_in_root(text: &str) -> Request {
    Request::Create(op::Create {
        dir: Ino::ROOT,
        name: name(text),
        node: pandofs_api::NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}

#[test]
fn a_request_with_impossible_numbers_harms_nothing() {
    let mut cluster = cluster();
    cluster.call(0, mkdir(Ino::ROOT, "a")).unwrap();
    let nowhere = Ino::new(ShardId(9_999), 1);
    let rename = |new_dir, new_shard| {
        Request::Rename(op::Rename {
            dir: Ino::ROOT,
            name: name("a"),
            new_dir,
            new_name: name("b"),
            new_shard: ShardId(new_shard),
            no_replace: false,
            whiteout: false,
        })
    };
    let refused = |error| Err(Refusal::Fs(error));
    assert_eq!(
        cluster.call(0, rename(nowhere, 0)),
        refused(FsError::NotFound)
    );
    assert_eq!(
        cluster.call(0, rename(Ino::ROOT, 9_999)),
        Err(Refusal::NewNameMisdirected(None))
    );
    let link = Request::Link(op::Link {
        dir: Ino::ROOT,
        name: name("b"),
        ino: nowhere,
        inode_shard: ShardId(9_999),
    });
    assert_eq!(cluster.call(0, link), refused(FsError::Stale));
    assert_eq!(
        cluster.call(0, mkdir(nowhere, "b")),
        Err(Refusal::Misdirected(None))
    );
    assert!(
        cluster
            .call(
                0,
                Request::Lookup(op::Lookup {
                    dir: Ino::ROOT,
                    name: name("a")
                })
            )
            .is_ok()
    );
}
