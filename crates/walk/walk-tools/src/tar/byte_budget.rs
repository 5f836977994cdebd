//! Budget of bytes that wait in memory.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes of files that may wait for a thread, in memory.
const BUDGET_BYTES: usize = 8 << 20;

/// Counter of the bytes of files that wait in memory.
#[derive(Debug, Default)]
pub(crate) struct ByteBudget {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

impl ByteBudget {
    /// Takes so many, after a wait until there is room for them.
    pub(crate) fn take(&self, bytes: usize) {
        let mut taken = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && *taken + bytes > BUDGET_BYTES {
            taken = self
                .fewer
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.fewer.notify_one();
    }
}
