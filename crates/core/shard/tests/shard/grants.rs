//! Grants of directories: given, recalled before others look at them, renewed and ended.

use crate::support::{Cluster, Step, create_file, name, sent};
use pandofs_api::op::{self, Early, EarlyOperation};
use pandofs_api::{BatchReply, CommitMessage, Granted, PeerMessage, Refusal, Reply, Request};
use pandofs_namespace::keys::{self, Kind};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output, Recall, Record};
use pandofs_types::limits::{LEASE, LEASE_QUIET, MAX_GRANT_RECALL};
use pandofs_types::{Credentials, FsError, Ino, LeaseKey, SessionId, SetAttr, ShardId, Time};
use std::time::Duration;

pub(crate) const HOLDER: u64 = 7;
pub(crate) const OTHER: u64 = 8;
const SHARD: ShardId = ShardId(0);

pub(crate) fn lookup(dir: Ino, text: &str) -> Request {
    Request::Lookup(op::Lookup {
        dir,
        name: name(text),
    })
}

pub(crate) fn mkdir(dir: Ino, text: &str) -> Request {
    Request::Mkdir(op::Mkdir {
        dir,
        name: name(text),
        mode: 0o755,
        umask: 0,
    })
}

pub(crate) fn unlink(dir: Ino, text: &str) -> Request {
    Request::Unlink(op::Unlink {
        dir,
        name: name(text),
    })
}

pub(crate) fn chmod(ino: Ino, mode: u16) -> Request {
    let set = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    Request::SetAttr(op::SetAttr { ino, set })
}

pub(crate) fn rename(dir: Ino, from: &str, to: &str) -> Request {
    Request::Rename(op::Rename {
        dir,
        name: name(from),
        new_dir: dir,
        new_name: name(to),
        new_shard: SHARD,
        no_replace: false,
        whiteout: false,
    })
}

fn getattr(ino: Ino) -> Request {
    Request::GetAttr(op::GetAttr { ino })
}

fn list(dir: Ino) -> Request {
    Request::ReadDir(op::ReadDir {
        dir,
        from: pandofs_types::Position::FIRST,
        max_entries: 100,
        max_bytes: 10_000,
        plus: true,
    })
}

pub(crate) fn answer(step: &Step) -> Option<Result<Reply, Refusal>> {
    step.outputs.iter().find_map(|output| match output {
        Output::Answer { result, .. } => Some(result.clone()),
        _ => None,
    })
}

pub(crate) fn recalls(step: &Step) -> Vec<Recall> {
    let recall = |output: &Output| match output {
        Output::Recall(recall) => Some(recall.clone()),
        _ => None,
    };
    step.outputs.iter().filter_map(recall).collect()
}

pub(crate) fn ask(cluster: &mut Cluster, session: u64, request: Request) -> Step {
    let input = cluster.request_by(session, 0, request);
    cluster.input(0, input)
}

/// The answer to a request that waits for nobody, at most for the disk.
pub(crate) fn get(cluster: &mut Cluster, session: u64, request: Request) -> Reply {
    let step = ask(cluster, session, request);
    assert_eq!(recalls(&step), [], "nothing is recalled");
    let at_once = answer(&step);
    let mut when_kept = None;
    cluster.carry(step.outputs, &mut when_kept);
    let answer = at_once.or(when_kept).expect("it is answered");
    answer.expect("it is done")
}

/// Record that the session has no grants any more.
pub(crate) fn has_none(session: u64) -> Record {
    Record::Grantholder {
        session: SessionId(session),
        incarnation: None,
    }
}

pub(crate) fn takes(cluster: &mut Cluster, session: u64) -> Step {
    let session = SessionId(session);
    cluster.input(0, Input::TakesLeases { session })
}

