//! Turns of threads at taking requests from `/dev/fuse`.
//!
//! The kernel wakes threads that read the device in the order in which they began to. If all of them
//! did, each request would be another thread's, the one that has rested for longest: what it needs is
//! in no cache, and it frees memory that another thread allocates. So few threads have a turn, often
//! one; the others are in a line, of which the last that came is called first.
//!
//! - A thread whose request begins to wait gives its turn away. If it was the last turn, a thread of
//!   the line is called. One that has answered takes a turn if there is one, or gets in line.
//! - There are more turns, up to the number of processors, while reads find that requests of other
//!   programs were there before them (one program alone may be as quick, and is served no sooner by
//!   two threads); and while each request waits, so that threads need not call one another for each.
//!   There are fewer again after some requests that neither waited nor were there before. (Where few
//!   requests wait a second thread that reads costs more than a call for each that does: each of the
//!   kernel's requests wakes one of the two, also when the other would be back at once.)
//! - A thread may be held up where nobody says so: by a page that is read from disk, by a lock, for
//!   want of a processor. The [watch](Readers::watch) gives its turn away after
//!   [`MAX_TURN`](crate::limits::MAX_TURN). It sleeps while nothing is asked.

use crate::device::Device;
use crate::limits::{CALM_REQUESTS, MAX_TURN, QUEUED_READ, QUEUED_READS, WAITS_IN_A_ROW};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

/// States of a seat. It has a turn in two of them.
const WITHOUT_TURN: u8 = 0;
/// In the line, to be called.
const IN_LINE: u8 = 1;
/// Called to look whether it is to end.
const CALLED_TO_LOOK: u8 = 2;
/// With a turn, about to read or reading.
const READS: u8 = 3;
/// With a turn, and a request.
const HANDLES: u8 = 4;

/// One thread that takes requests, for all who have to do with its turn.
#[derive(Debug)]
pub(crate) struct Seat {
    pub device: Arc<Device>,
    is_spare: bool,
    thread: Thread,
    state: AtomicU8,
    /// Requests that it has taken; only the thread counts.
    taken: AtomicU64,
    /// The same when the watch looked last.
    seen: AtomicU64,
}

impl Seat {
    /// Of this thread.
    pub(crate) fn of(device: Arc<Device>, is_spare: bool) -> Arc<Seat> {
        Arc::new(Seat {
            device,
            is_spare,
            thread: thread::current(),
            state: AtomicU8::new(WITHOUT_TURN),
            taken: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        })
    }

    /// Changes the state if it is this one.
    fn goes(&self, from: u8, to: u8) -> bool {
        let changed = self.state.compare_exchange(from, to, SeqCst, SeqCst);
        changed.is_ok()
    }

    fn call(&self, to: u8) {
        self.state.store(to, SeqCst);
        self.thread.unpark();
    }
}

/// The turns of one session.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Turns at most for requests that do not wait.
    at_once: usize,
    /// Turns at most.
    most: usize,
    /// Turns that are out.
    turns: AtomicUsize,
    /// Turns that are to be out, if there are threads for them: one at least.
    wanted: AtomicUsize,
    /// Times that the last turn was given away, since a request that did not wait.
    waits: AtomicU32,
    line: Mutex<Line>,
    /// The watch sleeps until it is woken.
    is_watch_asleep: AtomicBool,
    watch: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct Line {
    /// The next to be called is the last.
    waiting: Vec<Arc<Seat>>,
    all: Vec<Arc<Seat>>,
    /// The file system is unmounted.
    is_over: bool,
}

/// A thread that takes requests, on that thread.
#[derive(Debug)]
pub(crate) struct Reader<'r> {
    readers: &'r Readers,
    pub seat: Arc<Seat>,
    /// Reads that found a request of another program at once, since one that had to wait.
    queued: u32,
    /// The last read found its request at once.
    was_there: bool,
    /// The thread that asked last, as the kernel numbers it.
    asked_by: u32,
    /// Requests since there was a reason for more turns.
    calm: u32,
}

