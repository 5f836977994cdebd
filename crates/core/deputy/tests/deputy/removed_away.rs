//! Directories that are removed on another shard than their names'.

use crate::away::{AWAY, make_away, with_both};
use crate::server::{
    INCARNATION, SHARD, Session, at, create, ino_of, lookup, mkdir, rmdir, unlink,
};
use pandofs_api::op::{GetAttr, RmdirAway};
use pandofs_api::{Refusal, Reply, Request};
use pandofs_deputy::{Recalled, Taken, ToSend};
use pandofs_types::limits::LEASE;
use pandofs_types::{Credentials, FsError, Ino, ShardId};

/// A directory of the other shard with a file in it, and its name in the first one; nothing is queued.
fn with_one() -> (Session, Ino, String, Ino) {
    let (mut session, top) = with_both();
    let dir = make_away(&mut session, top);
    let name = format!("new{}", session.now - 1);
    let found = session.ask(lookup(top, &name)).expect("it is there");
    assert_eq!(ino_of(&found), dir);
    session.ask(create(dir, "file")).expect("it is made");
    session.drain();
    (session, top, name, dir)
}

/// With the file and the directory removed, of which nothing is sent.
fn removed() -> (Session, Ino, String, Ino) {
    let (mut session, top, name, dir) = with_one();
    session.ask(unlink(dir, "file")).expect("it is removed");
    let early = session.early;
    let answer = session.ask(rmdir(top, &name));
    assert_eq!(answer, Ok(Reply::Removed { ino: dir }));
    assert_eq!(session.early, early + 1, "no server is asked");
    (session, top, name, dir)
}

fn to_send(session: &mut Session, shard: ShardId) -> Option<ToSend> {
    session.deputy.next_to_send(shard)
}

#[test]
fn it_is_sent_by_itself_after_what_was_done_in_it() {
    let (mut session, top, name, dir) = removed();
    assert_eq!(session.deputy.to_send(), [AWAY]);
    assert_eq!(to_send(&mut session, SHARD), None);
    assert!(session.send());
    assert_eq!(session.deputy.to_send(), [SHARD]);
    let Some(ToSend::Alone {
        request: Request::RmdirAway(RmdirAway { rmdir, ino, .. }),
        ..
    }) = to_send(&mut session, SHARD)
    else {
        panic!("it is sent by itself");
    };
    assert_eq!((rmdir.dir, ino), (top, dir));
    assert_eq!(rmdir.name.as_bytes(), name.as_bytes());
    let lost = session.deputy.alone_answered(SHARD, Some(Ok(())));
    assert_eq!(lost, []);
    assert_eq!(session.deputy.all_queued(), []);
}

/// The session may have other grants of its home by the time it is sent.
#[test]
fn it_goes_by_the_grants_under_which_it_was_removed() {
    let (mut session, top, ..) = removed();
    assert!(session.send());
    session.lose(AWAY);
    session.deputy.tick(at(session.now));
    while !matches!(
        session.offer(&mkdir(top, &format!("b{}", session.now))),
        Taken::WantsBeginning { shard: AWAY }
    ) {}
    let (now, mut begun) = (at(session.now), session.server.begun());
    begun.incarnation = INCARNATION + 1;
    session.deputy.begun(AWAY, now, Some(begun), now);
    let Some(ToSend::Alone {
        request: Request::RmdirAway(removal),
        ..
    }) = to_send(&mut session, SHARD)
    else {
        panic!("it is sent by itself");
    };
    let by = (removal.incarnation, removal.home_incarnation);
    assert_eq!(by, (INCARNATION, INCARNATION));
}

#[test]
fn its_server_removes_it_and_its_name_is_free_again() {
    let (mut session, top, name, dir) = removed();
    session.drain();
    assert_eq!(session.lost, []);
    for asked in [lookup(top, &name), Request::GetAttr(GetAttr { ino: dir })] {
        let here = session.ask(asked.clone());
        assert_eq!(here, session.server.ask(&Credentials::ROOT, &asked));
        assert!(here.is_err(), "{asked:?}");
    }
    session.ask(create(top, &name)).expect("its name is free");
}

