//! State of one file's data: layout, size, and writes that the inode's shard does not have yet.

mod failures;
mod turns;

pub(crate) use failures::NO_HANDLE;

use crate::error::ClientError;
use crate::limits::MAX_WRITES_BEHIND_PER_FILE;
use crate::stay::Stay;
use failures::Failures;
use pandofs_api::{FIRST_TRUNCATIONS, FileBody, InodeReply, Layout};
use pandofs_types::{Attr, Capabilities, Credentials, Ino, Time};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use turns::Turns;

/// The place of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// It is no file and has none.
    None,
    /// In the inode; in data objects of this layout once it outgrows it.
    Inline(Layout),
    Striped(Layout),
}

impl From<&FileBody> for Body {
    fn from(body: &FileBody) -> Body {
        match body {
            FileBody::None => Body::None,
            FileBody::Inline { layout, .. } => Body::Inline(*layout),
            FileBody::Striped(layout) | FileBody::Sparse(layout) => Body::Striped(*layout),
        }
    }
}

/// A change of data objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// These bytes of the file were written.
    Bytes(Range<u64>),
    /// These were, where the shard had made the file longer for them.
    Granted(Range<u64>),
    /// Space was reserved or given back; the file ends no sooner than this.
    Space { end: u64 },
}

/// Written to data objects and not yet reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Offset of the first byte written; 0 if it was no write.
    pub start: u64,
    /// Offset of the last byte written plus one.
    pub end: u64,
    /// There may be holes, or space beyond the file's end.
    pub sparse: bool,
    /// All of it was written where the shard had made the file longer for it.
    pub granted: bool,
    /// The data objects had followed so many truncations of the file when they took the last of it.
    pub truncations: u32,
    pub mtime: Time,
    /// The first writer of those that may not keep the file's set-id bits; the last one if all may.
    pub caller: Credentials,
    /// The time of the first of these writes.
    pub since: Instant,
}

/// A write that was answered and is on its way to the data objects.
#[derive(Debug)]
struct WriteBehind {
    range: Range<u64>,
    /// It began beyond where the file ended then.
    sparse: bool,
    mtime: Time,
    caller: Credentials,
}

/// Taken before a request and handed back with its answer, tells whether another answer about the
/// same file came in between: then it is unknown which one is the newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token(u64);

#[derive(Debug)]
struct Known {
    body: Body,
    /// At the shard, when it was last heard of, as is the size.
    mode: u16,
    size: u64,
    /// False when answers overtook one another: ask before relying on the size.
    certain: bool,
    /// Grows with every answer; starts at 1 so that no default token fits.
    generation: u64,
    /// Of the file, when it was heard of last.
    truncations: u32,
    pending: Option<Pending>,
    /// No two of them overlap.
    writes_behind: Vec<WriteBehind>,
    /// Failures of acknowledged writes.
    failures: Failures,
    turns: Turns,
}

impl Known {
    /// The file's end, counting writes that are not reported.
    fn end(&self) -> u64 {
        let written = self.pending.as_ref().map_or(0, |pending| pending.end);
        let behind = self.writes_behind.iter().map(|write| write.range.end).max();
        self.size.max(written).max(behind.unwrap_or(0))
    }

    /// Writes are added in any order. (A has written before a truncation and stands still; B writes after
    /// it; A's write is added to B's. Were it not for the truncation taken to be gone, what the truncation took
    /// away would be reported with what B wrote, and come back as zeros.)
    fn add_pending(&mut self, write: Pending) {
        self.forget_truncation(write.truncations);
        match &mut self.pending {
            Some(pending) if pending.truncations > write.truncations => {}
            Some(pending) => {
                pending.start = pending.start.min(write.start);
                pending.end = pending.end.max(write.end);
                pending.sparse |= write.sparse;
                pending.granted &= write.granted;
                pending.mtime = pending.mtime.max(write.mtime);
                // The write that takes set-id bits off is the one to report, whichever came after
                // it.
                if pending.caller.has(Capabilities::FSETID) {
                    pending.caller = write.caller;
                }
            }
            none => *none = Some(write),
        }
    }

    /// Forgets writes that were cut away since: the shard would change nothing for a report of it.
    fn forget_truncation(&mut self, now: u32) {
        self.pending.take_if(|pending| pending.truncations < now);
    }
}

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o0010;

/// Set-group-id without the group's right to execute stays only if the writer is in the group.
pub(crate) fn groups_decide(mode: u16) -> bool {
    mode & (SET_GID | GROUP_EXECUTES) == SET_GID
}

/// Returns whether programs act as the file's owner or group when it is run.
pub(crate) fn has_set_id(mode: u16) -> bool {
    mode & (SET_UID | SET_GID) != 0
}

/// The file's state at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub body: Body,
    pub certain: bool,
    /// The file's end, counting writes that are not reported.
    pub end: u64,
    /// Cuts of the file when it was heard of last.
    pub truncations: u32,
    pub token: Token,
}

#[derive(Debug)]
pub(crate) struct File {
    pub ino: Ino,
    pub stay: Stay,
    known: Mutex<Known>,
    /// Something that may be waited for ([`turns`]) has come to its end.
    settled: Condvar,
}

impl File {
    pub(crate) fn new(ino: Ino, inode: &InodeReply) -> File {
        let known = Known {
            body: Body::from(&inode.body),
            mode: inode.attr.mode,
            size: inode.attr.size,
            certain: true,
            generation: 1,
            truncations: inode.truncations,
            pending: None,
            writes_behind: Vec::new(),
            failures: Failures::default(),
            turns: Turns::default(),
        };
        File {
            ino,
            stay: Stay::default(),
            known: Mutex::new(known),
            settled: Condvar::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let known = self.known();
        Snapshot {
            body: known.body,
            certain: known.certain,
            end: known.end(),
            truncations: known.truncations,
            token: Token(known.generation),
        }
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.known().generation)
    }