impl Readers {
    /// Of so many threads, not counting spare ones, and so many processors.
    pub(crate) fn new(threads: usize, processors: usize) -> Readers {
        Readers {
            at_once: processors.clamp(1, threads),
            most: threads,
            turns: AtomicUsize::new(0),
            wanted: AtomicUsize::new(1),
            waits: AtomicU32::new(0),
            line: Mutex::default(),
            is_watch_asleep: AtomicBool::new(false),
            watch: OnceLock::new(),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread is one of them, until the value is dropped.
    pub(crate) fn join(&self, device: Arc<Device>, is_spare: bool) -> Reader<'_> {
        let seat = Seat::of(device, is_spare);
        self.line().all.push(Arc::clone(&seat));
        Reader {
            readers: self,
            seat,
            queued: 0,
            was_there: false,
            asked_by: 0,
            calm: 0,
        }
    }

    /// The request of this seat waits, or may: others are to be taken meanwhile.
    pub(crate) fn give_away(&self, seat: &Seat) {
        if seat.goes(HANDLES, WITHOUT_TURN) {
            self.give_back_turn();
        }
    }

    fn give_back_turn(&self) {
        if self.turns.fetch_sub(1, SeqCst) == 1 {
            if self.waits.fetch_add(1, SeqCst) + 1 >= WAITS_IN_A_ROW {
                self.want_one_more(self.most);
            }
            self.call_until(1);
        }
    }

    /// Takes a turn if there are fewer than there are to be.
    fn try_take(&self) -> bool {
        let wanted = self.wanted.load(SeqCst);
        let more = |turns: usize| (turns < wanted).then_some(turns + 1);
        self.turns.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// Gives a turn back if there are more than there are to be.
    fn try_give_back(&self) -> bool {
        let wanted = self.wanted.load(SeqCst);
        let fewer = |turns: usize| (turns > wanted).then(|| turns - 1);
        self.turns.load(SeqCst) > wanted && self.turns.fetch_update(SeqCst, SeqCst, fewer).is_ok()
    }

    fn want_one_more(&self, most: usize) {
        let more = |wanted: usize| (wanted < most).then_some(wanted + 1);
        // There are as many as may be, otherwise.
        let _ = self.wanted.fetch_update(SeqCst, SeqCst, more);
    }

    fn want_one_less(&self) {
        let fewer = |wanted: usize| (wanted > 1).then(|| wanted - 1);
        // It was the last one, otherwise.
        let _ = self.wanted.fetch_update(SeqCst, SeqCst, fewer);
    }

    /// Calls threads of the line until so many turns are out.
    ///
    /// A thread that finds no turn gets in line with the same lock and after a further look: either
    /// that look sees that turns were given back, or it is in line here.
    fn call_until(&self, turns: usize) {
        let mut line = self.line();
        while self.turns.load(SeqCst) < turns {
            let Some(next) = line.waiting.pop() else {
                return;
            };
            self.turns.fetch_add(1, SeqCst);
            next.call(READS);
        }
    }

    /// A request that waited for long has ended: a spare thread in the line may be one too many.
    pub(crate) fn let_spare_look(&self) {
        let mut line = self.line();
        if let Some(place) = line.waiting.iter().position(|seat| seat.is_spare) {
            line.waiting.remove(place).call(CALLED_TO_LOOK);
        }
    }

    /// The file system is unmounted: nobody waits for a turn.
    pub(crate) fn end(&self) {
        let mut line = self.line();
        line.is_over = true;
        for seat in line.waiting.drain(..) {
            seat.call(CALLED_TO_LOOK);
        }
        drop(line);
        if let Some(watch) = self.watch.get() {
            watch.unpark();
        }
    }

    /// Gives away turns of threads that are held up, until the file system is unmounted. To be run by
    /// one thread.
    pub(crate) fn watch(&self) {
        let this = self.watch.get_or_init(thread::current);
        assert_eq!(this.id(), thread::current().id(), "two threads watch");
        let mut is_quiet = false;
        while let Some(is_at_rest) = self.look() {
            if is_at_rest && is_quiet {
                // A thread that takes a request from now on sees this, or the look after it sees the thread.
                self.is_watch_asleep.store(true, SeqCst);
                match self.look() {
                    Some(true) => {
                        while self.is_watch_asleep.load(SeqCst) && !self.line().is_over {
                            thread::park();
                        }
                    }
                    Some(false) => {}
                    None => return,
                }
                self.is_watch_asleep.store(false, SeqCst);
            }
            is_quiet = is_at_rest;
            thread::park_timeout(MAX_TURN);
        }
    }

    /// Gives away turns of threads that have had a request since the last look. Returns whether none
    /// has taken one; `None` if it is over.
    fn look(&self) -> Option<bool> {
        let line = self.line();
        if line.is_over {
            return None;
        }
        let mut is_at_rest = true;
        let mut held_up = Vec::new();
        for seat in &line.all {
            let taken = seat.taken.load(SeqCst);
            let is_same = seat.seen.swap(taken, Relaxed) == taken;
            is_at_rest &= is_same;
            if seat.state.load(SeqCst) == HANDLES {
                is_at_rest = false;
                if is_same {
                    held_up.push(Arc::clone(seat));
                }
            }
        }
        drop(line);
        for seat in held_up {
            self.give_away(&seat);
        }
        Some(is_at_rest)
    }

    fn wake_watch(&self) {
        if self.is_watch_asleep.load(SeqCst)
            && self.is_watch_asleep.swap(false, SeqCst)
            && let Some(watch) = self.watch.get()
        {
            watch.unpark();
        }
    }
}

impl Reader<'_> {
    /// Waits for a turn, unless this thread has one. False if it is to end instead: the file system is
    /// unmounted, or `ends` says so, which is asked first and again before it waits.
    pub(crate) fn take_turn(&mut self, ends: impl Fn() -> bool) -> bool {
        let (readers, seat) = (self.readers, &self.seat);
        if ends() {
            return false;
        }
        if seat.state.load(SeqCst) == READS {
            return true;
        }
        loop {
            let mut line = readers.line();
            if line.is_over {
                return false;
            }
            if readers.try_take() {
                seat.state.store(READS, SeqCst);
                return true;
            }
            if ends() {
                return false;
            }
            seat.state.store(IN_LINE, SeqCst);
            line.waiting.push(Arc::clone(seat));
            drop(line);
            while seat.state.load(SeqCst) == IN_LINE {
                thread::park();
            }
            if seat.state.load(SeqCst) == READS {
                return true;
            }
        }
    }

    /// Takes a request by `read`, with the turn; it has it from then on.
    pub(crate) fn read<T>(
        &mut self,
        read: impl FnOnce() -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        assert_eq!(self.seat.state.load(Relaxed), READS, "it is not its turn");
        let begun = Instant::now();
        let Some(request) = read()? else {
            return Ok(None);
        };
        self.was_there = begun.elapsed() < QUEUED_READ;
        let taken = self.seat.taken.load(Relaxed) + 1;
        self.seat.taken.store(taken, SeqCst);
        self.seat.state.store(HANDLES, SeqCst);
        self.readers.wake_watch();
        Ok(Some(request))
    }

    /// The request is of this thread of a program, or of none (0).
    pub(crate) fn is_asked_by(&mut self, thread: u32) {
        let is_another = thread != 0 && thread != self.asked_by;
        if thread != 0 {
            self.asked_by = thread;
        }
        if self.was_there && !is_another {
            return;
        }
        if self.was_there {
            self.queued += 1;
            self.calm = 0;
            if self.queued >= QUEUED_READS {
                self.queued = 0;
                self.readers.want_one_more(self.readers.at_once);
                let wanted = self.readers.wanted.load(SeqCst);
                self.readers.call_until(wanted);
            }
        } else {
            self.queued = 0;
            self.calm += 1;
            if self.calm >= CALM_REQUESTS {
                self.calm = 0;
                self.readers.want_one_less();
            }
        }
    }

    /// The thread is done with its request. It keeps its turn if it has it and there are not too many.
    pub(crate) fn handled(&mut self) {
        let readers = self.readers;
        if !self.seat.goes(HANDLES, READS) {
            // It has waited.
            self.calm = 0;
            return;
        }
        if readers.waits.load(SeqCst) > 0 {
            readers.waits.store(0, SeqCst);
        }
        if readers.try_give_back() {
            self.seat.state.store(WITHOUT_TURN, SeqCst);
        }
    }
}

impl Drop for Reader<'_> {
    /// The thread ends, by a panic perhaps.
    fn drop(&mut self) {
        let state = self.seat.state.swap(WITHOUT_TURN, SeqCst);
        if state == READS || state == HANDLES {
            self.readers.give_back_turn();
        }
        let mut line = self.readers.line();
        line.all.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        let is_last = line.all.is_empty();
        drop(line);
        if is_last {
            self.readers.end();
        }
    }
}

#[cfg(test)]
mod tests;
