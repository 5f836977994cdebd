//! Files that are made without a name.

use crate::support::{Cluster, link, name, sent};
use pandofs_api::{
    Ask, CommitMessage, EntryReply, Horizon, NewNode, PeerMessage, Refusal, Reply, Request, Step,
    StepNumber, op, step,
};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::limits::{SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{Credentials, FsError, Ino, Position, SessionId, SetAttr, ShardId, Time, TxId};

/// The session that has the files open.
const OWNER: u64 = 6;
const NOT_FOUND: Result<Reply, Refusal> = Err(Refusal::Fs(FsError::NotFound));

fn one_shard() -> Cluster {
    Cluster::new(1, DirPolicy::default(), Settings::default())
}

fn create(may_be_named: bool) -> Request {
    Request::CreateUnnamed(op::CreateUnnamed {
        dir: Ino::ROOT,
        at: Position(77),
        mode: 0o640,
        umask: 0o022,
        may_be_named,
    })
}

/// The answer to a request of a session.
fn ask(
    cluster: &mut Cluster,
    session: u64,
    shard: u16,
    request: Request,
) -> Result<Reply, Refusal> {
    let input = cluster.request_by(session, shard, request);
    let outputs = cluster.input(shard, input).outputs;
    let mut answer = None;
    cluster.carry(outputs, &mut answer);
    answer.expect("it is answered")
}

fn entry(reply: Result<Reply, Refusal>) -> EntryReply {
    match reply {
        Ok(Reply::Entry(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

fn made(cluster: &mut Cluster, may_be_named: bool) -> Ino {
    entry(ask(cluster, OWNER, 0, create(may_be_named))).ino
}

fn links(cluster: &mut Cluster, ino: Ino) -> Option<u32> {
    match cluster.call(0, Request::GetAttr(op::GetAttr { ino })) {
        Ok(Reply::Inode(inode)) => Some(inode.attr.nlink),
        Err(Refusal::Fs(FsError::Stale)) => None,
        other => panic!("{other:?}"),
    }
}

fn release(cluster: &mut Cluster, ino: Ino) {
    ask(
        cluster,
        OWNER,
        0,
        Request::Release(op::Release { inos: vec![ino] }),
    )
    .unwrap();
}

#[test]
fn it_is_gone_when_it_is_closed() {
    let mut cluster = one_shard();
    let before = cluster.nodes[0].shard.status();
    let made = entry(ask(&mut cluster, OWNER, 0, create(true)));
    let attr = made.inode.expect("its attributes").attr;
    assert_eq!((attr.nlink, attr.mode, attr.size), (0, 0o640, 0));
    let now = cluster.nodes[0].shard.status();
    assert_eq!(
        (now.inodes, now.entries),
        (before.inodes + 1, before.entries)
    );
    cluster.pass(2 * SESSION_TIMEOUT);
    assert_eq!(links(&mut cluster, made.ino), Some(0));
    release(&mut cluster, made.ino);
    assert_eq!(links(&mut cluster, made.ino), None);
    assert_eq!(cluster.nodes[0].shard.status().inodes, before.inodes);
}

#[test]
fn it_is_gone_with_its_session_unless_it_has_a_name_by_then() {
    let mut cluster = one_shard();
    let (one, two) = (made(&mut cluster, true), made(&mut cluster, true));
    let linked = entry(cluster.call(0, link(Ino::ROOT, "two", two)));
    assert_eq!(linked.ino, two);
    let session = SessionId(OWNER);
    let ended = false;
    cluster.input(0, Input::SessionGone { session, ended });
    assert_eq!(links(&mut cluster, one), None);
    assert_eq!(links(&mut cluster, two), Some(1));
    // Also after a restart nobody takes it for something to be reclaimed.
    cluster.restart(0);
    cluster.pass(2 * SESSION_TIMEOUT);
    assert_eq!(links(&mut cluster, two), Some(1));
}

#[test]
fn it_gets_a_first_name_once() {
    let mut cluster = one_shard();
    let ino = made(&mut cluster, true);
    let dir_before = cluster.call(0, Request::GetAttr(op::GetAttr { ino: Ino::ROOT }));
    assert!(dir_before.is_ok());
    entry(cluster.call(0, link(Ino::ROOT, "first", ino)));
    entry(cluster.call(0, link(Ino::ROOT, "second", ino)));
    assert_eq!(links(&mut cluster, ino), Some(2));
    for text in ["first", "second"] {
        let request = Request::Unlink(op::Unlink {
            dir: Ino::ROOT,
            name: name(text),
        });
        cluster.call(0, request).unwrap();
    }
    assert_eq!(links(&mut cluster, ino), Some(0), "it is open");
    assert_eq!(cluster.call(0, link(Ino::ROOT, "third", ino)), NOT_FOUND);
    release(&mut cluster, ino);
    assert_eq!(links(&mut cluster, ino), None);
}

#[test]
fn one_that_may_not_be_named_never_is() {
    let mut cluster = one_shard();
    let ino = made(&mut cluster, false);
    assert_eq!(cluster.call(0, link(Ino::ROOT, "name", ino)), NOT_FOUND);
    assert_eq!(links(&mut cluster, ino), Some(0));
}

/// A file that is truncated is on the reclaim list for another reason for a while.
#[test]
fn one_that_was_cut_may_be_named_still() {
    let mut cluster = one_shard();
    let ino = made(&mut cluster, true);
    let step = cluster.request_by(OWNER, 0, Request::Stripe(op::Stripe { ino }));
    let step = cluster.input(0, step);
    let done = |cluster: &mut Cluster, outputs: Vec<Output>| {
        for output in outputs {
            if let Output::Data { ticket, .. } = output {
                let reply = pandofs_api::DataReply::Done;
                cluster.input(0, Input::DataDone { ticket, reply });
            }
        }
    };
    done(&mut cluster, step.outputs);
    for size in [100_000, 10] {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let cut = cluster.request_by(OWNER, 0, Request::SetAttr(op::SetAttr { ino, set }));
        let step = cluster.input(0, cut);
        done(&mut cluster, step.outputs);
    }
    assert_eq!(links(&mut cluster, ino), Some(0));
    entry(cluster.call(0, link(Ino::ROOT, "name", ino)));
    release(&mut cluster, ino);
    assert_eq!(links(&mut cluster, ino), Some(1));
}

#[test]
fn after_a_restart_it_is_kept_for_who_comes_back() {
    let mut cluster = one_shard();
    let (one, two) = (made(&mut cluster, true), made(&mut cluster, true));
    cluster.restart(0);
    let opens = vec![(one, 1)];
    ask(
        &mut cluster,
        OWNER,
        0,
        Request::Reopen(op::Reopen { opens }),
    )
    .unwrap();
    assert_eq!(links(&mut cluster, two), Some(0), "it may be open");
    cluster.pass(SESSION_TIMEOUT);
    assert_eq!(links(&mut cluster, one), Some(0));
    assert_eq!(links(&mut cluster, two), None);
    entry(cluster.call(0, link(Ino::ROOT, "one", one)));
    release(&mut cluster, one);
    assert_eq!(links(&mut cluster, one), Some(1));
}

#[test]
fn it_inherits_what_a_file_of_the_directory_would() {
    let mut cluster = one_shard();
    let mkdir = Request::Mkdir(op::Mkdir {
        dir: Ino::ROOT,
        name: name("dir"),
        mode: 0o777,
        umask: 0,
    });
    let dir = entry(cluster.call(0, mkdir)).ino;
    let set = SetAttr {
        mode: Some(0o2777),
        gid: Some(2_000),
        ..SetAttr::default()
    };
    cluster
        .call(0, Request::SetAttr(op::SetAttr { ino: dir, set }))
        .unwrap();
    let caller = Credentials::user(1_000, 1_000, vec![]);
    let unnamed = Request::CreateUnnamed(op::CreateUnnamed {
        dir,
        at: Position(77),
        mode: 0o2775,
        umask: 0o022,
        may_be_named: true,
    });
    let named = Request::Create(op::Create {
        dir,
        name: name("named"),
        node: NewNode::File,
        mode: 0o2775,
        umask: 0o022,
        open: false,
    });
    let mut attrs = Vec::new();
    for request in [unnamed, named] {
        let inode = entry(cluster.call_by(&caller, 0, request)).inode.unwrap();
        attrs.push((inode.attr.mode, inode.attr.uid, inode.attr.gid));
    }
    assert_eq!(attrs[0], (0o755, 1_000, 2_000));
    assert_eq!(attrs[0], attrs[1]);
}

#[test]
fn who_may_not_make_files_there_may_not_make_these() {
    let mut cluster = one_shard();
    let stranger = Credentials::user(1_000, 1_000, vec![]);
    let refused = cluster.call_by(&stranger, 0, create(true));
    assert_eq!(refused, Err(Refusal::Fs(FsError::Access)));
    let nowhere = Request::CreateUnnamed(op::CreateUnnamed {
        dir: Ino::ROOT,
        at: Position::END,
        mode: 0o600,
        umask: 0,
        may_be_named: true,
    });
    let refused = cluster.call(0, nowhere);
    assert!(matches!(refused, Err(Refusal::Malformed(_))), "{refused:?}");
}

/// A shard that prepared a name for it was told that it can have one, so it stays until that is decided.
#[test]
fn it_is_not_gone_while_another_shard_is_about_to_give_it_a_name() {
    for commit in [true, false] {
        let mut cluster = Cluster::new(2, DirPolicy::default(), Settings::default());
        let ino = made(&mut cluster, true);
        let (from, to) = (ShardId(1), ShardId(0));
        let (tx, number) = (
            TxId {
                coordinator: from,
                sequence: 3,
            },
            StepNumber(1),
        );
        let time = Time(cluster.now);
        let prepare = CommitMessage::Do {
            tx,
            number,
            step: Step::Link(step::Link { ino, time }),
            ask: Ask::Prepare,
            age: pandofs_api::Age { time, tx },
        };
        let message = |message| {
            let horizon = Horizon::default();
            Input::Peer(PeerMessage::Commit {
                from,
                to,
                horizon,
                held: None,
                message,
            })
        };
        // The release comes when the link is proposed and not yet applied, and once more after it.
        let session = SessionId(OWNER);
        let gone = Input::SessionGone {
            session,
            ended: false,
        };
        let step = cluster.batch(0, vec![message(prepare), gone]);
        assert!(
            matches!(
                &sent(&step.outputs)[..],
                [PeerMessage::Commit {
                    message: CommitMessage::Prepared { .. },
                    ..
                }]
            ),
            "{:?}",
            step.outputs
        );
        for _ in 0..3 {
            cluster.now += TICK_INTERVAL.as_nanos() as i64;
            let step = cluster.input(0, Input::Tick);
            assert!(step.records.is_empty(), "{:?}", step.records);
        }
        let outcome = CommitMessage::Outcome { tx, number, commit };
        cluster.input(0, message(outcome));
        cluster.pass(TICK_INTERVAL);
        assert_eq!(links(&mut cluster, ino), commit.then_some(1));
    }
}
