//! Where an archive is written to.

use crate::tar::header::RECORD;
use anyhow::{Context, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::ftruncate;
use rustix::io::{Errno, pwrite, retry_on_intr, write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An archive that is being written. In a file, threads write to places of their own at once; in a pipe, one after
/// the other.
#[derive(Debug)]
pub struct Sink {
    fd: OwnedFd,
    /// Bytes that have been given away so far.
    end: AtomicU64,
    /// Whoever writes to a pipe holds it.
    turn: Mutex<()>,
    seekable: bool,
}

impl Sink {
    pub fn new(fd: OwnedFd, seekable: bool) -> Sink {
        Sink {
            fd,
            end: AtomicU64::new(0),
            turn: Mutex::new(()),
            seekable,
        }
    }

    pub fn is_seekable(&self) -> bool {
        self.seekable
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A place for this many bytes, of a file.
    pub fn reserve(&self, bytes: u64) -> u64 {
        self.end.fetch_add(bytes, Ordering::Relaxed)
    }

    /// The turn to write to a pipe.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to a place of a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Errno> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            written += retry_on_intr(|| pwrite(&self.fd, rest, at + written as u64))?;
        }
        Ok(())
    }

    /// Writes to a pipe, for who has the turn.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_next(&self, bytes: &[u8], _turn: &MutexGuard<'_, ()>) -> Result<(), Errno> {
        self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut written = 0;
        while written < bytes.len() {
            written += retry_on_intr(|| write(&self.fd, &bytes[written..]))?;
        }
        Ok(())
    }

    /// Writes a whole member.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        if self.seekable {
            let at = self.reserve(bytes.len() as u64);
            return self.write_at(bytes, at);
        }
        self.write_next(bytes, &self.turn())
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&self) -> Result<u64> {
        let end = self.end.load(Ordering::Relaxed);
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
