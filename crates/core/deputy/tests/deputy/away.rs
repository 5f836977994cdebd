//! Directories that are made on another shard than their names'.

use crate::server::{SERVER, SHARD, Session, at, create, ino_of, lookup, mkdir};
use pandofs_api::{Refusal, Request, op};
use pandofs_deputy::{Taken, ToSend};
use pandofs_placement::DirPolicy;
use pandofs_types::{Credentials, FsError, Ino, SetAttr, ShardId};

pub(crate) const AWAY: ShardId = ShardId(1);

/// A session over two shards with a grant on each, and the directory of the first.
pub(crate) fn with_both() -> (Session, Ino) {
    let mut session = Session::over(2, DirPolicy::Random);
    let top = loop {
        let dir = session.granted_dir(&format!("top{}", session.now));
        if dir.birth_shard() == SHARD {
            break dir;
        }
    };
    for number in 0.. {
        let made = session.ask(mkdir(top, &format!("old{number}"))).unwrap();
        session.ask(create(ino_of(&made), "file")).unwrap();
        if ino_of(&made).birth_shard() == AWAY {
            break;
        }
    }
    session.drain();
    (session, top)
}

/// Makes a directory in this one, on the other shard and early.
pub(crate) fn make_away(session: &mut Session, top: Ino) -> Ino {
    loop {
        session.drain();
        let of = format!("new{}", session.now);
        let made = session.ask(mkdir(top, &of)).unwrap();
        if ino_of(&made).birth_shard() == AWAY {
            assert_eq!(session.deputy.queued(SHARD), 1, "it is queued");
            return ino_of(&made);
        }
    }
}

#[test]
fn what_is_done_in_it_is_sent_after_it() {
    let (mut session, top) = with_both();
    let dir = make_away(&mut session, top);
    let file = ino_of(&session.ask(create(dir, "file")).unwrap());
    assert_eq!(file.birth_shard(), AWAY);
    assert_eq!(session.deputy.queued(AWAY), 1);
    assert_eq!(session.deputy.to_send(), [SHARD]);
    assert_eq!(session.deputy.next_to_send(AWAY), None);
    // An fsync of the directory, or of the file in it, waits for its mkdir.
    assert_eq!(
        session.deputy.queued_of(file),
        Some((AWAY, session.begun(AWAY)))
    );
    assert!(session.send());
    assert_eq!(session.deputy.to_send(), [AWAY]);
    assert!(session.send());
    assert!(session.lost.is_empty());
    let there = session.server.ask(&Credentials::ROOT, &lookup(dir, "file"));
    assert_eq!(ino_of(&there.unwrap()), file);
}

#[test]
fn an_fsync_of_a_directory_in_which_nothing_is_done_waits_for_it() {
    let (mut session, top) = with_both();
    let dir = make_away(&mut session, top);
    assert_eq!(
        session.deputy.queued_of(dir),
        Some((SHARD, session.begun(SHARD)))
    );
    session.drain();
    assert_eq!(session.deputy.queued_of(dir), None);
}

#[test]
fn a_change_of_it_is_sent_after_it_and_a_question_to_the_server_waits() {
    let (mut session, top) = with_both();
    let dir = make_away(&mut session, top);
    let set = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    session
        .ask(Request::SetAttr(op::SetAttr { ino: dir, set }))
        .unwrap();
    assert_eq!(session.deputy.to_send(), [SHARD]);
    session.drain();
    assert!(session.lost.is_empty());
    let next = make_away(&mut session, top);
    let settings = Request::SetDirSettings(op::SetDirSettings {
        dir: next,
        settings: pandofs_api::DirSettings::default(),
    });
    let Taken::Drain { shard, .. } = session.offer(&settings) else {
        panic!("the server does not have it yet");
    };
    assert_eq!(shard, SHARD);
}

#[test]
fn what_is_in_it_is_lost_with_it() {
    let (mut session, top) = with_both();
    let dir = make_away(&mut session, top);
    session.ask(create(dir, "file")).unwrap();
    let sub = session.ask(mkdir(dir, "sub"));
    assert!(sub.is_ok());
    let Some(ToSend::Alone { .. }) = session.deputy.next_to_send(SHARD) else {
        panic!("it is sent by itself");
    };
    let refusal = Refusal::Fs(FsError::NoSpace);
    let lost = session
        .deputy
        .alone_answered(SHARD, Some(Err(refusal.clone())));
    assert_eq!(lost.len(), 3, "{lost:?}");
    assert_eq!(lost[0].refusal, Some(refusal));
    assert_eq!((lost[0].shard, lost[1].shard), (SHARD, AWAY));
    assert_eq!(session.deputy.queued(AWAY), 0);
    assert_eq!(session.deputy.granted_until(dir), None);
    assert_eq!(session.deputy.all_queued(), []);
}