/// Asks for a grant.
pub(crate) fn granted(cluster: &mut Cluster, session: u64, dir: Ino) -> Option<Granted> {
    match get(cluster, session, Request::Grant(op::Grant { dir })) {
        Reply::Granted(granted) => granted.map(|granted| *granted),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn made(reply: Reply) -> Ino {
    match reply {
        Reply::Entry(entry) => entry.ino,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn later(cluster: &mut Cluster, time: Duration) -> Step {
    cluster.now += time.as_nanos() as i64;
    cluster.input(0, Input::Tick)
}

/// A shard with a directory `d` that the holder may be granted: it and another session take leases and grants, and are on
/// disk as ones that do.
pub(crate) fn cluster() -> (Cluster, Ino) {
    cluster_of(1, Settings::default())
}

pub(crate) fn cluster_of(shards: u16, settings: Settings) -> (Cluster, Ino) {
    let mut cluster = Cluster::new(shards, DirPolicy::default(), settings);
    for session in [HOLDER, OTHER] {
        takes(&mut cluster, session);
        let step = ask(&mut cluster, session, Request::BeginGrants(op::BeginGrants));
        let (session, has) = (SessionId(session), true);
        let [leases, grants] = &step.records[..] else {
            panic!("{step:?}");
        };
        assert_eq!(*leases, Record::Leaseholder { session, has });
        let begins = |of: &Record| matches!(of, Record::Grantholder { session: by, incarnation: Some(_) } if *by == session);
        assert!(begins(grants), "{grants:?}");
        assert_eq!(answer(&step), None, "it is not on disk yet");
        cluster.carry(step.outputs, &mut None);
    }
    let dir = (0..)
        .find_map(|number| {
            let text = format!("d{number}");
            let input = cluster.request_by(HOLDER, 0, mkdir(Ino::ROOT, &text));
            let step = cluster.input(0, input);
            let mut answer = answer(&step);
            cluster.carry(step.outputs, &mut answer);
            match answer {
                Some(Ok(Reply::Entry(entry))) if entry.shard == SHARD => Some(entry.ino),
                Some(Ok(_)) => None,
                other => panic!("{other:?}"),
            }
        })
        .expect("some directory is here");
    cluster.now += LEASE.as_nanos() as i64;
    cluster.input(0, Input::Tick);
    (cluster, dir)
}

/// The incarnation of the holder's grants there, which begin if it can have any.
pub(crate) fn in_force(cluster: &mut Cluster, shard: u16) -> u64 {
    in_force_of(cluster, HOLDER, shard)
}

pub(crate) fn in_force_of(cluster: &mut Cluster, session: u64, shard: u16) -> u64 {
    let input = cluster.request_by(session, shard, Request::BeginGrants(op::BeginGrants));
    let step = cluster.input(shard, input);
    let at_once = answer(&step);
    let mut when_kept = None;
    cluster.carry(step.outputs, &mut when_kept);
    match at_once.or(when_kept) {
        Some(Ok(Reply::Granted(granted))) => granted.map_or(0, |granted| granted.incarnation),
        other => panic!("{other:?}"),
    }
}

/// A batch of the holder's operations by root, the numbers of what they make given.
pub(crate) fn batch(cluster: &mut Cluster, operations: Vec<(Request, Option<Ino>)>) -> op::Batch {
    let incarnation = in_force(cluster, 0);
    let time = Time(cluster.now);
    let early = operations
        .into_iter()
        .enumerate()
        .map(|(at, (request, ino))| Early {
            caller: 0,
            time: Time(time.0 + at as i64),
            random: at as u64,
            ino,
            operation: EarlyOperation::of(&request).expect("it may be executed early"),
        });
    op::Batch {
        incarnation,
        callers: vec![Credentials::ROOT],
        placing: None,
        early: early.collect(),
    }
}

/// A block of numbers for the holder.
pub(crate) fn numbers(cluster: &mut Cluster, session: u64) -> impl FnMut() -> Ino + use<> {
    let request = Request::TakeNumbers(op::TakeNumbers {
        count: 100,
        unordered: 0,
    });
    let step = ask(cluster, session, request);
    let [
        Output::Answer {
            result,
            durable: true,
            ..
        },
    ] = &step.outputs[..]
    else {
        panic!("it is answered when it is on disk: {step:?}");
    };
    let Ok(Reply::Numbers {
        first, count: 100, ..
    }) = *result
    else {
        panic!("{result:?}");
    };
    let mut next = first.serial();
    move || {
        next += 1;
        Ino::new(SHARD, next - 1)
    }
}

pub(crate) fn batch_reply(reply: Reply) -> BatchReply {
    match reply {
        Reply::Batch(reply) => *reply,
        other => panic!("{other:?}"),
    }
}

/// The holder gives up what was recalled.
pub(crate) fn give_up(cluster: &mut Cluster, step: &Step, keys: &[LeaseKey]) -> Step {
    let mut recalled = recalls(step);
    assert_eq!(recalled.len(), 1, "{step:?}");
    let recall = recalled.remove(0);
    assert_eq!(
        (recall.session, &recall.keys[..]),
        (SessionId(HOLDER), keys)
    );
    let (session, number) = (recall.session, recall.number);
    cluster.input(0, Input::Recalled { session, number })
}

#[test]
fn a_grant_brings_all_of_a_directory_and_nobody_else_gets_one() {
    let (mut cluster, dir) = cluster();
    let file = made(get(&mut cluster, HOLDER, create_file(dir, name("f"))));
    let sub = made(get(&mut cluster, HOLDER, mkdir(dir, "s")));
    let set = Request::SetXattr(op::SetXattr {
        ino: file,
        name: b"user.a".to_vec(),
        value: b"b".to_vec(),
        mode: pandofs_api::XattrMode::Either,
    });
    get(&mut cluster, HOLDER, set);
    let granted_dir = granted(&mut cluster, HOLDER, dir).expect("nobody else looks at it");
    let kinds: Vec<_> = granted_dir
        .pairs
        .iter()
        .map(|(key, _)| (Kind::from_byte(key[0]), keys::parse_ino(key)))
        .collect();
    for wanted in [
        (Kind::Inode, dir),
        (Kind::Parts, dir),
        (Kind::Inode, file),
        (Kind::Xattr, file),
        (Kind::Inode, sub),
        (Kind::Parts, sub),
    ] {
        assert!(
            kinds.contains(&(Some(wanted.0), Some(wanted.1))),
            "{wanted:?}"
        );
    }
    let entries = kinds.iter().filter(|kind| kind.0 == Some(Kind::Entry));
    assert_eq!((entries.count(), kinds.len()), (2, 8));
    let [stored, _] = cluster.stored_and_replayed(0);
    for (key, value) in &granted_dir.pairs {
        assert_eq!(stored.get(&key[..]).map(Vec::as_slice), Some(&value[..]));
    }

    assert_eq!(granted(&mut cluster, OTHER, dir), None);
    let again = granted(&mut cluster, HOLDER, dir).expect("it did not get the answer");
    assert_eq!(again.incarnation, granted_dir.incarnation);
    let file = ask(
        &mut cluster,
        HOLDER,
        Request::Grant(op::Grant { dir: file }),
    );
    assert_eq!(answer(&file), Some(Err(FsError::NotDir.into())));
    let gone = Request::Grant(op::Grant {
        dir: Ino::new(SHARD, 9_999),
    });
    let gone = ask(&mut cluster, HOLDER, gone);
    assert_eq!(answer(&gone), Some(Err(FsError::Stale.into())));
}

#[test]
fn whoever_else_looks_at_a_directory_waits_until_its_grant_has_ended() {
    let all: [fn(Ino) -> Request; 7] = [
        |dir| lookup(dir, "f"),
        list,
        getattr,
        |dir| create_file(dir, name("f")),
        |dir| unlink(dir, "f"),
        |dir| chmod(dir, 0o700),
        |dir| Request::DirPart(op::DirPart { dir }),
    ];
    for request in all {
        let (mut cluster, dir) = cluster();
        granted(&mut cluster, HOLDER, dir).expect("nobody else looks at it");
        let step = ask(&mut cluster, OTHER, request(dir));
        assert_eq!((answer(&step), &step.records[..]), (None, &[][..]));
        let step = give_up(&mut cluster, &step, &[LeaseKey::Grant(dir)]);
        assert!(answer(&step).is_some(), "{:?}", request(dir));
    }
}

#[test]
fn what_leads_to_a_granted_directory_says_nothing_of_how_it_was() {
    let (mut cluster, dir) = cluster();
    granted(&mut cluster, HOLDER, dir).expect("nobody else looks at it");
    let Reply::Entries(listed) = get(&mut cluster, OTHER, list(Ino::ROOT)) else {
        panic!("it is no listing");
    };
    let entry = listed.entries.iter().find(|entry| entry.ino == dir);
    assert_eq!(entry.expect("it is there").inode, None);
    let found = entry.expect("it is there").name.clone();
    let of_root = Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: found,
    });
    let step = ask(&mut cluster, OTHER, of_root);
    assert_eq!(answer(&step), None);
    let step = give_up(&mut cluster, &step, &[LeaseKey::Grant(dir)]);
    assert!(matches!(answer(&step), Some(Ok(Reply::Entry(_)))));
}

#[test]
fn who_has_a_directory_waits_for_nobody() {
    let (mut cluster, dir) = cluster();
    granted(&mut cluster, HOLDER, dir).expect("nobody else looks at it");
    for request in [
        create_file(dir, name("f")),
        lookup(dir, "f"),
        list(dir),
        rename(dir, "f", "g"),
        chmod(dir, 0o700),
        unlink(dir, "g"),
        getattr(dir),
    ] {
        get(&mut cluster, HOLDER, request);
    }
    assert!(granted(&mut cluster, HOLDER, dir).is_some());
}

#[test]
fn a_directory_that_others_look_at_is_not_granted_for_a_while() {
    let (mut cluster, dir) = cluster();
    get(&mut cluster, OTHER, getattr(dir));
    assert_eq!(granted(&mut cluster, HOLDER, dir), None, "it was leased");
    later(&mut cluster, LEASE);
    assert!(granted(&mut cluster, HOLDER, dir).is_some());

    // Each recall within a minute doubles the pause. A directory that was refused is leased to nobody.
    for pause in [1, 2, 4] {
        let step = ask(&mut cluster, OTHER, unlink(dir, "f"));
        give_up(&mut cluster, &step, &[LeaseKey::Grant(dir)]);
        let pause = LEASE_QUIET * pause;
        later(&mut cluster, pause - Duration::from_millis(1));
        assert_eq!(granted(&mut cluster, HOLDER, dir), None);
        later(&mut cluster, Duration::from_millis(1));
        assert!(granted(&mut cluster, HOLDER, dir).is_some());
    }
}

#[test]
fn a_directory_with_a_file_that_somebody_else_has_leased_is_not_granted() {
    let (mut cluster, dir) = cluster();
    let file = made(get(&mut cluster, HOLDER, create_file(dir, name("f"))));
    get(&mut cluster, OTHER, getattr(file));
    assert_eq!(granted(&mut cluster, HOLDER, dir), None);
    later(&mut cluster, LEASE);
    assert!(granted(&mut cluster, HOLDER, dir).is_some());
}

#[test]
fn grants_end_together_when_they_are_not_renewed() {
    let (mut cluster, dir) = cluster();
    let incarnation = granted(&mut cluster, HOLDER, dir)
        .expect("a grant")
        .incarnation;
    let renew = |incarnation| Request::Renew(op::Renew { incarnation });
    later(&mut cluster, LEASE / 2);
    assert_eq!(get(&mut cluster, HOLDER, renew(incarnation)), Reply::Done);
    later(&mut cluster, LEASE / 2);
    let step = ask(&mut cluster, OTHER, getattr(dir));
    assert_eq!(answer(&step), None);
    let step = later(&mut cluster, LEASE / 2);
    assert_eq!(answer(&step), None, "it is not on disk that they are over");
    let mut answered = None;
    cluster.carry(step.outputs, &mut answered);
    assert!(
        matches!(answered, Some(Ok(Reply::Inode(_)))),
        "{answered:?}"
    );
    let step = ask(&mut cluster, HOLDER, renew(incarnation));
    assert_eq!(answer(&step), Some(Err(FsError::Stale.into())));
    let step = ask(&mut cluster, OTHER, renew(incarnation));
    assert_eq!(answer(&step), Some(Err(FsError::Stale.into())));
}

/// A renews its grants and answers no recall; told that they are renewed, it would believe in them when B is let in.
#[test]
fn who_goes_on_with_what_was_recalled_for_too_long_is_told_that_nothing_is_renewed() {
    let (mut cluster, dir) = cluster();
    let incarnation = granted(&mut cluster, HOLDER, dir)
        .expect("a grant")
        .incarnation;
    let renew = Request::Renew(op::Renew { incarnation });
    let step = ask(&mut cluster, OTHER, getattr(dir));
    assert_eq!(answer(&step), None);
    let pause = LEASE / 2;
    let mut passed = pause;
    while passed < MAX_GRANT_RECALL {
        later(&mut cluster, pause);
        assert_eq!(get(&mut cluster, HOLDER, renew.clone()), Reply::Done);
        passed += pause;
    }
    let step = later(&mut cluster, pause);
    assert_eq!(answer(&step), None, "the last renewal is in force");
    let step = ask(&mut cluster, HOLDER, renew);
    assert_eq!(answer(&step), Some(Err(FsError::Stale.into())));
    let step = later(&mut cluster, pause);
    let mut answered = None;
    cluster.carry(step.outputs, &mut answered);
    assert!(
        matches!(answered, Some(Ok(Reply::Inode(_)))),
        "{answered:?}"
    );
}

/// A makes a name under a grant and stands still; its time is up, and B looks, finds nothing and makes it; A goes on.
#[test]
fn what_was_executed_under_a_grant_that_is_over_is_refused() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let file = number();
    let late = batch(
        &mut cluster,
        vec![(create_file(dir, name("f")), Some(file))],
    );
    let step = ask(&mut cluster, OTHER, unlink(dir, "f"));
    assert_eq!(answer(&step), None);
    let step = later(&mut cluster, LEASE);
    assert_eq!(step.records, [has_none(HOLDER)]);
    let mut answered = None;
    cluster.carry(step.outputs, &mut answered);
    assert_eq!(answered, Some(Err(FsError::NotFound.into())));
    let refused = |cluster: &mut Cluster| {
        let reply = get(cluster, HOLDER, Request::Batch(late.clone()));
        let reply = batch_reply(reply);
        assert_eq!(
            (reply.done, reply.refused, reply.incarnation),
            (0, Some(FsError::Stale.into()), None)
        );
    };
    refused(&mut cluster);
    // A restart does not bring them back, as it is on disk that they are over.
    cluster.restart(0);
    refused(&mut cluster);
}

/// The same, and A has grants anew, of which the shard knows that when it has restarted.
#[test]
fn what_was_executed_under_older_grants_is_refused_after_a_restart() {
    for begins_anew in [true, false] {
        let (mut cluster, dir) = cluster();
        let mut number = numbers(&mut cluster, HOLDER);
        granted(&mut cluster, HOLDER, dir).expect("a grant");
        let made = vec![(create_file(dir, name("f")), Some(number()))];
        let late = batch(&mut cluster, made);
        match begins_anew {
            true => {
                let step = takes(&mut cluster, HOLDER);
                cluster.carry(step.outputs, &mut None);
            }
            false => {
                ask(&mut cluster, OTHER, unlink(dir, "f"));
                let step = later(&mut cluster, LEASE);
                cluster.carry(step.outputs, &mut None);
            }
        }
        assert_ne!(in_force(&mut cluster, 0), late.incarnation);
        let made = vec![(create_file(dir, name("g")), Some(number()))];
        let newer = batch(&mut cluster, made);
        cluster.restart(0);
        let mut done = |batch| batch_reply(get(&mut cluster, HOLDER, Request::Batch(batch))).done;
        assert_eq!((done(late), done(newer)), (0, 1));
    }
}

/// A batch that is on its way, of grants that its session gave up when it began anew, is refused, also if it has no others yet.
#[test]
fn what_was_executed_before_a_session_began_anew_is_refused_after_a_restart() {
    let (mut cluster, dir) = cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let made = vec![(create_file(dir, name("f")), Some(number()))];
    let late = batch(&mut cluster, made);
    let step = takes(&mut cluster, HOLDER);
    assert_eq!(step.records, [has_none(HOLDER)]);
    cluster.restart(0);
    let refused = batch_reply(get(&mut cluster, HOLDER, Request::Batch(late)));
    assert_eq!(
        (refused.done, refused.refused),
        (0, Some(FsError::Stale.into()))
    );
}

#[test]
fn who_goes_has_no_grants() {
    for ended in [true, false] {
        let (mut cluster, dir) = cluster();
        granted(&mut cluster, HOLDER, dir).expect("a grant");
        ask(&mut cluster, OTHER, getattr(dir));
        let session = SessionId(HOLDER);
        let step = cluster.input(0, Input::SessionGone { session, ended });
        assert!(step.records.contains(&has_none(HOLDER)));
        assert!(
            matches!(answer(&step), Some(Ok(Reply::Inode(_)))),
            "{step:?}"
        );
    }
}

#[test]
fn a_step_of_another_shards_operation_waits_for_the_end_of_a_grant() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let elsewhere = (0..)
        .find_map(|number| {
            let text = format!("d{number}");
            match cluster.call(0, mkdir(Ino::ROOT, &text)) {
                Ok(Reply::Entry(entry)) if entry.shard.0 == 1 => Some((text, entry.ino)),
                Ok(_) => None,
                Err(error) => panic!("{error:?}"),
            }
        })
        .expect("some directory is on the other shard");
    let (text, dir) = elsewhere;
    let session = SessionId(HOLDER);
    cluster.input(1, Input::TakesLeases { session });
    let input = cluster.request_by(HOLDER, 1, Request::Grant(op::Grant { dir }));
    let step = cluster.input(1, input);
    assert_eq!(answer(&step), None, "it is not on disk yet");
    let mut granted = None;
    cluster.carry(step.outputs, &mut granted);
    assert!(matches!(granted, Some(Ok(Reply::Granted(Some(_))))));

    // Even when it is an operation of the holder's: it has to send before what it did in the directory.
    let rmdir = Request::Rmdir(op::Rmdir {
        dir: Ino::ROOT,
        name: name(&text),
    });
    let input = cluster.request_by(HOLDER, 0, rmdir);
    let step = cluster.input(0, input);
    let message = sent(&step.outputs).remove(0);
    assert!(matches!(
        message,
        PeerMessage::Commit {
            message: CommitMessage::Do { .. },
            ..
        }
    ));
    let step = cluster.input(1, Input::Peer(message));
    assert_eq!(step.records, []);
    let recall = recalls(&step).remove(0);
    assert_eq!(recall.keys, [LeaseKey::Grant(dir)]);
    let number = recall.number;
    let step = cluster.input(1, Input::Recalled { session, number });
    let mut result = None;
    cluster.carry(step.outputs, &mut result);
    assert!(matches!(result, Some(Ok(_))), "{result:?}");
}

