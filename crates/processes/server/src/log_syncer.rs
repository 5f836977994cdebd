//! The thread that syncs the log, so that the lane never waits for that.

use crate::error::ServerError;
use crate::helper;
use crate::mailbox::{Mail, Mailbox};
use crate::times::Times;
use pandofs_lane::LaneError;
use pandofs_storage::log::Log;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

/// Syncs the log once for each [`LogSyncer::begin`], and posts [`Mail::Synced`] when it is done. One
/// sync serves everything that was appended before it began, of any number of batches.
#[derive(Debug)]
pub(crate) struct LogSyncer {
    orders: Sender<()>,
    thread: JoinHandle<()>,
}

impl LogSyncer {
    /// # Errors
    /// The system's, when it has no thread to give.
    pub(crate) fn start(
        log: Arc<dyn Log>,
        times: Arc<Times>,
        mailbox: &Mailbox,
    ) -> io::Result<LogSyncer> {
        let (orders, received) = mpsc::channel();
        let reports = mailbox.clone();
        let thread = helper::spawn("log_syncer", mailbox, move || {
            for () in received {
                let begun = Instant::now();
                let synced = log.sync();
                times.forces.add_since(begun);
                reports.post(Mail::Synced(synced.map_err(LaneError::from)));
            }
        })?;
        Ok(LogSyncer { orders, thread })
    }

    /// Begins a sync; what was appended before this call is covered.
    ///
    /// # Errors
    /// When the thread is gone.
    pub(crate) fn begin(&self) -> Result<(), ServerError> {
        self.orders
            .send(())
            .map_err(|_| ServerError::HelperEnded { name: "log_syncer" })
    }

    /// Ends the thread once it has done what was ordered.
    pub(crate) fn stop(self) {
        drop(self.orders);
        helper::join(vec![self.thread]);
    }
}
