//! Answers to requests: each is given once, by any thread, early or late.

use crate::attr::{Entry, FileAttr, FileType};
use crate::bytes::Writer;
use crate::device::Device;
use crate::errno::Errno;
use crate::listing::Listing;
use crate::readers::Seat;
use crate::request::{FileHandle, Header, RequestId, opcode};
use crate::ring::Slot;
use crate::spares::Host;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The answer to a request that is still to be given. One that is dropped is an `EIO`.
#[derive(Debug)]
pub struct Reply {
    request: Arc<UnderWay>,
}

/// A request under way, for code that handles it or waits in the course of it.
#[derive(Clone, Debug)]
pub struct Pending {
    request: Arc<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    unique: RequestId,
    way: Way,
    /// The session. A kept reply does not keep the file system.
    host: Weak<dyn Host>,
    state: Mutex<State>,
}

/// The way by which a request came, and its answer goes.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Device(Arc<Seat>),
    Ring(Arc<Slot>),
}

#[derive(Debug)]
struct State {
    answer: Answer,
    wait: Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The kernel waits for it.
    Open,
    /// The kernel takes no answer but an error, and waits for none: an interrupt.
    Optional,
    Given,
    /// By [`Pending::answer_early`]: the reply is swallowed.
    GivenEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    No,
    /// The thread has given away its turn.
    Brief,
    /// Another thread takes requests meanwhile.
    Long,
    /// The thread that took the request takes others again.
    Over,
}

/// The answer to statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    /// In units of `block` bytes.
    pub blocks: u64,
    /// In units of `block` bytes.
    pub free: u64,
    /// For users other than the superuser, in units of `block` bytes.
    pub available: u64,
    /// In use and free.
    pub inodes: u64,
    /// Inodes that can still be made.
    pub free_inodes: u64,
    /// Bytes.
    pub block: u32,
    /// Longest name of an entry.
    pub max_name_bytes: u32,
}

impl Reply {
    pub(crate) fn new(header: &Header, way: Way, host: Weak<dyn Host>) -> Reply {
        let answer = match header.opcode {
            // Over a ring any answer is taken: it frees the entry.
            _ if matches!(way, Way::Ring(_)) => Answer::Open,
            opcode::FORGET | opcode::BATCH_FORGET => Answer::Given,
            opcode::INTERRUPT => Answer::Optional,
            _ => Answer::Open,
        };
        let wait = Wait::No;
        Reply {
            request: Arc::new(UnderWay {
                unique: header.unique,
                way,
                host,
                state: Mutex::new(State { answer, wait }),
            }),
        }
    }

    /// The request that it is for.
    pub fn pending(&self) -> Pending {
        Pending {
            request: Arc::clone(&self.request),
        }
    }

    fn tells_of(&self, attr: &FileAttr) {
        if let (Way::Ring(slot), FileType::RegularFile) = (&self.request.way, attr.kind) {
            slot.tells_of(attr.ino);
        }
    }

    fn send(&self, parts: &[&[u8]]) {
        self.request.give(None, parts);
    }

    fn send_struct(&self, fill: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::new();
        fill(&mut writer);
        self.send(&[writer.as_bytes()]);
    }

    /// For any request; nothing else may be said of it.
    pub fn error(self, error: Errno) {
        self.request.give(Some(error), &[]);
    }

    /// It is done, and there is nothing to tell.
    pub fn ok(self) {
        self.send(&[]);
    }

