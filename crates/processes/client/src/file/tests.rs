//! Files as writers and answers change them.

use super::*;
use pandofs_types::{FileKind, FsError, ServerId};

const LAYOUT: Layout = Layout {
    unit: 4_096,
    count: 1,
    first: ServerId(0),
    servers: 1,
};

fn inode(size: u64, body: FileBody) -> InodeReply {
    let attr = Attr {
        ino: Ino(5),
        kind: FileKind::File,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size,
        blocks: 0,
        atime: Time(0),
        mtime: Time(10),
        ctime: Time(10),
        btime: Time(0),
        has_xattrs: false,
    };
    InodeReply {
        attr,
        body,
        dir: None,
        truncations: 0,
    }
}

fn inline(size: u64) -> InodeReply {
    inode(
        size,
        FileBody::Inline {
            data: Vec::new(),
            layout: LAYOUT,
        },
    )
}

pub(super) fn striped(size: u64) -> InodeReply {
    inode(size, FileBody::Striped(LAYOUT))
}

#[test]
fn answers_that_overtook_one_another_leave_the_size_uncertain() {
    let file = File::new(Ino(5), &striped(20));
    let (first, second) = (file.token(), file.token());
    file.learn(first, &striped(10));
    assert!(file.snapshot().certain);
    file.learn(second, &striped(20));
    assert!(!file.snapshot().certain);
    file.learn(file.token(), &striped(10));
    let known = file.snapshot();
    assert!(known.certain);
    assert_eq!(known.end, 10);
}

#[test]
fn a_late_answer_does_not_take_a_file_back_into_its_inode() {
    let file = File::new(Ino(5), &inline(20));
    let before = file.token();
    file.learn(file.token(), &striped(9_000));
    file.learn(before, &inline(20));
    assert_eq!(file.snapshot().body, Body::Striped(LAYOUT));
    let file = File::new(Ino(5), &inline(20));
    file.learn(file.token(), &inline(20));
    file.learn(Token::default(), &striped(9_000));
    assert_eq!(file.snapshot().body, Body::Striped(LAYOUT));
}

#[test]
fn what_was_written_during_a_report_stays_pending() {
    let file = File::new(Ino(5), &striped(100));
    file.wrote(Written::Bytes(0..500), 1, Time(20), &Credentials::ROOT);
    file.wrote(Written::Bytes(0..300), 1, Time(30), &Credentials::ROOT);
    assert_eq!(file.snapshot().end, 500);
    let report = file.pending().unwrap();
    assert_eq!((report.end, report.mtime), (500, Time(30)));
    file.wrote(Written::Bytes(0..600), 1, Time(31), &Credentials::ROOT);
    file.reported(&report);
    let report = file.pending().unwrap();
    assert_eq!(report.end, 600);
    file.reported(&report);
    assert_eq!(file.pending(), None);
    assert_eq!(file.snapshot().end, 100);
}

#[test]
fn whose_writing_takes_set_id_bits_off_is_told_of() {
    let user = Credentials::user(7, 7, vec![9]);
    let by = |writers: &[&Credentials]| {
        let file = File::new(Ino(5), &striped(100));
        for writer in writers {
            file.wrote(Written::Bytes(0..500), 1, Time(20), writer);
        }
        file.pending().unwrap().caller
    };
    assert_eq!(by(&[&Credentials::ROOT]), Credentials::ROOT);
    assert_eq!(by(&[&Credentials::ROOT, &user]), user);
    assert_eq!(by(&[&user, &Credentials::ROOT]), user);
}

#[test]
fn groups_decide_of_set_group_id_that_nobody_may_execute() {
    let with = |mode| {
        let mut inode = inline(20);
        inode.attr.mode = mode;
        inode
    };
    let file = File::new(Ino(5), &with(0o2755));
    assert!(!groups_decide(file.mode()));
    file.learn(file.token(), &with(0o2745));
    assert!(groups_decide(file.mode()));
    file.learn(file.token(), &with(0o745));
    assert!(!groups_decide(file.mode()));
}

#[test]
fn writes_beyond_the_end_and_changes_of_space_make_a_file_sparse() {
    let pending = |writes: &[Written]| {
        let file = File::new(Ino(5), &striped(100));
        for written in writes {
            file.wrote(written.clone(), 1, Time(20), &Credentials::ROOT);
        }
        file.pending().unwrap()
    };
    let gapless = pending(&[Written::Bytes(100..200), Written::Bytes(200..300)]);
    assert_eq!((gapless.start, gapless.end), (100, 300));
    assert!(!gapless.sparse);
    assert!(pending(&[Written::Bytes(100..200), Written::Bytes(201..300)]).sparse);
    assert!(pending(&[Written::Bytes(101..200), Written::Bytes(0..300)]).sparse);
    let punched = pending(&[Written::Space { end: 0 }]);
    assert!(punched.sparse && punched.end == 0);
}

#[test]
fn only_what_the_shard_knows_of_need_not_be_reported_before_an_append() {
    let file = File::new(Ino(5), &striped(100));
    assert!(!file.has_unknown_writes());
    file.wrote(Written::Granted(100..110), 1, Time(20), &Credentials::ROOT);
    assert!(!file.has_unknown_writes());
    file.wrote(Written::Bytes(0..5), 1, Time(20), &Credentials::ROOT);
    file.wrote(Written::Granted(110..120), 1, Time(20), &Credentials::ROOT);
    assert!(file.has_unknown_writes());
}

