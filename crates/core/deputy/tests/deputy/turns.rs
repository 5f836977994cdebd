//! Grants given, used, recalled, lost and over.

use crate::server::{
    SERVER, SHARD, Session, at, create, ino_of, lookup, mkdir, rename, unlink, write,
};
use pandofs_api::{FileBody, Refusal, Reply, Request, op};
use pandofs_deputy::limits::MAX_IMAGE_DATA_BYTES;
use pandofs_deputy::{Offer, Opened, Recalled, Taken};
use pandofs_placement::DirPolicy;
use pandofs_types::limits::DEFAULT_INLINE_BYTES;
use pandofs_types::{Credentials, FsError, Ino, Name, ServerId, SetAttr, SetTime, ShardId, Time};

fn answered(taken: Taken) -> Result<Reply, Refusal> {
    match taken {
        Taken::Answered(answer) => answer,
        other => panic!("{other:?} is no answer"),
    }
}

#[test]
fn a_tree_is_made_without_a_server() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session
        .deputy
        .took_numbers(SHARD, Some((Ino::new(SHARD, 1 << 30), 100, 0)));
    let sub = ino_of(&answered(session.offer(&mkdir(top, "sub"))).unwrap());
    let file = ino_of(&answered(session.offer(&create(sub, "file"))).unwrap());
    answered(session.offer(&write(file, 0, b"hello"))).unwrap();
    answered(session.offer(&rename(sub, "file", top, "moved"))).unwrap();
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    answered(session.offer(&Request::SetAttr(op::SetAttr { ino: file, set }))).unwrap();
    answered(session.offer(&Request::Rmdir(op::Rmdir {
        dir: top,
        name: Name::new(b"sub").unwrap(),
    })))
    .unwrap();
    assert_eq!(session.deputy.queued(SHARD), 6);
    // The server has nothing of it yet.
    let root = Credentials::ROOT;
    let moved = lookup(top, "moved");
    assert_eq!(
        session.server.ask(&root, &moved),
        Err(Refusal::Fs(FsError::NotFound))
    );
    let here = answered(session.offer(&moved));
    session.drain();
    assert_eq!(session.server.ask(&root, &moved), here);
    assert!(session.lost.is_empty());
}

/// Attributes are told by the image after that, and bytes by the shard.
#[test]
fn bytes_of_many_files_are_let_go_of() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let bytes = DEFAULT_INLINE_BYTES as usize;
    let read = |ino| Request::ReadInline(op::ReadInline { ino });
    let is_right = |reply: &Reply, number: usize| {
        let Reply::Inode(inode) = reply else {
            panic!("{reply:?}");
        };
        let FileBody::Inline { data, .. } = &inode.body else {
            panic!("{reply:?}");
        };
        *data == vec![number as u8; bytes]
    };
    let mut files = Vec::new();
    for number in 0..MAX_IMAGE_DATA_BYTES / bytes {
        let made = session.ask(create(top, &format!("file-{number}"))).unwrap();
        let ino = ino_of(&made);
        let contents = vec![number as u8; bytes];
        session.ask(write(ino, 0, &contents)).unwrap();
        files.push(ino);
    }
    let here = answered(session.offer(&read(files[3])));
    assert!(is_right(&here.unwrap(), 3));

    let one_more = ino_of(&session.ask(create(top, "one more")).unwrap());
    session.ask(write(one_more, 0, b"x")).unwrap();
    // The shard gets its queued operations first.
    let asked = session.offer(&read(files[3]));
    assert!(matches!(asked, Taken::Drain { .. }), "{asked:?}");
    let stat = Request::GetAttr(op::GetAttr { ino: files[3] });
    answered(session.offer(&stat)).unwrap();
    // It is written over, and known again.
    session.ask(write(files[4], 0, &vec![4; bytes])).unwrap();
    let here = answered(session.offer(&read(files[4])));
    assert!(is_right(&here.unwrap(), 4));
    let there = session.ask(read(files[3])).unwrap();
    assert!(is_right(&there, 3));
    assert!(session.lost.is_empty());
}