/// A session that was granted something before it is on disk that it may have some would not be waited for after a restart.
#[test]
fn the_first_request_for_a_grant_waits_for_the_disk() {
    for session_ends in [false, true] {
        let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
        takes(&mut cluster, HOLDER);
        let grant = Request::Grant(op::Grant { dir: Ino::ROOT });
        let first = ask(&mut cluster, HOLDER, grant.clone());
        assert_eq!(answer(&first), None, "it is not on disk yet");
        let begins = Request::BeginGrants(op::BeginGrants);
        let second = ask(&mut cluster, HOLDER, begins);
        assert_eq!(answer(&second), None, "nor is it now");
        if session_ends {
            let session = SessionId(HOLDER);
            let ended = true;
            let step = cluster.input(0, Input::SessionGone { session, ended });
            let mut last = None;
            cluster.carry(step.outputs, &mut last);
            assert!(last.is_some(), "nobody waits for what is not to come");
            continue;
        }
        let mut last = None;
        cluster.carry(first.outputs, &mut last);
        assert!(
            matches!(last, Some(Ok(Reply::Granted(Some(_))))),
            "{last:?}"
        );
        let again = get(&mut cluster, HOLDER, grant);
        assert!(matches!(again, Reply::Granted(Some(_))), "{again:?}");
    }
}
