//! Changes of a file's attributes, merged into one operation as long as they are queued.

use crate::server::{SHARD, Session, create, ino_of, mkdir, unlink, write};
use pandofs_api::op::EarlyOperation;
use pandofs_api::{FileBody, Reply, Request, op};
use pandofs_types::{Attr, Credentials, Ino, SetAttr, SetTime, Time};

fn set(ino: Ino, set: SetAttr) -> Request {
    Request::SetAttr(op::SetAttr { ino, set })
}

fn owner(ino: Ino) -> Request {
    set(
        ino,
        SetAttr {
            uid: Some(7),
            gid: Some(8),
            ..SetAttr::default()
        },
    )
}

fn mode(ino: Ino, mode: u16) -> Request {
    set(
        ino,
        SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        },
    )
}

fn times(ino: Ino, time: SetTime) -> Request {
    set(
        ino,
        SetAttr {
            atime: Some(time),
            mtime: Some(time),
            ..SetAttr::default()
        },
    )
}

fn attr(reply: Reply) -> Attr {
    match reply {
        Reply::Inode(inode) => inode.attr,
        other => panic!("{other:?} has no attributes"),
    }
}

/// Names of the operations that are sent next.
fn sent(session: &mut Session) -> Vec<&'static str> {
    let batch = session.next_batch();
    let names = batch.early.iter().map(|early| match early.operation {
        EarlyOperation::Create(_) => "create",
        EarlyOperation::Mkdir(_) => "mkdir",
        EarlyOperation::Unlink(_) => "unlink",
        EarlyOperation::SetAttr(_) => "setattr",
        EarlyOperation::WriteInline(_) => "write",
        _ => "another",
    });
    names.collect()
}

/// The attributes that the session last heard are those at the shard when all is sent.
fn sends_all(session: &mut Session, ino: Ino, heard: &Attr) {
    session.drain();
    assert_eq!(session.lost, []);
    let request = Request::GetAttr(op::GetAttr { ino });
    let stored = session.server.ask(&Credentials::ROOT, &request).unwrap();
    assert_eq!(attr(stored), *heard);
}

#[test]
fn what_tar_sets_is_one_operation() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    session.ask(write(file, 0, b"bytes")).unwrap();
    let at = SetTime::At(Time(5));
    session.ask(times(file, at)).unwrap();
    session.ask(create(top, "another")).unwrap();
    session.ask(owner(file)).unwrap();
    let heard = attr(session.ask(mode(file, 0o640)).unwrap());
    assert_eq!((heard.mode, heard.uid, heard.gid), (0o640, 7, 8));
    assert_eq!(heard.mtime, Time(5));
    assert_eq!(session.begun(SHARD), 4);
    sends_all(&mut session, file, &heard);
}

#[test]
fn nothing_is_merged_over_what_comes_in_between() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    session.ask(times(file, SetTime::At(Time(5)))).unwrap();
    session.ask(write(file, 0, b"bytes")).unwrap();
    let heard = attr(session.ask(mode(file, 0o640)).unwrap());
    assert_eq!(
        sent(&mut session),
        ["create", "setattr", "write", "setattr"]
    );
    assert!(heard.mtime > Time(5), "the write came after the time");
}

#[test]
fn what_is_under_way_stays_as_it_is() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    session.ask(owner(file)).unwrap();
    assert_eq!(sent(&mut session), ["create", "setattr"]);
    session.ask(mode(file, 0o640)).unwrap();
    assert_eq!(session.begun(SHARD), 3);
}

#[test]
fn a_time_that_is_now_and_set_id_bits_of_a_new_owner_are_their_own_operations() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    session.ask(times(file, SetTime::Now)).unwrap();
    session.ask(owner(file)).unwrap();
    let heard = attr(session.ask(mode(file, 0o4755)).unwrap());
    assert_eq!(session.begun(SHARD), 4);
    assert_eq!(heard.mode, 0o4755);
    sends_all(&mut session, file, &heard);
}

#[test]
fn directories_keep_each_change() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let dir = ino_of(&session.ask(mkdir(top, "dir")).unwrap());
    session.ask(owner(dir)).unwrap();
    session.ask(mode(dir, 0o700)).unwrap();
    session.ask(create(dir, "file")).unwrap();
    assert_eq!(
        sent(&mut session),
        ["mkdir", "setattr", "setattr", "create"]
    );
}

#[test]
fn a_file_that_gave_way_is_not_changed_before_that() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let file = ino_of(&session.ask(create(top, "file")).unwrap());
    session.open.push(file);
    session.ask(mode(file, 0o600)).unwrap();
    session.ask(unlink(top, "file")).unwrap();
    session.ask(owner(file)).unwrap();
    assert_eq!(
        sent(&mut session),
        ["create", "setattr", "unlink", "setattr"]
    );
}

fn append(ino: Ino, data: &[u8]) -> Request {
    Request::AppendInline(op::AppendInline {
        ino,
        data: data.to_vec(),
    })
}

/// A session that has appended to a file and written to it, the file, and what the session heard last of it.
fn logged() -> (Session, Ino, Attr) {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let log = ino_of(&session.ask(create(top, "log")).unwrap());
    let mut size = 0;
    for line in [&b"one "[..], b"two ", b"three "] {
        size += line.len() as u64;
        let told = attr(session.ask(append(log, line)).unwrap());
        assert_eq!(told.size, size);
    }
    // Not what is written elsewhere in it, or goes on behind an operation of another kind.
    session.ask(write(log, 0, b"ONE")).unwrap();
    session.ask(owner(log)).unwrap();
    let heard = attr(session.ask(append(log, b"four")).unwrap());
    (session, log, heard)
}

#[test]
fn what_goes_on_where_the_last_write_ended_is_one_operation() {
    let (mut session, _, _) = logged();
    let names = ["create", "write", "write", "setattr", "write"];
    assert_eq!(sent(&mut session), names);
}

#[test]
fn a_log_is_stored_as_it_was_appended_to() {
    let (mut session, log, heard) = logged();
    sends_all(&mut session, log, &heard);
    let read = Request::ReadInline(op::ReadInline { ino: log });
    match session.server.ask(&Credentials::ROOT, &read).unwrap() {
        Reply::Inode(inode) => match inode.body {
            FileBody::Inline { data, .. } => assert_eq!(data, b"ONE two three four"),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Its shard knows what to do with what is too much to be kept inline.
#[test]
fn an_append_that_does_not_fit_is_the_shards() {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let log = ino_of(&session.ask(create(top, "log")).unwrap());
    session.ask(append(log, b"one")).unwrap();
    let refused = session.ask(append(log, &vec![7; 1 << 20])).unwrap_err();
    assert!(format!("{refused:?}").contains("NotInline"), "{refused:?}");
}
