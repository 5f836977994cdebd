//! Times of writes soon after a file was made.

use crate::server::{Session, create, ino_of, write};
use pandofs_api::{Reply, Request, op};
use pandofs_deputy::limits::SAME_TIME;
use pandofs_types::{Attr, Credentials, Ino, SetAttr};

const WAIT_MS: u64 = SAME_TIME.as_millis() as u64;

fn attr(reply: Reply) -> Attr {
    match reply {
        Reply::Entry(entry) => entry.inode.expect("it is told with its attributes").attr,
        Reply::Inode(inode) => inode.attr,
        other => panic!("{other:?} has no attributes"),
    }
}

/// A session that has made a file, the file and its attributes then.
fn made() -> (Session, Ino, Attr) {
    let mut session = Session::new();
    let top = session.granted_dir("top");
    let made = session.ask(create(top, "file")).unwrap();
    let file = ino_of(&made);
    (session, file, attr(made))
}

/// Its shard comes to the same time.
fn is_stored(session: &mut Session, file: Ino, told: &Attr) {
    session.drain();
    assert_eq!(session.lost, []);
    let request = Request::GetAttr(op::GetAttr { ino: file });
    let stored = session.server.ask(&Credentials::ROOT, &request).unwrap();
    assert_eq!(attr(stored), *told);
}

#[test]
fn what_is_written_at_once_has_the_time_of_its_file() {
    let (mut session, file, made) = made();
    let first = attr(session.ask(write(file, 0, b"one")).unwrap());
    assert_eq!((first.mtime, first.ctime), (made.mtime, made.ctime));
    assert_eq!(first.size, 3);
    let second = attr(session.ask(write(file, 3, b"two")).unwrap());
    assert_eq!((second.mtime, second.ctime), (made.mtime, made.ctime));
    is_stored(&mut session, file, &second);
}

#[test]
fn what_is_written_later_has_a_time_of_its_own() {
    let (mut session, file, made) = made();
    session.now += WAIT_MS;
    let told = attr(session.ask(write(file, 0, b"one")).unwrap());
    assert!(told.mtime > made.mtime && told.ctime == told.mtime);
    is_stored(&mut session, file, &told);
}

/// Else the attributes that were changed in between would be taken for what they were.
#[test]
fn what_is_written_after_another_change_has_a_time_of_its_own() {
    let (mut session, file, made) = made();
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    let set = Request::SetAttr(op::SetAttr { ino: file, set });
    let changed = attr(session.ask(set).unwrap());
    assert!(changed.ctime > made.ctime && changed.mtime == made.mtime);
    let told = attr(session.ask(write(file, 0, b"one")).unwrap());
    assert!(told.mtime > changed.ctime && told.ctime == told.mtime);
    is_stored(&mut session, file, &told);
}