    /// Takes in an answer to a request that was sent when `token` was taken.
    pub(crate) fn learn(&self, token: Token, inode: &InodeReply) {
        let mut known = self.known();
        let body = Body::from(&inode.body);
        known.mode = inode.attr.mode;
        if known.generation == token.0 {
            known.size = inode.attr.size;
            known.certain = true;
            known.body = body;
        } else {
            known.certain = false;
            // A file never goes back from data objects into its inode.
            if matches!(body, Body::Striped(_)) {
                known.body = body;
            }
        }
        known.generation += 1;
        known.truncations = inode.truncations;
        known.forget_truncation(inode.truncations);
    }

    /// The permission bits when they were heard of last.
    pub(crate) fn mode(&self) -> u16 {
        self.known().mode
    }

    /// The file is striped.
    pub(crate) fn striped(&self, layout: Layout) {
        let mut known = self.known();
        known.body = Body::Striped(layout);
        known.truncations = known.truncations.max(FIRST_TRUNCATIONS);
    }

    /// Returns whether there are writes that were never reported to the shard.
    pub(crate) fn has_unknown_writes(&self) -> bool {
        let known = self.known();
        !known.writes_behind.is_empty()
            || known
                .pending
                .as_ref()
                .is_some_and(|pending| !pending.granted)
    }

    /// Begins a write that is answered before its servers have it, if there may be one more; the
    /// caller is answered afterwards. Waits for those that write some of the same bytes.
    ///
    /// # Errors
    /// Those of [`File::await_write_behind`].
    pub(crate) fn begin_write_behind(
        &self,
        range: Range<u64>,
        mtime: Time,
        caller: &Credentials,
    ) -> Result<bool, ClientError> {
        let mut known = self.settle(&range)?;
        if known.writes_behind.len() >= MAX_WRITES_BEHIND_PER_FILE {
            return Ok(false);
        }
        let sparse = range.start > known.end();
        known.writes_behind.push(WriteBehind {
            range,
            sparse,
            mtime,
            caller: caller.clone(),
        });
        Ok(true)
    }

    /// Ends the write that begins at `start`: its bytes are in the data objects, or not. What is so
    /// from now on was so to readers since it began, so that the file never ends sooner in between.
    pub(crate) fn end_write_behind(&self, start: u64, result: Result<u32, ClientError>) {
        let mut known = self.known();
        let place = known
            .writes_behind
            .iter()
            .position(|w| w.range.start == start);
        let Some(write) = place.map(|place| known.writes_behind.swap_remove(place)) else {
            panic!("a write at {start} of inode {} ends twice", self.ino);
        };
        match result {
            Ok(truncations) => known.add_pending(Pending {
                start: write.range.start,
                end: write.range.end,
                sparse: write.sparse,
                granted: false,
                truncations,
                mtime: write.mtime,
                caller: write.caller,
                since: Instant::now(),
            }),
            Err(error) => known.failures.fail(error),
        }
        self.has_settled(known);
    }

    /// Waits until the servers have what was written to these bytes and answered before.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone ([`crate::Cancellation`]).
    pub(crate) fn await_write_behind(&self, range: &Range<u64>) -> Result<(), ClientError> {
        self.settle(range).map(drop)
    }

    fn settle(&self, range: &Range<u64>) -> Result<MutexGuard<'_, Known>, ClientError> {
        self.wait_while(|known| {
            let overlaps = |w: &WriteBehind| w.range.start < range.end && range.start < w.range.end;
            known.writes_behind.iter().any(overlaps)
        })
    }

    /// Data objects were written to that had followed so many truncations.
    pub(crate) fn wrote(
        &self,
        written: Written,
        truncations: u32,
        mtime: Time,
        caller: &Credentials,
    ) {
        let mut known = self.known();
        let known_end = known.end();
        let granted = matches!(written, Written::Granted(_));
        let (start, end, sparse) = match written {
            Written::Bytes(range) => (range.start, range.end, range.start > known_end),
            Written::Granted(range) => (range.start, range.end, false),
            Written::Space { end } => (0, end, true),
        };
        known.add_pending(Pending {
            start,
            end,
            sparse,
            granted,
            truncations,
            mtime,
            caller: caller.clone(),
            since: Instant::now(),
        });
    }

    /// The changes to report. They stay pending until [`File::reported`], so that attributes that
    /// come in meanwhile are still corrected by them.
    pub(crate) fn pending(&self) -> Option<Pending> {
        self.known().pending.clone()
    }

    /// `report` has reached the shard, or there is no one to report to any more. What was written
    /// since stays pending.
    pub(crate) fn reported(&self, report: &Pending) {
        let mut known = self.known();
        if known.pending.as_ref() == Some(report) {
            known.pending = None;
        }
    }

    /// Corrects attributes from the shard by what it does not know yet.
    pub(crate) fn correct(&self, attr: &mut Attr) {
        let known = self.known();
        let pending = known.pending.iter().map(|p| (p.end, p.mtime));
        let behind = known.writes_behind.iter().map(|w| (w.range.end, w.mtime));
        for (end, mtime) in pending.chain(behind) {
            attr.size = attr.size.max(end);
            attr.mtime = attr.mtime.max(mtime);
            attr.ctime = attr.ctime.max(mtime);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
