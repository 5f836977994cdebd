//! The thread that forces the log, so that the lane never waits for that.

use crate::error::ServerError;
use crate::helper;
use crate::mailbox::{Mail, Mailbox};
use pandofs_log::Log;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// Forces the log once for each [`Forcer::begin`], and posts [`Mail::Forced`] when it is done. One
/// force serves everything that was appended before it began, of any number of batches.
#[derive(Debug)]
pub(crate) struct Forcer {
    orders: Sender<()>,
    thread: JoinHandle<()>,
}

impl Forcer {
    /// # Errors
    /// The system's, when it has no thread to give.
    pub fn start(log: Arc<dyn Log>, mailbox: &Mailbox) -> io::Result<Forcer> {
        let (orders, received) = mpsc::channel();
        let reports = mailbox.clone();
        let thread = helper::spawn("forcer", mailbox, move || {
            for () in received {
                reports.post(Mail::Forced(log.sync().map_err(ServerError::from)));
            }
        })?;
        Ok(Forcer { orders, thread })
    }

    /// Begins a force; what was appended before this call is covered.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn begin(&self) -> Result<(), ServerError> {
        self.orders
            .send(())
            .map_err(|_| ServerError::HelperEnded { name: "forcer" })
    }

    /// Ends the thread once it has done what was ordered.
    pub fn stop(self) {
        drop(self.orders);
        helper::join(vec![self.thread]);
    }
}