    /// It is done, or not.
    pub fn done(self, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.ok(),
            Err(error) => self.error(error),
        }
    }

    /// Bytes of a file, a link or an attribute, or names of attributes.
    pub fn data(self, bytes: &[u8]) {
        self.send(&[bytes]);
    }

    /// To `Readdir` and `Readdirplus`; empty where the directory ends.
    pub fn listing(self, listing: &Listing) {
        self.send(&[listing.as_bytes()]);
    }

    /// To what looks up or makes a name; the kernel counts it as one more lookup.
    pub fn entry(self, entry: &Entry) {
        self.tells_of(&entry.attr);
        self.send_struct(|to| entry.encode(to));
    }

    /// To `Getattr` and `Setattr`; the kernel may cache it for so long.
    pub fn attr(self, attr: &FileAttr, timeout: Duration) {
        self.send_struct(|to| attr.encode_answer(timeout, to));
    }

    /// To `Statx`; the kernel may cache it for so long.
    pub fn statx(self, attr: &FileAttr, timeout: Duration) {
        self.send_struct(|to| attr.encode_statx(timeout, to));
    }

    /// `flags`: of [`crate::abi::open`].
    pub fn opened(self, handle: FileHandle, flags: u32) {
        self.send_struct(|to| encode_opened(handle, flags, to));
    }

    /// To `Create` and `Tmpfile`. `flags`: `FOPEN_` bits of the kernel.
    pub fn created(self, entry: &Entry, handle: FileHandle, flags: u32) {
        self.tells_of(&entry.attr);
        self.send_struct(|to| {
            entry.encode(to);
            encode_opened(handle, flags, to);
        });
    }

    /// So many bytes were written.
    pub fn written(self, bytes: u32) {
        self.send_struct(|to| {
            to.u32(bytes).u32(0);
        });
    }

    /// To `Statfs`.
    pub fn statfs(self, space: &Statfs) {
        self.send_struct(|to| encode_statfs(space, to));
    }

    /// An attribute, or the names of all, take so many bytes.
    pub fn xattr_size(self, bytes: u32) {
        self.send_struct(|to| {
            to.u32(bytes).u32(0);
        });
    }

    /// The lock that is in the way; one of type `F_UNLCK` if none is.
    pub fn lock(self, (first, last): (u64, u64), typ: i32, pid: u32) {
        self.send_struct(|to| {
            to.u64(first).u64(last).i32(typ).u32(pid);
        });
    }

    /// The position that lseek(2) finds.
    pub fn offset(self, offset: u64) {
        self.send_struct(|to| {
            to.u64(offset);
        });
    }

    /// An `ioctl` returned 0 and these bytes.
    pub fn ioctl(self, bytes: &[u8]) {
        let mut head = Writer::new();
        head.i32(0).zeros(12);
        self.send(&[head.as_bytes(), bytes]);
    }

    pub(crate) fn init(self, answer: &Writer) {
        self.send(&[answer.as_bytes()]);
    }
}

/// `struct fuse_open_out`.
fn encode_opened(handle: FileHandle, flags: u32, to: &mut Writer) {
    to.u64(handle.0).u32(flags).u32(0);
}

/// `struct fuse_statfs_out`.
fn encode_statfs(space: &Statfs, to: &mut Writer) {
    to.u64(space.blocks).u64(space.free).u64(space.available);
    to.u64(space.inodes).u64(space.free_inodes);
    to.u32(space.block)
        .u32(space.max_name_bytes)
        .u32(space.block)
        .zeros(7 * 4);
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.request.state().answer == Answer::Open {
            self.request.give(Some(Errno::EIO), &[]);
        }
    }
}

impl Pending {
    /// Its number.
    pub fn request(&self) -> RequestId {
        self.request.unique
    }

    /// Says that the request is about to wait for something. One of the threads that there are takes
    /// requests meanwhile. Does nothing when that or more was said before.
    pub fn waits(&self) {
        let mut state = self.request.state();
        if state.wait == Wait::No
            && let Some(host) = self.request.host.upgrade()
        {
            state.wait = Wait::Brief;
            host.give_turn_away(&self.request.way);
        }
    }

    /// Says that the request waits for something that may take long. Until the thread that took it
    /// is done with it another one takes requests, as far as
    /// [`Threads::spare`](crate::Threads::spare) lets it. Does nothing when it was said before.
    pub fn waits_long(&self) {
        let mut state = self.request.state();
        if matches!(state.wait, Wait::No | Wait::Brief)
            && let Some(host) = self.request.host.upgrade()
        {
            state.wait = Wait::Long;
            host.begin_wait(&self.request.way);
        }
    }