#[test]
fn absent_names_need_no_server_and_taken_ones_are_refused() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let nothing = answered(session.offer(&lookup(top, "nothing")));
    assert_eq!(nothing, Err(Refusal::Fs(FsError::NotFound)));
    session.ask(create(top, "file")).unwrap();
    let again = answered(session.offer(&create(top, "file")));
    assert_eq!(again, Err(Refusal::Fs(FsError::Exists)));
}

#[test]
fn what_others_may_change_is_asked_of_the_server() {
    let mut session = Session::new();
    let root = Credentials::ROOT;
    let top = ino_of(&session.server.ask(&root, &mkdir(Ino::ROOT, "top")).unwrap());
    let old = ino_of(&session.server.ask(&root, &create(top, "old")).unwrap());
    session.deputy.made_elsewhere(top, at(0));
    session.ask(create(top, "new")).unwrap();
    assert_eq!(session.deputy.queued(SHARD), 1);
    // Nothing that is queued is about this inode, but its name is in the directory.
    assert!(matches!(
        session.offer(&lookup(top, "old")),
        Taken::Drain { .. }
    ));
    session.drain();
    assert!(matches!(session.offer(&lookup(top, "old")), Taken::Ask(_)));
    let stat = Request::GetAttr(op::GetAttr { ino: old });
    assert!(matches!(session.offer(&stat), Taken::Ask(_)));
    // The directory changes without the image: it is no longer answered from.
    let Taken::Ask(asked) = session.offer(&unlink(top, "old")) else {
        panic!("an inode that others may know is theirs as well");
    };
    assert_eq!(session.deputy.granted_until(top), None);
    assert!(matches!(session.offer(&lookup(top, "new")), Taken::Ask(_)));
    session.deputy.was_asked(asked, None);
}

#[test]
fn a_recalled_directory_is_let_go_of_once_its_queue_is_sent() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let other = session.granted_dir("other");
    session.ask(create(top, "file")).unwrap();
    let Recalled::Drain { until, .. } = session.deputy.recall(top, at(10)) else {
        panic!("there is something to send");
    };
    assert_eq!(until, 1);
    // Nothing overtakes what is queued, and nothing is executed here any more.
    assert!(matches!(
        session.offer(&lookup(top, "file")),
        Taken::Drain { .. }
    ));
    answered(session.offer(&create(other, "file"))).unwrap();
    assert!(session.send());
    session.deputy.let_go(top);
    assert!(matches!(session.offer(&lookup(top, "file")), Taken::Ask(_)));
    assert!(session.deputy.granted_until(other).is_some());
    assert_eq!(session.deputy.recall(top, at(20)), Recalled::Over);
}

#[test]
fn a_grant_that_was_recalled_before_it_came_is_none() {
    let mut session = Session::new();
    let root = Credentials::ROOT;
    let top = ino_of(&session.server.ask(&root, &mkdir(Ino::ROOT, "top")).unwrap());
    session.deputy.made_elsewhere(top, at(0));
    let wants = session.offer(&create(top, "file"));
    assert_eq!(wants, Taken::WantsGrant { dir: top });
    let granted = session.server.grant(top);
    assert_eq!(session.deputy.recall(top, at(1)), Recalled::Over);
    session.deputy.granted(top, at(0), Some(granted), at(2));
    assert_eq!(session.deputy.granted_until(top), None);
    assert!(matches!(session.offer(&create(top, "file")), Taken::Ask(_)));
}

#[test]
fn a_grant_from_before_a_change_by_a_server_is_none() {
    let mut session = Session::new();
    let root = Credentials::ROOT;
    let top = ino_of(&session.server.ask(&root, &mkdir(Ino::ROOT, "top")).unwrap());
    session.deputy.made_elsewhere(top, at(0));
    assert_eq!(
        session.offer(&create(top, "one")),
        Taken::WantsGrant { dir: top }
    );
    // Another thread does not wait for it.
    let Taken::Ask(asked) = session.offer(&create(top, "two")) else {
        panic!("it is asked for once");
    };
    let granted = session.server.grant(top);
    session.server.ask(&root, &create(top, "two")).unwrap();
    session.deputy.was_asked(asked, None);
    session.deputy.granted(top, at(0), Some(granted), at(2));
    assert_eq!(session.deputy.granted_until(top), None);
}

