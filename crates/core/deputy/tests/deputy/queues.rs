//! Queues: order, limits, refusals, inode numbers.

use crate::server::{SHARD, Session, at, create, ino_of, lookup, mkdir, write};
use pandofs_api::Refusal;
use pandofs_deputy::Taken;
use pandofs_deputy::limits::MAX_QUEUED_OPERATIONS;
use pandofs_types::limits::MAX_BATCH_OPERATIONS;
use pandofs_types::{Credentials, FsError, Ino};

#[test]
fn one_batch_is_under_way_and_what_comes_meanwhile_is_the_next() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "a")).unwrap();
    let batch = session.next_batch();
    session.ask(create(top, "b")).unwrap();
    session.ask(create(top, "c")).unwrap();
    assert_eq!(session.deputy.next_to_send(SHARD), None);
    assert_eq!(session.deputy.to_send(), []);
    let reply = session.server.batch(SHARD, batch);
    session
        .deputy
        .batch_answered(SHARD, at(0), Some(reply), at(0));
    assert_eq!(session.deputy.to_send(), [SHARD]);
    assert_eq!(session.next_batch().early.len(), 2);
    assert_eq!(session.deputy.all_queued(), [(SHARD, 3)]);
}

#[test]
fn callers_stand_once_in_a_batch() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    for file in ["a", "b", "c"] {
        session.ask(create(top, file)).unwrap();
    }
    let batch = session.next_batch();
    assert_eq!(batch.callers, [Credentials::ROOT]);
    assert!(batch.early.iter().all(|early| early.caller == 0));
    assert!(
        batch
            .early
            .is_sorted_by_key(|early| (early.time, early.ino))
    );
}

#[test]
fn a_full_queue_is_waited_for() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    for at in 1..MAX_QUEUED_OPERATIONS as u64 {
        // None goes on where the last one ended.
        session.ask(write(file, at % 16 * 2, b"x")).unwrap();
    }
    let Taken::Drain { until, .. } = session.offer(&write(file, 0, b"x")) else {
        panic!("the queue is full");
    };
    assert_eq!(until, MAX_QUEUED_OPERATIONS as u64 / 2);
    let batch = session.next_batch();
    assert_eq!(batch.early.len(), MAX_BATCH_OPERATIONS);
}

#[test]
fn what_is_refused_takes_all_after_it_along() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "a")).unwrap();
    session.ask(create(top, "b")).unwrap();
    session.ask(create(top, "c")).unwrap();
    // As if the grant had been lost and another one had made it.
    let root = Credentials::ROOT;
    session.server.ask(&root, &create(top, "b")).unwrap();
    session.drain();
    let lost: Vec<_> = session
        .lost
        .iter()
        .map(|lost| (lost.request.clone(), lost.refusal.clone()))
        .collect();
    let [(first, Some(Refusal::Fs(FsError::Exists))), (second, None)] = &lost[..] else {
        panic!("{lost:?}");
    };
    assert_eq!(first, &create(top, "b"));
    assert_eq!(second, &create(top, "c"));
    assert_eq!(session.deputy.granted_until(top), None);
    assert!(session.server.ask(&root, &lookup(top, "a")).is_ok());
    assert!(session.server.ask(&root, &lookup(top, "c")).is_err());
}

#[test]
fn a_batch_without_an_answer_is_lost_with_all_after_it() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "a")).unwrap();
    assert!(session.deputy.next_to_send(SHARD).is_some());
    session.ask(create(top, "b")).unwrap();
    let lost = session.deputy.batch_answered(SHARD, at(0), None, at(0));
    assert_eq!(lost.len(), 2);
    assert_eq!(session.deputy.queued_of(top), None);
}

#[test]
fn numbers_are_used_in_order_and_asked_for_in_time() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    assert_eq!(
        session.offer(&mkdir(top, "a")),
        Taken::WantsNumbers {
            shard: SHARD,
            unordered: false
        }
    );
    assert!(session.deputy.wants_numbers(SHARD));
    assert!(
        !session.deputy.wants_numbers(SHARD),
        "they are asked for once"
    );
    session
        .deputy
        .took_numbers(SHARD, Some((Ino::new(SHARD, 500), 1, 0)));
    session
        .deputy
        .took_numbers(SHARD, Some((Ino::new(SHARD, 700), 2, 0)));
    let made: Vec<u64> = ["a", "b", "c"]
        .into_iter()
        .map(|of| ino_of(&session.ask(mkdir(top, of)).unwrap()).serial())
        .collect();
    assert_eq!(made, [500, 700, 701]);
    assert_eq!(
        session.offer(&mkdir(top, "d")),
        Taken::WantsNumbers {
            shard: SHARD,
            unordered: false
        }
    );
}
