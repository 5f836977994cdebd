//! Output that processes hand over for standard output.

use crate::limits::WAITING_OUTPUTS;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Queue of the standard output of all processes, which goes to rank 0 piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    pieces: Mutex<Pieces>,
    room: Condvar,
    /// Walks go on without it.
    is_aside: AtomicBool,
    /// At rank 0: nothing can be written any more.
    is_broken: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

#[derive(Debug, Default)]
struct Pieces {
    waiting: VecDeque<Vec<u8>>,
    /// A walk is going on, whose speaking thread takes them.
    taken: bool,
}

impl Outputs {
    /// Has whole records written by rank 0. Waits while too much waits already, but for what comes
    /// after a walk.
    pub fn write(&self, records: Vec<u8>) {
        let mut pieces = self.lock();
        while pieces.taken && pieces.waiting.len() >= WAITING_OUTPUTS {
            let woken = self.0.room.wait(pieces);
            pieces = woken.unwrap_or_else(PoisonError::into_inner);
        }
        pieces.waiting.push_back(records);
    }

    /// Returns whether walks go on, and what would be written is dropped, when nothing can be
    /// written any more. They end otherwise.
    pub fn set_aside(&self, is_aside: bool) {
        self.0.is_aside.store(is_aside, Ordering::Relaxed);
    }

    /// Why nothing could be written any more: at rank 0, after a walk, once.
    pub fn failure(&self) -> Option<io::Error> {
        let failure = self.0.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn broke(&self, error: io::Error) {
        self.0.is_broken.store(true, Ordering::Relaxed);
        let failure = self.0.failure.lock();
        *failure.unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }

    pub(crate) fn ends_walks(&self) -> bool {
        self.is_broken() && !self.0.is_aside.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.0.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let piece = self.lock().waiting.pop_front();
        self.0.room.notify_one();
        piece
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    pub(crate) fn set_taken(&self, taken: bool) {
        self.lock().taken = taken;
        self.0.room.notify_all();
    }
}