    /// The thread that took the request is done with it; true if it has to
    /// [end a wait](crate::spares::Spares::end_wait).
    pub(crate) fn ends(&self) -> bool {
        let mut state = self.request.state();
        std::mem::replace(&mut state.wait, Wait::Over) == Wait::Long
    }

    /// Answers with an error, now; the [`Reply`] is swallowed later. Only if it is not answered
    /// yet and `prepare`, which is called before, says so, and not if it is a large write over
    /// io_uring. False if it was not answered by this.
    ///
    /// So a program that is killed need not wait for what has to be done all the same.
    pub fn answer_early(&self, error: Errno, prepare: impl FnOnce() -> bool) -> bool {
        let mut state = self.request.state();
        let may_be = match &self.request.way {
            Way::Device(_) => true,
            Way::Ring(slot) => slot.has_entry(),
        };
        if state.answer != Answer::Open || !may_be || !prepare() {
            return false;
        }
        state.answer = Answer::GivenEarly;
        drop(state);
        match &self.request.way {
            Way::Device(_) => self.request.transmit(Some(error), &[]),
            Way::Ring(slot) => {
                if let Some(entry) = slot.give_away(self.request.unique, error)
                    && let Some(host) = self.request.host.upgrade()
                {
                    host.send_early(slot, entry);
                }
            }
        }
        true
    }

    /// Returns whether it was answered by [`Self::answer_early`]: nobody hears of what comes of it,
    /// and the kernel keeps nothing that it would be given.
    pub fn is_answered_early(&self) -> bool {
        self.request.state().answer == Answer::GivenEarly
    }
}

impl UnderWay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the answer, unless one was given.
    fn give(&self, error: Option<Errno>, parts: &[&[u8]]) {
        let before = {
            let mut state = self.state();
            if state.answer == Answer::GivenEarly {
                return;
            }
            std::mem::replace(&mut state.answer, Answer::Given)
        };
        let is_sent = match before {
            Answer::Open => true,
            Answer::Optional => error.is_some(),
            Answer::Given | Answer::GivenEarly => false,
        };
        if is_sent {
            self.transmit(error, parts);
        }
    }

    fn transmit(&self, error: Option<Errno>, parts: &[&[u8]]) {
        let device = match &self.way {
            Way::Device(seat) => &seat.device,
            Way::Ring(slot) => return slot.answer(self.unique, error, parts),
        };
        match device.send_message(self.unique, error, parts) {
            Ok(()) => {}
            // The program was interrupted, or the file system is being unmounted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::debug!(unique = self.unique.0, "nobody waits for an answer");
            }
            Err(error) => {
                tracing::debug!(unique = self.unique.0, %error, "the kernel takes no answer");
            }
        }
    }
}

impl Device {
    /// Sends an answer: `struct fuse_out_header` and what follows it, in two parts at most.
    fn send_message(
        &self,
        unique: RequestId,
        error: Option<Errno>,
        parts: &[&[u8]],
    ) -> io::Result<()> {
        let number = error.map_or(0, |error| -error.number());
        self.send_with_header(unique.0, number, parts)
    }

    /// Sends a message: an answer, or one that answers no request, whose number is then 0.
    pub(crate) fn send_with_header(
        &self,
        unique: u64,
        error_or_code: i32,
        parts: &[&[u8]],
    ) -> io::Result<()> {
        /// The header and what follows.
        const MAX_PARTS: usize = 4;
        let head = header(unique, error_or_code, parts);
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        slices[0] = IoSlice::new(head.as_bytes());
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        assert!(parts.len() < MAX_PARTS);
        self.send(&slices[..=parts.len()])
    }
}

/// `struct fuse_out_header`.
pub(crate) fn header(unique: u64, error_or_code: i32, parts: &[&[u8]]) -> Writer {
    const HEADER_BYTES: usize = 16;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut head = Writer::new();
    head.u32((HEADER_BYTES + length) as u32)
        .i32(error_or_code)
        .u64(unique);
    head
}

#[cfg(test)]
mod tests;
