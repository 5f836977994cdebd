//! Directories that a session has made on another shard than their names' before servers hear of them.

use crate::grants::{HOLDER, OTHER, answer, in_force, in_force_of, lookup, made, mkdir, recalls};
use crate::support::{Cluster, create_file, name};
use pandofs_api::op::{self, Early, EarlyOperation};
use pandofs_api::{BatchReply, Granted, Refusal, Reply, Request};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::Input;
use pandofs_types::limits::MAX_TIME_AHEAD;
use pandofs_types::{Credentials, FsError, Ino, LeaseKey, SessionId, ShardId, Time};

pub(crate) const HOME: ShardId = ShardId(1);

/// Two shards, of which the second has grants of the holder, and numbers there for its use in any order.
pub(crate) fn cluster() -> (Cluster, Granted, Vec<Ino>) {
    cluster_with(Settings::default())
}

pub(crate) fn cluster_with(settings: Settings) -> (Cluster, Granted, Vec<Ino>) {
    let mut cluster = Cluster::new(2, DirPolicy::Random, settings);
    for session in [HOLDER, OTHER] {
        let session = SessionId(session);
        for shard in [0, HOME.0] {
            cluster.input(shard, Input::TakesLeases { session });
        }
    }
    // It is on disk then that it may have some.
    in_force(&mut cluster, 0);
    in_force_of(&mut cluster, OTHER, 0);
    let Ok(Reply::Granted(Some(begun))) = call(&mut cluster, HOME.0, HOLDER, begin()) else {
        panic!("they begin when it is on disk");
    };
    let take = Request::TakeNumbers(op::TakeNumbers {
        count: 0,
        unordered: 3,
    });
    let Ok(Reply::Numbers {
        first,
        count: 0,
        unordered: 3,
    }) = call(&mut cluster, HOME.0, HOLDER, take)
    else {
        panic!("there are numbers");
    };
    let numbers = (0..3).map(|at| Ino::new(HOME, first.serial() + at));
    (cluster, *begun, numbers.collect())
}

fn begin() -> Request {
    Request::BeginGrants(op::BeginGrants)
}

/// The answer to a request, whatever messages it takes.
pub(crate) fn call(
    cluster: &mut Cluster,
    shard: u16,
    session: u64,
    request: Request,
) -> Result<Reply, Refusal> {
    let input = cluster.request_by(session, shard, request);
    let step = cluster.input(shard, input);
    assert_eq!(recalls(&step), [], "nothing is recalled");
    let mut last = answer(&step);
    cluster.carry(step.outputs, &mut last);
    last.expect("it is answered")
}

fn away(cluster: &mut Cluster, text: &str, random: u64, ino: Ino) -> op::MkdirAway {
    let Request::Mkdir(mkdir) = mkdir(Ino::ROOT, text) else {
        unreachable!();
    };
    let incarnation = in_force(cluster, 0);
    op::MkdirAway {
        incarnation,
        mkdir,
        time: Time(cluster.now),
        random,
        placing: None,
        ino,
    }
}

/// A random number with which the policy leads to the other one of two shards, and to the first one of three.
const RANDOM: u64 = 3;

pub(crate) fn make(cluster: &mut Cluster, text: &str, ino: Ino) -> Result<Reply, Refusal> {
    let request = Request::MkdirAway(away(cluster, text, RANDOM, ino));
    call(cluster, 0, HOLDER, request)
}

/// Executes this in a batch of the holder, with a number taken for it; the reply, and the number.
fn batch(cluster: &mut Cluster, request: &Request) -> (Box<BatchReply>, Ino) {
    let (batch, first) = batch_of(cluster, HOLDER, request);
    let Ok(Reply::Batch(reply)) = call(cluster, HOME.0, HOLDER, batch) else {
        panic!("the batch is executed");
    };
    (reply, first)
}

/// A batch for the second shard in which a session has executed this, with a number taken for it, which comes with it.
pub(crate) fn batch_of(cluster: &mut Cluster, session: u64, request: &Request) -> (Request, Ino) {
    let take = Request::TakeNumbers(op::TakeNumbers {
        count: 1,
        unordered: 0,
    });
    let Ok(Reply::Numbers { first, .. }) = call(cluster, HOME.0, session, take) else {
        panic!("there is a number");
    };
    let incarnation = in_force_of(cluster, session, HOME.0);
    let batch = Request::Batch(op::Batch {
        incarnation,
        callers: vec![Credentials::ROOT],
        placing: None,
        early: vec![Early {
            caller: 0,
            time: Time(cluster.now),
            random: RANDOM,
            ino: Some(first),
            operation: EarlyOperation::of(request).expect("it may be early"),
        }],
    });
    (batch, first)
}

pub(crate) fn are_replayed(cluster: &Cluster) {
    for shard in [0, HOME.0] {
        let [stored, replayed] = cluster.stored_and_replayed(shard);
        assert_eq!(stored, replayed);
    }
}

