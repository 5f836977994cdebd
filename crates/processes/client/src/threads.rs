//! Threads of the library, which take none of the program's signals.
//!
//! A program that waits for its signals in a thread of its own blocks them in the others, and does not know of these: a
//! signal that came to one of them would end it, or run its handler beside what it had kept apart.

use crate::error::{ClientError, Result};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::thread::{Builder, JoinHandle};

/// Starts one.
///
/// # Errors
/// `Protocol` when the system has no more.
pub(crate) fn start(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let failed = |cause: &dyn std::fmt::Display| {
        ClientError::Protocol(format!("no thread for the client: {cause}"))
    };
    // It begins with what its parent blocks, so that there is no moment at which it takes one.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let before = before.map_err(|errno| failed(&errno))?;
    let started = Builder::new().name(name).spawn(run);
    before.thread_set_mask().map_err(|errno| failed(&errno))?;
    started.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_takes_no_signals_and_its_parent_goes_on_taking_them() {
        let (tell, told) = channel();
        let own = SigSet::thread_get_mask().unwrap();
        let thread = start("test".to_owned(), move || {
            tell.send(SigSet::thread_get_mask().unwrap()).unwrap();
        });
        thread.unwrap().join().unwrap();
        let mask = told.recv().unwrap();
        for signal in [Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGALRM] {
            assert!(mask.contains(signal), "{signal}");
        }
        assert_eq!(SigSet::thread_get_mask().unwrap(), own);
    }
}
