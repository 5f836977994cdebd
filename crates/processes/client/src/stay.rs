//! Checks that open files are still open at their servers.
//!
//! A server keeps what a session has open, also when its last name is removed; but once it has
//! heard nothing of the session for [`SESSION_TIMEOUT`](pandofs_types::limits::SESSION_TIMEOUT) it
//! lets go of it, and a removal of the file then removes its data. When a server has forgotten the
//! opens that the session had registered with it, the session's open files are doubtful, each of
//! them, as it may have been on that server, and is asked for before it is used next, and once more
//! after it was used if the server said so meanwhile. (A mount is stopped for minutes, the file is
//! removed by another one, the program goes on: it would write into an object of a file that is
//! gone, and read zeros where it does not.) So is a file whose server has not been heard of for
//! nearly as long. A file that is gone is gone for good: each further use of it is an error.

use crate::core::Core;
use crate::error::{ClientError, Result};
use crate::file::File;
use pandofs_types::{Credentials, FsError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The knowledge of that, of one file.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    /// It was there when servers had let go of what the session had so often ([`Core::lapses`]).
    sure: AtomicU64,
    is_gone: AtomicBool,
}

impl Stay {
    pub(crate) fn be_sure(&self, lapses: u64) {
        self.sure.store(lapses, Ordering::SeqCst);
    }

    /// It may never have been open at the server that has it now.
    pub(crate) fn doubt(&self) {
        self.sure.store(u64::MAX, Ordering::SeqCst);
    }

    /// Its shard does not have it.
    pub(crate) fn end(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    /// # Errors
    /// `Stale` when it is gone.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_gone.load(Ordering::SeqCst) {
            true => Err(FsError::Stale.into()),
            false => Ok(()),
        }
    }
}

impl Core {
    /// Asks whether an open file is there still, if there is reason to.
    ///
    /// # Errors
    /// `Stale` when it is not.
    pub(crate) fn still_there(&self, file: &File) -> Result<()> {
        loop {
            file.stay.check()?;
            // Before it is asked for: what a server says meanwhile counts anew.
            let lapses = self.lapses.load(Ordering::SeqCst);
            // Data objects may be of other servers, which say nothing of it.
            if file.stay.sure.load(Ordering::SeqCst) == lapses && !self.is_silent(file.ino) {
                return Ok(());
            }
            let found = self.inode_now(&Credentials::ROOT, file.ino);
            self.note_gone(file, &found);
            found?;
            file.stay.be_sure(lapses);
        }
    }

    /// Takes in the result of a request to the shard of an open file.
    pub(crate) fn note_gone<T>(&self, file: &File, result: &Result<T>) {
        let is_gone = result.as_ref().is_err_and(ClientError::is_gone);
        if is_gone && self.opens.file(file.ino).is_some() {
            tracing::warn!(
                "inode {} is open and was removed, as its server had not heard of this client for too long",
                file.ino
            );
            file.stay.end();
        }
    }
}