#[test]
fn what_is_on_its_way_counts_and_is_reported_when_it_is_there() {
    let file = File::new(Ino(5), &striped(100));
    let begin = |range, mtime| {
        file.begin_write_behind(range, Time(mtime), &Credentials::ROOT)
            .unwrap()
    };
    assert!(begin(100..200, 20));
    assert!(begin(200..300, 21));
    assert!(file.has_unknown_writes());
    assert_eq!(file.pending(), None);
    assert_eq!(file.snapshot().end, 300);
    let mut attr = striped(100).attr;
    file.correct(&mut attr);
    assert_eq!((attr.size, attr.mtime), (300, Time(21)));
    // The later one is there first: that leaves no hole.
    file.end_write_behind(200, Ok(1));
    file.end_write_behind(100, Ok(1));
    let report = file.pending().unwrap();
    assert_eq!((report.start, report.end), (100, 300));
    assert!(!report.sparse);
    assert!(begin(301..400, 22));
    file.end_write_behind(301, Ok(1));
    assert!(file.pending().unwrap().sparse);
}

#[test]
fn only_so_many_are_on_their_way() {
    let file = File::new(Ino(5), &striped(100));
    let begin = |at| {
        file.begin_write_behind(at..at + 1, Time(20), &Credentials::ROOT)
            .unwrap()
    };
    for at in 0..MAX_WRITES_BEHIND_PER_FILE as u64 {
        assert!(begin(at));
    }
    assert!(!begin(50));
    file.end_write_behind(1, Ok(1));
    assert!(begin(50));
}

#[test]
fn what_came_to_nothing_is_told_once_and_does_not_make_the_file_longer() {
    let file = File::new(Ino(5), &striped(100));
    assert!(
        file.begin_write_behind(100..200, Time(20), &Credentials::ROOT)
            .unwrap()
    );
    file.end_write_behind(100, Err(FsError::NoSpace.into()));
    assert_eq!(file.snapshot().end, 100);
    assert_eq!(file.pending(), None);
    let failure = file.take_failure(NO_HANDLE).unwrap_err();
    assert!(
        matches!(failure, ClientError::Fs(FsError::NoSpace)),
        "{failure}"
    );
    assert!(file.take_failure(NO_HANDLE).is_ok());
}

#[test]
fn who_needs_the_same_bytes_waits() {
    let file = File::new(Ino(5), &striped(100));
    assert!(
        file.begin_write_behind(0..100, Time(20), &Credentials::ROOT)
            .unwrap()
    );
    file.await_write_behind(&(100..200)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            file.await_write_behind(&(99..100)).unwrap();
            file.pending().is_some()
        });
        turns::await_waiting(&file, 1);
        file.end_write_behind(0, Ok(1));
        assert!(waiting.join().unwrap(), "it did not wait");
    });
}

#[test]
fn who_is_not_wanted_any_more_does_not_wait() {
    let file = File::new(Ino(5), &striped(100));
    assert!(
        file.begin_write_behind(0..100, Time(20), &Credentials::ROOT)
            .unwrap()
    );
    let waited = turns::as_killed(|| file.await_write_behind(&(99..100)));
    assert_eq!(waited, Err(ClientError::Abandoned));
    assert!(file.has_unknown_writes(), "the write goes on");
}

#[test]
fn what_was_written_before_a_cut_is_forgotten_after_it() {
    let file = File::new(Ino(5), &striped(100));
    let wrote = |end, truncations| {
        file.wrote(
            Written::Bytes(0..end),
            truncations,
            Time(20),
            &Credentials::ROOT,
        );
        file.pending()
            .map(|pending| (pending.end, pending.truncations))
    };
    let learn = |truncations| {
        let inode = InodeReply {
            truncations,
            ..striped(100)
        };
        file.learn(file.token(), &inode);
        file.snapshot().end
    };
    assert_eq!(wrote(500, 7), Some((500, 7)));
    assert_eq!(wrote(400, 7), Some((500, 7)));
    assert_eq!(learn(7), 500);
    assert_eq!(learn(8), 100);
    assert_eq!(file.pending(), None);
    // It may also be heard of by a later write.
    assert_eq!(wrote(500, 8), Some((500, 8)));
    assert_eq!(wrote(300, 9), Some((300, 9)));
    assert_eq!(wrote(600, 8), Some((300, 9)));
}

/// It stood still between the end of the write and here.
#[test]
fn what_was_written_before_a_cut_is_not_added_to_what_was_written_after_it() {
    let ended = |file: &File| {
        file.pending()
            .map(|pending| (pending.end, pending.truncations))
    };
    let wrote = |file: &File, end, truncations| {
        file.wrote(
            Written::Bytes(0..end),
            truncations,
            Time(20),
            &Credentials::ROOT,
        );
    };
    let file = File::new(Ino(5), &striped(100));
    let begun = file.begin_write_behind(400..500, Time(20), &Credentials::ROOT);
    assert!(begun.unwrap());
    wrote(&file, 300, 8);
    wrote(&file, 500, 7);
    assert_eq!(ended(&file), Some((300, 8)));
    file.end_write_behind(400, Ok(7));
    assert_eq!(ended(&file), Some((300, 8)));
}

#[test]
fn attributes_count_what_the_shard_does_not_know() {
    let file = File::new(Ino(5), &striped(100));
    let mut attr = striped(100).attr;
    file.correct(&mut attr);
    assert_eq!(attr, striped(100).attr);
    file.wrote(Written::Bytes(0..500), 1, Time(20), &Credentials::ROOT);
    file.correct(&mut attr);
    assert_eq!(
        (attr.size, attr.mtime, attr.ctime),
        (500, Time(20), Time(20))
    );
}