#[test]
fn what_is_queued_before_something_that_is_lost_has_not_ended() {
    let (mut session, top) = with_both();
    let other = make_away(&mut session, top);
    session.drain();
    let dir = make_away(&mut session, top);
    session.ask(create(other, "first")).unwrap();
    let until = session.begun(AWAY);
    session.ask(create(dir, "file")).unwrap();
    let Some(ToSend::Alone { .. }) = session.deputy.next_to_send(SHARD) else {
        panic!("it is sent by itself");
    };
    let refusal = Refusal::Fs(FsError::NoSpace);
    let lost = session.deputy.alone_answered(SHARD, Some(Err(refusal)));
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert_eq!(session.deputy.queued(AWAY), 1);
    assert!(!session.deputy.has_ended(AWAY, until));
    assert!(session.send());
    assert!(session.deputy.has_ended(AWAY, until));
}

#[test]
fn numbers_that_are_in_use_are_waited_for() {
    let (mut session, top) = with_both();
    let mut taken = 0;
    for number in 0.. {
        match session.offer(&mkdir(top, &format!("many{number}"))) {
            Taken::WantsNumbers { shard, unordered } => {
                assert!(unordered == (shard == AWAY));
                taken += u32::from(unordered);
                let numbers = session.server.numbers(shard, unordered);
                session.deputy.took_numbers(shard, Some(numbers));
            }
            Taken::Drain { shard, .. } => {
                assert_eq!(shard, SHARD);
                break;
            }
            Taken::Answered(answer) => drop(answer.unwrap()),
            other => panic!("{other:?}"),
        }
    }
    assert!(taken <= 1, "all that are in use are among the newest");
    session.drain();
    assert!(session.lost.is_empty());
}

#[test]
fn grants_of_its_home_begin_first() {
    let mut session = Session::over(2, DirPolicy::Random);
    let top = loop {
        let dir = session.granted_dir(&format!("top{}", session.now));
        if dir.birth_shard() == SHARD {
            break dir;
        }
        session.lose(AWAY);
        session.deputy.tick(at(session.now));
    };
    let mut wanted = 0;
    for _ in 0..1_000 {
        let of = format!("sub{}", session.now);
        match session.offer(&mkdir(top, &of)) {
            Taken::Answered(made) if ino_of(made.as_ref().unwrap()).birth_shard() == SHARD => {}
            Taken::Answered(_) => break,
            Taken::WantsBeginning { shard } => {
                assert_eq!(shard, AWAY);
                wanted += 1;
                // The first time there are none to be had, and for some time none are asked for.
                let begun = (wanted == 2).then(|| session.server.begun());
                let now = at(session.now);
                session.deputy.begun(shard, now, begun, now);
            }
            Taken::WantsNumbers { shard, unordered } => {
                let numbers = session.server.numbers(shard, unordered);
                session.deputy.took_numbers(shard, Some(numbers));
            }
            Taken::Drain { .. } => session.drain(),
            Taken::Ask(asked) => {
                assert_eq!(wanted, 1, "a server is asked in the pause");
                session.deputy.was_asked(asked, None);
                session.now += 300;
            }
            Taken::WantsGrant { dir } => session.grant(dir),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(wanted, 2);
}

/// Grants that begin before the home's server hears that the session begins anew are over then.
#[test]
fn grants_of_its_home_do_not_begin_while_no_recalls_of_it_are_heard() {
    let (mut session, top) = with_both();
    session.deputy.lost(SERVER, [AWAY]);
    session.deputy.tick(at(session.now));
    let asks = |session: &mut Session| loop {
        let of = format!("sub{}", session.now);
        match session.offer(&mkdir(top, &of)) {
            Taken::Answered(made) => {
                assert_eq!(ino_of(&made.unwrap()).birth_shard(), SHARD);
            }
            Taken::Drain { .. } => session.drain(),
            // Its server has made the last one in it.
            Taken::WantsGrant { dir } => session.grant(dir),
            Taken::WantsNumbers { shard, unordered } => {
                let numbers = session.server.numbers(shard, unordered);
                session.deputy.took_numbers(shard, Some(numbers));
            }
            other => break other,
        }
    };
    match asks(&mut session) {
        Taken::Ask(asked) => session.deputy.was_asked(asked, None),
        other => panic!("{other:?} is no question to a server"),
    }
    session.deputy.hears(SERVER);
    assert_eq!(asks(&mut session), Taken::WantsBeginning { shard: AWAY });
}
