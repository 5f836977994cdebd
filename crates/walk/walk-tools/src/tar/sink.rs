//! Output of an archive.

use crate::tar::allocator::{Allocator, Claim, Place};
use crate::tar::header::{BLOCK, Kind, Member, RECORD};
use anyhow::{Context, Result};
use pandofs_walk_fs::Rpc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::ftruncate;
use rustix::io::{Errno, pwrite, retry_on_intr, write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An archive that is being written. In a file, threads of all processes write to places of their
/// own at once; in a pipe, one after the other.
#[derive(Debug)]
pub(crate) struct Sink {
    fd: OwnedFd,
    /// Of the first process.
    allocator: Arc<Mutex<Allocator>>,
    /// Path by which others read it.
    rpc: Option<Rpc>,
    /// Held by the thread that writes to a pipe.
    turn: Mutex<()>,
    seekable: bool,
}

impl Sink {
    pub(crate) fn new(
        fd: OwnedFd,
        seekable: bool,
        allocator: Arc<Mutex<Allocator>>,
        rpc: Option<Rpc>,
    ) -> Sink {
        Sink {
            fd,
            allocator,
            rpc,
            turn: Mutex::new(()),
            seekable,
        }
    }

    pub(crate) fn is_seekable(&self) -> bool {
        self.seekable
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A place for this many bytes; or, if somebody has claimed this file before, what to link to.
    ///
    /// # Errors
    /// When the walk has broken down.
    pub(crate) fn place(&self, bytes: u64, claim: Option<Claim>) -> Result<Place, Errno> {
        if let Some(rpc) = &self.rpc {
            return Allocator::ask(rpc, bytes, claim).ok_or(Errno::CANCELED);
        }
        let mut allocator = self
            .allocator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(allocator.place(bytes, claim))
    }

    /// The turn to write to a pipe.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to a place of a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Errno> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            written += retry_on_intr(|| pwrite(&self.fd, rest, at + written as u64))?;
        }
        Ok(())
    }

    /// Writes to a pipe, for the thread that has the turn and a place.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write_next(&self, bytes: &[u8], _turn: &MutexGuard<'_, ()>) -> Result<(), Errno> {
        let mut written = 0;
        while written < bytes.len() {
            written += retry_on_intr(|| write(&self.fd, &bytes[written..]))?;
        }
        Ok(())
    }

    /// Writes a whole member, or, if somebody has claimed this file before, what `link` makes of
    /// that one's path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn append(
        &self,
        bytes: &[u8],
        claim: Option<Claim>,
        link: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<(), Errno> {
        // In a pipe places follow in the order of turns.
        let turn = (!self.seekable).then(|| self.turn());
        let linked;
        let (bytes, at) = match self.place(bytes.len() as u64, claim)? {
            Place::At(at) => (bytes, at),
            Place::After(first) => {
                linked = link(&first);
                match self.place(linked.len() as u64, None)? {
                    Place::At(at) => (&linked[..], at),
                    Place::After(_) => unreachable!("nothing was claimed"),
                }
            }
        };
        match &turn {
            Some(turn) => self.write_next(bytes, turn),
            None => self.write_at(bytes, at),
        }
    }

    /// Ends a pipe so that its reader finds a member without its data, if it is still read.
    pub(crate) fn spoil(&self) {
        let member = Member {
            kind: Kind::File,
            path: b"interrupted".to_vec(),
            size: BLOCK as u64,
            ..Member::default()
        };
        let _ = self.write_next(&member.headers().0, &self.turn());
    }

    /// Ends the archive. Of several processes the first does, when all are done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(&self) -> Result<u64> {
        let allocator = self
            .allocator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let end = allocator.end();
        let whole = (end + 1_024).next_multiple_of(RECORD);
        if self.seekable {
            ftruncate(&self.fd, whole).context("the archive")?;
        } else {
            let zeros = vec![0; (whole - end) as usize];
            self.write_next(&zeros, &self.turn())
                .context("the archive")?;
        }
        Ok(whole)
    }
}
