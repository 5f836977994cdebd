//! Observer: a watcher of a running server in another thread of its process.

use crate::mailbox::{Mail, Mailbox};
use crate::times::{Timed, Times};
use pandofs_api::{ScrubReport, ServerStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Reads what a server has counted. The lane is asked what it tells administrators, by one piece of mail, and goes on at
/// once; times are read without it.
#[derive(Clone, Debug)]
pub struct Observer {
    pub(crate) mailbox: Mailbox,
    pub(crate) times: Arc<Times>,
}

/// A server at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// As administrators are told.
    pub status: ServerStatus,
    /// How its scrubbing goes.
    pub scrub: ScrubReport,
    /// Beside the status.
    pub more: More,
    /// Times since its start.
    pub timed: Timed,
}

/// Figures of a lane that administrators are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Partitions that went back to those they were split from, since the start.
    pub merges: u64,
    /// Directories that clients are granted.
    pub grants: u64,
    /// Bytes that were appended to the log since the start.
    pub log_appended_bytes: u64,
    /// Bytes of data that requests have brought and that are to be answered.
    pub owed_bytes: u64,
}

/// Part of [`Observed`] that the lane tells.
#[derive(Debug)]
pub(crate) struct Seen {
    pub status: ServerStatus,
    pub scrub: ScrubReport,
    pub more: More,
}

/// Why a server was not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unobserved {
    /// Its lane has something else to do.
    #[error(
        "the server's metadata thread has not answered within {limit:?}: it is busy, waits for its disk, or has stopped; \
         see its log"
    )]
    Busy {
        /// How long it was waited.
        limit: Duration,
    },
    /// There is no lane any more.
    #[error("the server has stopped")]
    Gone,
}

impl Observer {
    /// The server as it is now.
    ///
    /// # Errors
    /// [`Unobserved`] when the lane does not answer within `limit`.
    pub fn observe(&self, limit: Duration) -> Result<Observed, Unobserved> {
        let (to, seen) = mpsc::channel();
        self.mailbox.post(Mail::Observe(to));
        let Seen {
            status,
            scrub,
            more,
        } = seen.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Unobserved::Busy { limit },
            RecvTimeoutError::Disconnected => Unobserved::Gone,
        })?;
        Ok(Observed {
            status,
            scrub,
            more,
            timed: self.times.read(),
        })
    }
}
