//! Errands: when batches, numbers and renewals go out, and what is made of their answers.

use crate::server::{SESSION, SHARD, Session, at, create};
use pandofs_api::{Reply, Request, op};
use pandofs_deputy::limits::{BATCH_DELAY, NUMBERS_PER_BLOCK, SOON_QUEUED};
use pandofs_deputy::{About, Deputy, Ended, Errands, Next};
use pandofs_types::{FsError, Ino};
use std::sync::Arc;

/// Errands of a session with a granted directory and numbers, and that directory.
fn granted() -> (Session, Errands, Ino) {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let taken = (Ino::new(SHARD, 1 << 30), NUMBERS_PER_BLOCK, 0);
    session.deputy.took_numbers(SHARD, Some(taken));
    let none = Deputy::new(SESSION, Arc::clone(&session.server.map));
    let errands = Errands::new(std::mem::replace(&mut session.deputy, none));
    (session, errands, top)
}

/// The session executes something.
fn executes(session: &mut Session, errands: &mut Errands, request: Request) {
    std::mem::swap(&mut session.deputy, &mut errands.deputy);
    session.ask(request).unwrap();
    std::mem::swap(&mut session.deputy, &mut errands.deputy);
}

fn is_batch(next: &Next, operations: usize) -> bool {
    let Next::Now(errand) = next else {
        return false;
    };
    matches!(&errand.request, Request::Batch(batch) if batch.early.len() == operations)
        && errand.about == About::Batch(SHARD)
}

#[test]
fn a_batch_waits_for_more_and_for_nothing_once_somebody_waits_for_it() {
    let (mut session, mut errands, top) = granted();
    assert_eq!(errands.next(at(0), |_| true), Next::Nothing);
    executes(&mut session, &mut errands, create(top, "a"));
    assert_eq!(errands.take_news(), Some(SHARD));
    assert_eq!(errands.next(at(0), |_| false), Next::Nothing);
    assert_eq!(
        errands.next(at(0), |_| true),
        Next::At(at(0) + BATCH_DELAY),
        "more may come"
    );
    executes(&mut session, &mut errands, create(top, "b"));
    assert_eq!(errands.take_news(), None);
    errands.waits();
    assert!(is_batch(&errands.next(at(1), |_| true), 2));
    errands.has_waited();
    assert_eq!(
        errands.next(at(1), |_| true),
        Next::Nothing,
        "one at a time"
    );
    executes(&mut session, &mut errands, create(top, "c"));
    let lost = errands.ended(About::Batch(SHARD), at(1), None, at(2)).lost;
    assert_eq!(lost.len(), 3, "nobody knows what was done");
}

#[test]
fn a_batch_goes_out_when_it_is_due_large_or_recalled() {
    let (mut session, mut errands, top) = granted();
    executes(&mut session, &mut errands, create(top, "a"));
    assert!(matches!(errands.next(at(0), |_| true), Next::At(_)));
    assert!(is_batch(&errands.next(at(0) + BATCH_DELAY, |_| true), 1));

    let (mut session, mut errands, top) = granted();
    for number in 0..SOON_QUEUED {
        let request = create(top, &number.to_string());
        executes(&mut session, &mut errands, request);
    }
    assert_eq!(errands.take_news(), Some(SHARD));
    assert!(is_batch(&errands.next(at(0), |_| true), SOON_QUEUED));

    let (mut session, mut errands, top) = granted();
    executes(&mut session, &mut errands, create(top, "a"));
    assert_eq!(errands.recall(&[top], true, at(1)), None);
    assert!(is_batch(&errands.next(at(1), |_| true), 1));
    // It is tried again until the queue is empty.
    assert_eq!(errands.recall(&[top], true, at(1)), None);
}

/// (Were the recall answered: its batch is with the server, another session changes the directory, and the batch, whose
/// grants are in force, is executed over that.)
#[test]
fn a_recall_waits_for_the_queue_however_long_that_takes_and_nothing_is_renewed() {
    let (mut session, mut errands, top) = granted();
    executes(&mut session, &mut errands, create(top, "a"));
    assert_eq!(errands.next(at(0), |_| true), Next::At(at(0) + BATCH_DELAY));
    let Next::Now(batch) = errands.next(at(100), |_| true) else {
        panic!("it is due");
    };
    assert_eq!(errands.recall(&[top], true, at(100)), None);
    assert_eq!(errands.renewals(at(5_000), |_| true).len(), 1);
    assert_eq!(errands.recall(&[top], false, at(5_000)), None);
    assert_eq!(errands.renewals(at(5_000), |_| true), []);
    let Request::Batch(sent) = batch.request else {
        panic!("{batch:?}");
    };
    let reply = Reply::Batch(Box::new(session.server.batch(SHARD, sent)));
    let ended = errands.ended(batch.about, at(100), Some(Ok(reply)), at(6_000));
    assert_eq!(ended, Ended::default());
    assert!(errands.recall(&[top], false, at(6_000)).is_some());
}

#[test]
fn numbers_are_asked_for_once_and_before_the_batch() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "a")).unwrap();
    let none = Deputy::new(SESSION, Arc::clone(&session.server.map));
    let mut errands = Errands::new(std::mem::replace(&mut session.deputy, none));
    assert_eq!(errands.next(at(0), |_| true), Next::At(at(0) + BATCH_DELAY));
    let Next::Now(numbers) = errands.next(at(100), |_| true) else {
        panic!("a batch is due");
    };
    assert_eq!(numbers.about, About::Numbers(SHARD));
    assert_eq!(errands.numbers(SHARD, false), None);
    assert!(is_batch(&errands.next(at(100), |_| true), 1));
}

#[test]
fn what_is_renewed_is_asked_for_again_unless_it_is_forgotten() {
    let (_session, mut errands, top) = granted();
    let until = errands.deputy.granted_until(top).unwrap();
    let [renewal] = &errands.renewals(at(5_000), |_| false)[..] else {
        panic!("it was used of late");
    };
    let about = renewal.about;
    assert!(matches!(renewal.request, Request::Renew(op::Renew { .. })));
    let ended = errands.ended(about, at(5_000), None, at(5_001));
    assert_eq!(ended, Ended::default());
    assert_eq!(errands.deputy.granted_until(top), Some(until));
    errands.ended(about, at(5_100), Some(Ok(Reply::Done)), at(5_101));
    assert!(errands.deputy.granted_until(top) > Some(until));
    let stale = Some(Err(FsError::Stale));
    let ended = errands.ended(about, at(5_200), stale, at(5_201));
    assert_eq!(ended.forgot, Some(SHARD));
    assert_eq!(errands.deputy.granted_until(top), None);
}

#[test]
fn a_loss_is_told_once_for_each_inode() {
    let (mut session, mut errands, top) = granted();
    executes(&mut session, &mut errands, create(top, "a"));
    errands.waits();
    assert!(is_batch(&errands.next(at(0), |_| true), 1));
    let lost = errands.ended(About::Batch(SHARD), at(0), None, at(1)).lost;
    assert_eq!(lost[0].inos(), [top]);
    errands.lose(lost[0].inos());
    assert!(errands.take_loss(top));
    assert!(!errands.take_loss(top));
}