#[test]
fn after_its_time_a_grant_is_sent_and_dropped() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "file")).unwrap();
    session.now += 20_000;
    assert!(matches!(
        session.offer(&create(top, "late")),
        Taken::Drain { .. }
    ));
    // The server has them no more, and says so.
    let batch = session.next_batch();
    let mut reply = session.server.batch(SHARD, batch);
    reply.incarnation = None;
    let lost = session
        .deputy
        .batch_answered(SHARD, at(session.now), Some(reply), at(session.now));
    assert!(lost.is_empty());
    assert!(matches!(session.offer(&lookup(top, "file")), Taken::Ask(_)));
    assert_eq!(session.deputy.granted_directories(), 0);
}

#[test]
fn batches_and_renewals_keep_grants() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let first = session.deputy.granted_until(top).unwrap();
    session.now += 5_000;
    session.ask(create(top, "file")).unwrap();
    session.drain();
    let second = session.deputy.granted_until(top).unwrap();
    assert!(second > first);
    let now = at(session.now + 5_000);
    let [(shard, incarnation)] = session.deputy.to_renew(now, |_| false)[..] else {
        panic!("it was used of late");
    };
    session.deputy.renewed(shard, incarnation, now, true);
    assert!(session.deputy.granted_until(top).unwrap() > second);
    assert_eq!(session.deputy.to_renew(now, |_| true), []);
    session.deputy.renewed(shard, incarnation, now, false);
    assert_eq!(session.deputy.granted_until(top), None);
}

#[test]
fn a_lost_server_gets_what_is_queued_and_grants_nothing_until_then() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "file")).unwrap();
    session.deputy.lost(ServerId(1), [ShardId(3)]);
    assert!(session.deputy.granted_until(top).is_some());
    session.deputy.lost(SERVER, [SHARD]);
    assert_eq!(session.deputy.granted_until(top), None);
    assert!(matches!(
        session.offer(&create(top, "next")),
        Taken::Drain { .. }
    ));
    session.drain();
    assert!(session.lost.is_empty());
    let root = Credentials::ROOT;
    assert!(session.server.ask(&root, &lookup(top, "file")).is_ok());
    session.ask(create(top, "next")).unwrap();
}

/// The conversation breaks in which the directory would be recalled; it is granted, and something is executed in it; the
/// next conversation begins, and the server takes all for given up that it has granted until then.
#[test]
fn nothing_is_granted_by_a_server_of_which_no_recalls_are_heard() {
    let mut session = Session::new();
    let root = Credentials::ROOT;
    let top = ino_of(&session.server.ask(&root, &mkdir(Ino::ROOT, "top")).unwrap());
    session.deputy.made_elsewhere(top, at(0));
    let asks = |session: &mut Session| match session.offer(&create(top, "file")) {
        Taken::Ask(asked) => {
            session.deputy.was_asked(asked, None);
            true
        }
        Taken::WantsGrant { .. } => false,
        other => panic!("{other:?}"),
    };
    session.deputy.lost(SERVER, [SHARD, ShardId(1)]);
    assert!(asks(&mut session));
    session.deputy.hears(ServerId(1));
    assert!(asks(&mut session), "that was another one");
    session.deputy.lost(ServerId(1), [ShardId(2)]);
    session.deputy.hears(SERVER);
    assert!(!asks(&mut session), "whichever shards it leads by now");
}

#[test]
fn an_open_file_stays_when_its_name_goes() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let kept = ino_of(&session.ask(create(top, "kept")).unwrap());
    let gone = ino_of(&session.ask(create(top, "gone")).unwrap());
    session.open.push(kept);
    session.ask(unlink(top, "kept")).unwrap();
    session.ask(unlink(top, "gone")).unwrap();
    let stat = |ino| Request::GetAttr(op::GetAttr { ino });
    let Ok(Reply::Inode(inode)) = answered(session.offer(&stat(kept))) else {
        panic!("an open file has attributes");
    };
    assert_eq!(inode.attr.nlink, 0);
    session.drain();
    assert!(matches!(session.offer(&stat(gone)), Taken::Ask(_)));
}

/// No server knows that it is open, and would free it.
#[test]
fn of_what_is_open_its_server_is_told_before_its_last_name_goes() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    let taken = session.deputy.offer(Offer {
        caller: &Credentials::ROOT,
        request: &unlink(top, "file"),
        now: at(session.now),
        clock: Time(session.server.time),
        random: 1,
        opened: &|_| Opened::Untold,
    });
    assert_eq!(taken, Taken::WantsOpens { ino: file });
    answered(session.offer(&lookup(top, "file"))).expect("it is there");
}

