//! Slot of a thread of a ring: the request that it has in hand, for the thread that answers it.

use super::entry::RingEntry;
use crate::errno::Errno;
use crate::request::RequestId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The request of one thread, and the answer to it, which any thread may put in.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The kernel's queue: the processor on which the program runs that asks.
    queue: u16,
    /// The inode that the request is about.
    node: AtomicU64,
    /// A regular file that the kernel was told of last, on any slot of the mount.
    regular: Arc<AtomicU64>,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Not there while the request is still looked at where the kernel has put it.
    entry: Option<RingEntry>,
    answer: Option<Answer>,
    /// The thread waits for the answer.
    is_waited_for: bool,
    /// The file system is unmounted.
    is_over: bool,
}

#[derive(Debug)]
enum Answer {
    /// In the entry.
    PutIn,
    /// For an entry that is not there.
    Kept {
        unique: u64,
        error: i32,
        bytes: Vec<u8>,
    },
    /// Another thread gives it, and has the entry.
    GivenAway,
}

/// The end of a request, for the thread that handled it.
#[derive(Debug)]
pub(crate) enum End {
    /// The answer is in the entry.
    Answered(RingEntry),
    /// Another thread has given the answer, and has the entry.
    GivenAway,
    /// Nobody waits for an answer any more.
    Over,
}

