//! Things that are open, until they are closed.
//!
//! In a process that was forked nothing of its parent's is touched: a thread that is not there any more may have had any of
//! its locks, and to end a session waits for threads that are not there either.

use pandofs_handles::{Failure, Result};
use pyo3::Python;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that is open, in the process that opened it.
#[derive(Debug)]
pub(crate) struct Held<T: Send + Sync> {
    process: u32,
    value: Mutex<Option<Arc<T>>>,
}

impl<T: Send + Sync> Held<T> {
    pub(crate) fn new(value: T) -> Held<T> {
        Held {
            process: std::process::id(),
            value: Mutex::new(Some(Arc::new(value))),
        }
    }

    /// The open object.
    pub(crate) fn get(&self) -> Result<Arc<T>> {
        self.with(|value| value.clone())
    }

    /// The open object, which is closed from here on.
    pub(crate) fn take(&self) -> Result<Arc<T>> {
        self.with(Option::take)
    }

    fn with(&self, work: impl FnOnce(&mut Option<Arc<T>>) -> Option<Arc<T>>) -> Result<Arc<T>> {
        if self.process != std::process::id() {
            return Err(Failure::Forked);
        }
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut value).ok_or(Failure::NoHandle)
    }
}

impl<T: Send + Sync> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self
            .value
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if self.process != std::process::id() {
            std::mem::forget(value);
            return;
        }
        // Where the interpreter is ending nobody is left to wait for its lock, and it is dropped all the same.
        let _ = Python::try_attach(move |py| py.detach(move || drop(value)));
    }
}