#[test]
fn what_may_move_a_directory_goes_by_itself() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    session.ask(create(top, "file")).unwrap();
    let remove = Request::Rmdir(op::Rmdir {
        dir: Ino::ROOT,
        name: Name::new(b"top").unwrap(),
    });
    // For the server it is empty.
    assert!(matches!(session.offer(&remove), Taken::Drain { .. }));
    session.drain();
    assert_eq!(session.offer(&remove), Taken::WantsGrant { dir: Ino::ROOT });
    session.deputy.granted(Ino::ROOT, at(0), None, at(0));
    let Taken::Ask(asked) = session.offer(&remove) else {
        panic!("the root is not granted");
    };
    // Nothing is made in it until it is known whether it is there.
    assert_eq!(session.offer(&create(top, "second")), Taken::Wait);
    let answer = session.server.ask(&Credentials::ROOT, &remove);
    assert_eq!(answer, Err(Refusal::Fs(FsError::NotEmpty)));
    session.deputy.was_asked(asked, None);
    answered(session.offer(&create(top, "second"))).unwrap();
}

#[test]
fn times_are_those_of_the_server_as_closely_as_they_are_known() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    // Asked for 20 ms before it came.
    let mut granted = session.server.grant(top);
    granted.terms.time = pandofs_types::Time(5_000_000_000);
    let came = session.now;
    session.deputy.recall(top, at(came));
    session.now += 60_000;
    session.deputy.made_elsewhere(top, at(session.now));
    assert!(matches!(
        session.offer(&create(top, "a")),
        Taken::WantsGrant { .. }
    ));
    let came = session.now;
    session
        .deputy
        .granted(top, at(came - 20), Some(granted), at(came));
    let (first, ..) = session.server.numbers(SHARD, false);
    session.deputy.took_numbers(SHARD, Some((first, 100, 0)));
    let made = |session: &mut Session, text: &str, clock: i64| {
        session.server.time = clock;
        let since = (session.now + 1 - came) as i64 * 1_000_000;
        let entry = answered(session.offer(&create(top, text))).unwrap();
        let Reply::Entry(entry) = entry else {
            panic!("{entry:?} is no entry");
        };
        entry.inode.unwrap().attr.mtime.0 - since
    };
    assert_eq!(
        made(&mut session, "b", 0),
        5_000_000_000,
        "not before it said so"
    );
    assert_eq!(made(&mut session, "c", 5_012_000_000), 5_010_000_000);
    assert_eq!(
        made(&mut session, "d", i64::MAX),
        5_020_000_000,
        "not after it was asked"
    );
}

/// Every shard that paths lead to has to know of such a change before its program does.
#[test]
fn what_changes_paths_is_asked_of_the_server() {
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    let set = |ino, set| Request::SetAttr(op::SetAttr { ino, set });
    let mode = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    let times = SetAttr {
        mtime: Some(SetTime::Now),
        ..SetAttr::default()
    };
    for (policy, is_early) in [(DirPolicy::Subtree, true), (DirPolicy::CrushPath, false)] {
        let mut session = Session::over(1, policy);
        let top = session.granted_dir("top");
        let mkdir = Request::Mkdir(op::Mkdir {
            dir: top,
            name: name("below"),
            mode: 0o755,
            umask: 0,
        });
        let Ok(Reply::Entry(below)) = session.ask(mkdir) else {
            panic!("no directory is made");
        };
        let rename = Request::Rename(op::Rename {
            dir: top,
            name: name("below"),
            new_dir: top,
            new_name: name("other"),
            new_shard: below.shard,
            no_replace: false,
            whiteout: false,
        });
        assert!(matches!(
            session.offer(&set(below.ino, times.clone())),
            Taken::Answered(Ok(_))
        ));
        session.drain();
        for request in [set(below.ino, mode.clone()), rename] {
            let taken = session.offer(&request);
            let answered = matches!(taken, Taken::Answered(Ok(_)));
            assert_eq!(answered, is_early, "{request:?}: {taken:?}");
            session.drain();
        }
    }
}