impl Slot {
    pub(crate) fn of_queue(queue: u16, regular: Arc<AtomicU64>) -> Slot {
        Slot {
            queue,
            node: AtomicU64::default(),
            regular,
            state: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// The answer tells the kernel of a regular file.
    pub(crate) fn tells_of(&self, file: u64) {
        // Only looked at where it is the same mostly: no line of memory goes to and fro.
        if self.regular.load(Ordering::Relaxed) != file {
            self.regular.store(file, Ordering::Relaxed);
        }
    }

    /// Inodes that the kernel knows, some of which may be regular files.
    pub(crate) fn known_files(&self) -> [u64; 2] {
        let known = [&self.node, &self.regular];
        known.map(|number| number.load(Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request about an inode begins. With its entry, unless it is still looked at there.
    pub(crate) fn begin(&self, node: u64, entry: Option<RingEntry>) {
        self.node.store(node, Ordering::Relaxed);
        let mut state = self.state();
        state.entry = entry;
        state.answer = None;
    }

    /// Puts the answer in.
    pub(crate) fn answer(&self, unique: RequestId, error: Option<Errno>, parts: &[&[u8]]) {
        let number = error.map_or(0, |error| -error.number());
        let mut state = self.state();
        state.answer = Some(match &mut state.entry {
            Some(entry) => {
                put_in(entry, unique.0, number, parts);
                Answer::PutIn
            }
            None => Answer::Kept {
                unique: unique.0,
                error: number,
                bytes: parts.concat(),
            },
        });
        if state.is_waited_for {
            self.answered.notify_one();
        }
    }

    /// Returns whether [`Self::give_away`] would give the entry.
    pub(crate) fn has_entry(&self) -> bool {
        self.state().entry.is_some()
    }

    /// Gives the entry with this answer in it to the thread that sends it while the request is still handled.
    pub(crate) fn give_away(&self, unique: RequestId, error: Errno) -> Option<RingEntry> {
        let mut state = self.state();
        let mut entry = state.entry.take()?;
        put_in(&mut entry, unique.0, -error.number(), &[]);
        state.answer = Some(Answer::GivenAway);
        Some(entry)
    }

    /// Takes back an entry that was given away, for the thread that handles the request to send it.
    pub(crate) fn take_back(&self, entry: RingEntry) {
        let mut state = self.state();
        state.entry = Some(entry);
        state.answer = Some(Answer::PutIn);
    }

    /// Returns whether there is an answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().answer.is_some()
    }

    /// Waits for the answer. `own`: the entry, if the slot did not get it.
    pub(crate) fn end(&self, own: Option<RingEntry>) -> End {
        let mut state = self.state();
        state.is_waited_for = true;
        let open = |state: &mut State| state.answer.is_none() && !state.is_over;
        let waited = self.answered.wait_while(state, open);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_waited_for = false;
        let entry = state.entry.take().or(own);
        match (state.answer.take(), entry) {
            (Some(Answer::PutIn), Some(entry)) => End::Answered(entry),
            (
                Some(Answer::Kept {
                    unique,
                    error,
                    bytes,
                }),
                Some(mut entry),
            ) => {
                drop(state);
                put_in(&mut entry, unique, error, &[&bytes]);
                End::Answered(entry)
            }
            (Some(_), _) => End::GivenAway,
            (None, _) => End::Over,
        }
    }

    /// The file system is unmounted: nobody need wait.
    pub(crate) fn close(&self) {
        self.state().is_over = true;
        self.answered.notify_one();
    }
}

fn put_in(entry: &mut RingEntry, unique: u64, error: i32, parts: &[&[u8]]) {
    if entry.answer(unique, error, parts).is_err() {
        tracing::error!(unique, "an answer is longer than the kernel asked for");
        // It fits: there is nothing but a header.
        let _ = entry.answer(unique, -Errno::EIO.number(), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn slot() -> Slot {
        Slot::of_queue(3, Arc::default())
    }

    fn entry() -> RingEntry {
        RingEntry::of_payload(64).unwrap()
    }

    const REQUEST: RequestId = RequestId(4);

    #[test]
    fn an_answer_is_found_at_the_end_wherever_the_entry_is() {
        let slot = slot();
        assert_eq!(slot.queue(), 3);
        slot.tells_of(7);
        for is_inside in [true, false] {
            let (inside, own) = match is_inside {
                true => (Some(entry()), None),
                false => (None, Some(entry())),
            };
            slot.begin(2, inside);
            assert_eq!(slot.known_files(), [2, 7]);
            assert!(!slot.is_answered());
            slot.answer(REQUEST, None, &[b"a", b"b"]);
            assert!(slot.is_answered());
            let End::Answered(mut entry) = slot.end(own) else {
                panic!("it was answered");
            };
            assert_eq!(entry.request(4_096..4_098), b"ab");
            assert_eq!(entry.request(8..16), 4_u64.to_ne_bytes());
        }
    }

    #[test]
    fn an_end_waits_for_an_answer_of_another_thread() {
        let slot = slot();
        slot.begin(2, Some(entry()));
        thread::scope(|scope| {
            let ends = scope.spawn(|| matches!(slot.end(None), End::Answered(_)));
            slot.answer(REQUEST, Some(Errno::EIO), &[]);
            assert!(ends.join().unwrap());
        });
    }

    #[test]
    fn an_entry_is_given_away_with_an_early_answer() {
        let slot = slot();
        slot.begin(2, Some(entry()));
        assert!(slot.has_entry());
        let given = slot.give_away(REQUEST, Errno::EINTR).unwrap();
        assert!(!slot.has_entry() && slot.is_answered());
        assert!(slot.give_away(REQUEST, Errno::EINTR).is_none());
        slot.take_back(given);
        assert!(matches!(slot.end(None), End::Answered(_)));
        slot.begin(2, Some(entry()));
        assert!(slot.give_away(REQUEST, Errno::EINTR).is_some());
        assert!(matches!(slot.end(None), End::GivenAway));
        // One that is still looked at stays.
        slot.begin(2, None);
        assert!(slot.give_away(REQUEST, Errno::EINTR).is_none());
    }

    #[test]
    fn nobody_waits_when_it_is_over() {
        let slot = slot();
        slot.begin(2, Some(entry()));
        slot.close();
        assert!(matches!(slot.end(None), End::Over));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        let slot = slot();
        slot.begin(2, Some(entry()));
        slot.answer(REQUEST, None, &[&[0; 1 << 20]]);
        let End::Answered(mut entry) = slot.end(None) else {
            panic!("it was answered");
        };
        assert_eq!(entry.request(4..8), (-libc::EIO).to_ne_bytes());
    }
}
