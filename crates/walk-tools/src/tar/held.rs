//! How much waits in memory.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes of files that wait for a thread, in memory.
const HELD_BYTES: usize = 8 << 20;

/// Bytes of files that wait in memory.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

impl Held {
    /// Waits until there is room for as many more.
    pub fn take(&self, bytes: usize) {
        let mut held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *held > 0 && *held + bytes > HELD_BYTES {
            held = self
                .fewer
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *held += bytes;
    }

    pub fn give_back(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.fewer.notify_one();
    }
}