#[test]
fn it_has_the_number_that_was_chosen_and_is_granted_to_its_session() {
    let (mut cluster, begun, numbers) = cluster();
    // Not the first of them.
    let ino = numbers[1];
    assert_eq!(made(make(&mut cluster, "d", ino).expect("it is made")), ino);
    let Ok(Reply::Entry(found)) = call(&mut cluster, 0, OTHER, lookup(Ino::ROOT, "d")) else {
        panic!("its name is there");
    };
    assert_eq!((found.ino, found.shard), (ino, HOME));
    // Its session's operations in it are executed, and others wait until its grant has ended.
    let (reply, first) = batch(&mut cluster, &create_file(ino, name("f")));
    assert_eq!(
        (reply.done, reply.incarnation),
        (1, Some(begun.incarnation))
    );
    let input = cluster.request_by(OTHER, HOME.0, lookup(ino, "f"));
    let step = cluster.input(HOME.0, input);
    assert_eq!(answer(&step), None);
    let [recall] = &recalls(&step)[..] else {
        panic!("it is recalled: {step:?}");
    };
    assert_eq!(
        (recall.session, &recall.keys[..]),
        (SessionId(HOLDER), &[LeaseKey::Grant(ino)][..])
    );
    let (session, number) = (recall.session, recall.number);
    let step = cluster.input(HOME.0, Input::Recalled { session, number });
    assert_eq!(
        made(
            answer(&step)
                .expect("it waits no longer")
                .expect("it is there")
        ),
        first
    );
    are_replayed(&cluster);
}

#[test]
fn it_is_where_its_session_has_made_it_when_a_server_has_joined_since() {
    let (mut cluster, _, numbers) = cluster();
    cluster.join();
    let ino = numbers[0];
    assert_eq!(made(make(&mut cluster, "d", ino).expect("it is made")), ino);
    let Ok(Reply::Entry(found)) = call(&mut cluster, 0, OTHER, lookup(Ino::ROOT, "d")) else {
        panic!("its name is there");
    };
    assert_eq!((found.ino, found.shard), (ino, HOME));
    // So is one that was made on its parent's shard.
    let (reply, sub) = batch(&mut cluster, &mkdir(ino, "sub"));
    assert_eq!((reply.done, reply.refused), (1, None));
    let there = call(&mut cluster, HOME.0, HOLDER, lookup(ino, "sub"));
    assert_eq!(made(there.expect("it is there")), sub);
}

#[test]
fn a_number_is_used_once_and_only_by_who_took_it() {
    let (mut cluster, _, numbers) = cluster();
    make(&mut cluster, "d", numbers[2]).expect("it is made");
    assert_eq!(
        make(&mut cluster, "e", numbers[2]),
        Err(FsError::Invalid.into())
    );
    let elsewhere = Ino::new(ShardId(0), 77);
    assert_eq!(
        call_with(&mut cluster, HOLDER, elsewhere),
        Err(FsError::Invalid.into())
    );
    assert_eq!(
        call_with(&mut cluster, OTHER, numbers[0]),
        Err(FsError::Invalid.into())
    );
    make(&mut cluster, "e", numbers[0]).expect("the refusals cost nothing");
    are_replayed(&cluster);
}

fn call_with(cluster: &mut Cluster, session: u64, ino: Ino) -> Result<Reply, Refusal> {
    let mut away = away(cluster, "never", RANDOM, ino);
    away.incarnation = in_force_of(cluster, session, 0);
    call(cluster, 0, session, Request::MkdirAway(away))
}

#[test]
fn a_name_that_is_taken_is_refused_and_the_number_stays() {
    let (mut cluster, _, numbers) = cluster();
    call(&mut cluster, 0, OTHER, create_file(Ino::ROOT, name("d"))).expect("it is made");
    assert_eq!(
        make(&mut cluster, "d", numbers[0]),
        Err(FsError::Exists.into())
    );
    make(&mut cluster, "e", numbers[0]).expect("it is made");
}

#[test]
fn a_time_too_far_ahead_is_brought_back() {
    let (mut cluster, _, numbers) = cluster();
    let mut early = away(&mut cluster, "d", RANDOM, numbers[0]);
    early.time = Time(cluster.now + 2 * MAX_TIME_AHEAD.as_nanos() as i64);
    let before = cluster.now;
    let made = call(&mut cluster, 0, HOLDER, Request::MkdirAway(early));
    let Ok(Reply::Entry(entry)) = made else {
        panic!("{made:?}");
    };
    let time = entry.inode.expect("it is told").attr.btime;
    let ahead = time.0 - MAX_TIME_AHEAD.as_nanos() as i64;
    assert!((before..=cluster.now).contains(&ahead));
    are_replayed(&cluster);
}

#[test]
fn grants_without_a_directory_last_while_nobody_wants_any() {
    let (mut cluster, begun, _) = cluster();
    let incarnation = begun.incarnation;
    let renew = || Request::Renew(op::Renew { incarnation });
    assert_eq!(call(&mut cluster, HOME.0, HOLDER, renew()), Ok(Reply::Done));
    cluster.pass(pandofs_types::limits::LEASE * 2);
    assert_eq!(call(&mut cluster, HOME.0, HOLDER, renew()), Ok(Reply::Done));
}
