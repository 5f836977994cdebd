//! Leases of a shard: granted, and recalled before a change.

use crate::support::{Cluster, Step, create_file, name, sent};
use pandofs_api::{CommitMessage, PeerMessage, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Recall, Record};
use pandofs_types::limits::LEASE;
use pandofs_types::{Ino, LeaseKey, Leased, SessionId, SetAttr};

const READER: u64 = 7;
const WRITER: u64 = 8;
const BOTH: Leased = Leased(3);

fn lookup(text: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name(text),
    })
}

fn create(text: &str) -> Request {
    create_file(Ino::ROOT, name(text))
}

fn unlink(text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    })
}

fn chmod(ino: Ino, mode: u16) -> Request {
    let set = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    Request::SetAttr(op::SetAttr { ino, set })
}

/// The answer among outputs, and what it leases.
fn answer(step: &Step) -> Option<(bool, Vec<Leased>)> {
    step.outputs.iter().find_map(|output| match output {
        Output::Answer { result, leased, .. } => Some((result.is_ok(), leased.clone())),
        _ => None,
    })
}

fn recalls(step: &Step) -> Vec<Recall> {
    let recall = |output: &Output| match output {
        Output::Recall(recall) => Some(recall.clone()),
        _ => None,
    };
    step.outputs.iter().filter_map(recall).collect()
}

fn ask(cluster: &mut Cluster, session: u64, request: Request) -> Step {
    let input = cluster.request_by(session, 0, request);
    cluster.input(0, input)
}

/// A shard, and two sessions that take leases of it and are on its disk.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    for session in [READER, WRITER] {
        takes(&mut cluster, session);
        let step = ask(&mut cluster, session, lookup("nothing"));
        let session = SessionId(session);
        assert_eq!(step.records, [Record::Leaseholder { session, has: true }]);
        assert_eq!(answer(&step), Some((false, vec![])), "it is not on disk");
        cluster.carry(step.outputs, &mut None);
    }
    cluster
}

fn takes(cluster: &mut Cluster, session: u64) {
    let session = SessionId(session);
    cluster.input(0, Input::TakesLeases { session });
}

