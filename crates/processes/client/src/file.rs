//! State of one file's data: layout, size, and writes that the inode's shard does not have yet.

mod failures;
mod first_bytes;
mod turns;

pub(crate) use failures::NO_HANDLE;

use crate::brought::Brought;
use crate::data::inline_range;
use crate::error::ClientError;
use crate::limits::MAX_WRITES_BEHIND_PER_FILE;
use crate::stay::Stay;
use failures::Failures;
use first_bytes::FirstBytes;
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
    /// Of the file, by the last answer.
    truncations: u32,
    pending: Option<Pending>,
    /// No two of them overlap.
    writes_behind: Vec<WriteBehind>,
    /// All of a new file, which no shard has yet.
    first_bytes: Option<FirstBytes>,
    /// The bytes that the last opening brought.
    brought: Option<Brought>,
    /// Failures of acknowledged writes.
    failures: Failures,
    turns: Turns,
}

impl Known {
    /// The file's end, counting writes that are not reported.
    fn end(&self) -> u64 {
        let written = self.pending.as_ref().map_or(0, |pending| pending.end);
        let behind = self.writes_behind.iter().map(|write| write.range.end).max();
        let first = self.first_bytes.as_ref().map_or(0, FirstBytes::end);
        self.size.max(written).max(behind.unwrap_or(0)).max(first)
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
    /// Truncations of the file by the last answer.
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
    /// Held while the first bytes are written out: requests wait for that meanwhile.
    writing_out: Mutex<()>,
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
            first_bytes: None,
            brought: None,
            failures: Failures::default(),
            turns: Turns::default(),
        };
        File {
            ino,
            stay: Stay::default(),
            known: Mutex::new(known),
            settled: Condvar::new(),
            writing_out: Mutex::default(),
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

    /// The permission bits by the last answer.
    pub(crate) fn mode(&self) -> u16 {
        self.known().mode
    }

    /// The file is striped.
    pub(crate) fn striped(&self, layout: Layout) {
        let mut known = self.known();
        known.body = Body::Striped(layout);
        known.truncations = known.truncations.max(FIRST_TRUNCATIONS);
    }

    /// Keeps what an opening has brought, in place of what an earlier one did.
    pub(crate) fn bring(&self, brought: Brought) {
        self.known().brought = Some(brought);
    }

    pub(crate) fn has_brought(&self) -> bool {
        self.known().brought.is_some()
    }

    /// A range of what an opening has brought, if the file is as it was then by these attributes; else that is dropped.
    pub(crate) fn brought_range(
        &self,
        attr: Option<&Attr>,
        offset: u64,
        length: usize,
    ) -> Option<Vec<u8>> {
        let mut known = self.known();
        let brought = known.brought.as_ref()?;
        let bytes = attr.and_then(|attr| Some((brought.bytes(attr)?, attr.size)));
        let range = bytes.map(|(data, size)| inline_range(data, size, offset, length));
        if range.is_none() {
            known.brought = None;
        }
        range
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

    /// Ends the write that begins at `start`: its bytes are in the data objects, or not. Readers have
    /// seen the file as it is now since the write began, so that it never ends sooner in between.
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

    /// `report` has reached the shard, or there is no one to report to any more. Later writes stay
    /// pending.
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
        let first = known.first_bytes.as_ref().map_or(0, FirstBytes::end);
        attr.size = attr.size.max(first);
    }
}

#[cfg(test)]
mod tests;