#[test]
fn one_with_something_in_it_is_refused_without_a_server() {
    let (mut session, top, name, _) = with_one();
    let early = session.early;
    let refused = session.ask(rmdir(top, &name));
    assert_eq!(refused, Err(Refusal::Fs(FsError::NotEmpty)));
    assert_eq!(session.early, early + 1);
    assert_eq!(session.deputy.all_queued(), []);
}

#[test]
fn whoever_wants_it_waits_until_its_server_has_removed_it() {
    let (mut session, _, _, dir) = removed();
    let recalled = session.deputy.recall(dir, at(session.now));
    let until = session.begun(SHARD);
    let shard = SHARD;
    assert_eq!(recalled, Recalled::Drain { shard, until });
    assert!(
        session.deputy.is_recalled(AWAY),
        "what it waits for is sent at once"
    );
    session.drain();
    assert_eq!(
        session.deputy.recall(dir, at(session.now)),
        Recalled::Over,
        "there is nothing to let go of"
    );
    assert!(!session.deputy.is_recalled(SHARD));
    // Given up in between, nothing more is answered from the images.
    let (mut session, top, ..) = removed();
    session.deputy.recall(dir, at(session.now));
    session.deputy.give_up(dir);
    assert_eq!(session.deputy.granted_until(top), None);
}

/// Another session that wants it waits at its home, and would wait as long as the grants there are renewed.
#[test]
fn one_that_is_given_up_before_it_is_removed_has_the_grants_of_its_home_end() {
    let (mut session, _, _, dir) = removed();
    let due = at(session.now + LEASE.as_millis() as u64 * 7 / 10);
    let renewed = |session: &Session| {
        let due = session.deputy.to_renew(due, |_| true).into_iter();
        due.map(|(shard, _)| shard).collect::<Vec<_>>()
    };
    assert_eq!(renewed(&session), [SHARD, AWAY]);
    session.deputy.recall(dir, at(session.now));
    assert_eq!(renewed(&session), [SHARD, AWAY]);
    session.deputy.give_up(dir);
    assert_eq!(renewed(&session), []);
}

#[test]
fn a_question_about_it_waits_as_does_its_fsync() {
    let (mut session, _, _, dir) = removed();
    assert!(session.send());
    let until = session.begun(SHARD);
    assert_eq!(session.deputy.queued_of(dir), Some((SHARD, until)));
    let shard = SHARD;
    for asked in [
        Request::GetAttr(GetAttr { ino: dir }),
        create(dir, "another"),
    ] {
        let taken = session.offer(&asked);
        assert_eq!(taken, Taken::Drain { shard, until }, "{asked:?}");
    }
}

#[test]
fn it_is_lost_with_what_was_done_in_it_before() {
    let (mut session, top, _, _) = removed();
    let Some(ToSend::Batch(_)) = to_send(&mut session, AWAY) else {
        panic!("the file goes first");
    };
    let now = at(session.now);
    let lost = session.deputy.batch_answered(AWAY, now, None, now);
    let shards: Vec<ShardId> = lost.iter().map(|lost| lost.shard).collect();
    assert_eq!(shards, [AWAY, SHARD]);
    assert_eq!(session.deputy.all_queued(), []);
    assert_eq!(session.deputy.granted_until(top), None);
}

#[test]
fn what_was_queued_there_afterwards_takes_nothing_along() {
    let (mut session, top, _, _) = removed();
    assert!(session.send());
    let other = loop {
        let made = session.ask(mkdir(top, &format!("b{}", session.now)));
        let made = ino_of(&made.expect("it is made"));
        if made.birth_shard() == AWAY {
            break made;
        }
    };
    session.ask(create(other, "file")).expect("it is made");
    // The removal goes first, and is refused: all of its queue is lost, and what needs that.
    let Some(ToSend::Alone { .. }) = to_send(&mut session, SHARD) else {
        panic!("it is sent by itself");
    };
    let refusal = Refusal::Fs(FsError::NotEmpty);
    let answer = Some(Err(refusal.clone()));
    let lost = session.deputy.alone_answered(SHARD, answer);
    assert_eq!(lost[0].refusal, Some(refusal));
    assert!(lost.iter().any(|lost| lost.shard == AWAY), "{lost:?}");
    assert_eq!(session.deputy.all_queued(), []);
}