fn made(cluster: &mut Cluster, text: &str) -> Ino {
    let step = ask(cluster, WRITER, create(text));
    match &step.outputs[..] {
        [.., Output::Answer { result, .. }] => match result {
            Ok(Reply::Entry(entry)) => entry.ino,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_read_is_leased_and_recalled_before_it_changes() {
    let mut cluster = cluster();
    let ino = made(&mut cluster, "a");
    let read = ask(&mut cluster, READER, lookup("a"));
    assert_eq!(answer(&read), Some((true, vec![BOTH])));

    let step = ask(&mut cluster, WRITER, unlink("a"));
    assert_eq!(
        (answer(&step), &step.records[..]),
        (None, &[][..]),
        "it waits"
    );
    let recalled = recalls(&step);
    let [
        Recall {
            session,
            number,
            keys,
        },
    ] = &recalled[..]
    else {
        panic!("{recalled:?}");
    };
    assert_eq!((*session, keys.len()), (SessionId(READER), 2));
    assert!(keys.contains(&LeaseKey::Inode(ino)), "{keys:?}");
    // A client that reads meanwhile is answered, and may not believe it.
    let read = ask(&mut cluster, READER, lookup("a"));
    assert_eq!(answer(&read), Some((true, vec![])));
    let (session, number) = (*session, *number);
    let step = cluster.input(0, Input::Recalled { session, number });
    assert_eq!(answer(&step).map(|answer| answer.0), Some(true));
    let read = ask(&mut cluster, READER, lookup("a"));
    assert_eq!(
        answer(&read),
        Some((false, vec![Leased::ENTRY])),
        "there is none"
    );
}

#[test]
fn who_does_not_answer_is_waited_for_until_the_lease_is_over() {
    let mut cluster = cluster();
    let ino = made(&mut cluster, "a");
    ask(&mut cluster, READER, lookup("a"));
    assert_eq!(answer(&ask(&mut cluster, WRITER, chmod(ino, 0o600))), None);
    cluster.now += LEASE.as_nanos() as i64 / 2;
    assert_eq!(answer(&cluster.input(0, Input::Tick)), None);
    cluster.now += LEASE.as_nanos() as i64 / 2;
    let step = cluster.input(0, Input::Tick);
    assert!(matches!(answer(&step), Some((true, _))), "{step:?}");
}

#[test]
fn nobody_is_told_of_what_it_changes_itself() {
    let mut cluster = cluster();
    let ino = made(&mut cluster, "a");
    let read = ask(&mut cluster, WRITER, lookup("a"));
    assert_eq!(answer(&read), Some((true, vec![BOTH])));
    for request in [chmod(ino, 0o600), unlink("a")] {
        let step = ask(&mut cluster, WRITER, request);
        assert!(recalls(&step).is_empty());
        assert_eq!(answer(&step).map(|answer| answer.0), Some(true));
    }
}

#[test]
fn of_a_file_that_gives_way_even_who_renames_is_told() {
    let mut cluster = cluster();
    made(&mut cluster, "a");
    let victim = made(&mut cluster, "b");
    ask(&mut cluster, WRITER, lookup("b"));
    let rename = Request::Rename(op::Rename {
        dir: Ino::ROOT,
        name: name("a"),
        new_dir: Ino::ROOT,
        new_name: name("b"),
        new_shard: pandofs_types::ShardId(0),
        no_replace: false,
        whiteout: false,
    });
    let step = ask(&mut cluster, WRITER, rename);
    let recalled = recalls(&step);
    assert_eq!(answer(&step), None);
    assert_eq!(recalled[0].keys, [LeaseKey::Inode(victim)]);
}

#[test]
fn who_begins_anew_holds_nobody_up() {
    let mut cluster = cluster();
    let ino = made(&mut cluster, "a");
    ask(&mut cluster, READER, lookup("a"));
    assert_eq!(answer(&ask(&mut cluster, WRITER, chmod(ino, 0o600))), None);
    let session = SessionId(READER);
    let step = cluster.input(0, Input::TakesLeases { session });
    assert!(matches!(answer(&step), Some((true, _))), "{step:?}");
    // So does who goes.
    ask(&mut cluster, READER, lookup("a"));
    assert_eq!(answer(&ask(&mut cluster, WRITER, chmod(ino, 0o644))), None);
    let ended = true;
    let step = cluster.input(0, Input::SessionGone { session, ended });
    assert!(matches!(answer(&step), Some((true, _))), "{step:?}");
    assert!(step.records.contains(&Record::Leaseholder {
        session,
        has: false
    }));
}

#[test]
fn after_a_restart_changes_wait_until_nobody_believes_anything_of_before() {
    let mut cluster = cluster();
    let ino = made(&mut cluster, "a");
    ask(&mut cluster, READER, lookup("a"));
    cluster.restart(0);
    assert_eq!(answer(&ask(&mut cluster, WRITER, chmod(ino, 0o600))), None);
    takes(&mut cluster, WRITER);
    let session = SessionId(READER);
    let step = cluster.input(0, Input::TakesLeases { session });
    assert!(matches!(answer(&step), Some((true, _))), "{step:?}");

    // Or until they cannot any more.
    cluster.restart(0);
    takes(&mut cluster, WRITER);
    assert_eq!(answer(&ask(&mut cluster, WRITER, chmod(ino, 0o644))), None);
    cluster.now += LEASE.as_nanos() as i64;
    let step = cluster.input(0, Input::Tick);
    assert!(matches!(answer(&step), Some((true, _))), "{step:?}");
    assert!(step.records.contains(&Record::Leaseholder {
        session,
        has: false
    }));
}

#[test]
fn a_directory_that_others_fill_is_not_leased() {
    let mut cluster = cluster();
    made(&mut cluster, "a");
    let root = || Request::GetAttr(op::GetAttr { ino: Ino::ROOT });
    assert_eq!(
        answer(&ask(&mut cluster, READER, root())),
        Some((true, vec![]))
    );
    assert_eq!(
        answer(&ask(&mut cluster, WRITER, root())),
        Some((true, vec![Leased::ATTRIBUTES])),
        "who fills it knows"
    );
    cluster.now += pandofs_types::limits::LEASE_QUIET.as_nanos() as i64;
    assert_eq!(
        answer(&ask(&mut cluster, READER, root())),
        Some((true, vec![Leased::ATTRIBUTES]))
    );
    assert_eq!(answer(&ask(&mut cluster, WRITER, create("b"))), None);
}

#[test]
fn a_step_of_another_shards_operation_waits_once_however_often_it_comes() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let mkdir = |text: &str| {
        Request::Mkdir(op::Mkdir {
            dir: Ino::ROOT,
            name: name(text),
            mode: 0o755,
            umask: 0,
        })
    };
    // One that is on the other shard.
    let dir = (0..)
        .find_map(
            |number| match cluster.call(0, mkdir(&format!("d{number}"))) {
                Ok(Reply::Entry(entry)) if entry.shard.0 == 1 => Some((number, entry.ino)),
                Ok(_) => None,
                Err(error) => panic!("{error:?}"),
            },
        )
        .unwrap();
    let session = SessionId(READER);
    cluster.input(1, Input::TakesLeases { session });
    let getattr = |cluster: &mut Cluster| {
        let request = cluster.request_by(READER, 1, Request::GetAttr(op::GetAttr { ino: dir.1 }));
        cluster.input(1, request)
    };
    let step = getattr(&mut cluster);
    cluster.carry(step.outputs, &mut None);
    assert_eq!(
        answer(&getattr(&mut cluster)),
        Some((true, vec![Leased::ATTRIBUTES]))
    );

    let rmdir = Request::Rmdir(op::Rmdir {
        dir: Ino::ROOT,
        name: name(&format!("d{}", dir.0)),
    });
    let step = ask(&mut cluster, WRITER, rmdir);
    let messages = sent(&step.outputs);
    let message = messages[0].clone();
    assert!(matches!(
        message,
        PeerMessage::Commit {
            message: CommitMessage::Do { .. },
            ..
        }
    ));
    let step = cluster.input(1, Input::Peer(message.clone()));
    let recall = recalls(&step).remove(0);
    assert_eq!(recall.keys.len(), 2, "{recall:?}");
    assert!(step.records.is_empty());
    for _ in 0..3 {
        let step = cluster.input(1, Input::Peer(message.clone()));
        assert!(
            step.records.is_empty() && step.outputs.is_empty(),
            "{step:?}"
        );
    }
    let number = recall.number;
    let step = cluster.input(1, Input::Recalled { session, number });
    assert_eq!(step.records.len(), 1);
    let mut result = None;
    cluster.carry(step.outputs, &mut result);
    assert!(matches!(result, Some(Ok(_))), "{result:?}");
}
