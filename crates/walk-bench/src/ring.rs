//! Sizes of many names of one directory at once, by io_uring.

use anyhow::{Result, bail};
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::{CStr, CString};
use std::io;

/// Names that are asked for in one call.
const BATCH: usize = 128;

pub struct Ring {
    uring: IoUring,
    names: Vec<CString>,
    answers: Vec<libc::statx>,
}

impl Ring {
    pub fn new() -> Result<Ring> {
        Ok(Ring {
            uring: IoUring::new(BATCH as u32)?,
            names: Vec::with_capacity(BATCH),
            // SAFETY: a statx is integers and nothing else, for which zeros will do.
            answers: vec![unsafe { std::mem::zeroed() }; BATCH],
        })
    }

    /// Takes a name; the bytes of those that were asked for meanwhile.
    pub fn ask(&mut self, dir: &OwnedFd, name: &CStr) -> Result<u64> {
        self.names.push(name.to_owned());
        match self.names.len() == BATCH {
            true => self.await_all(dir),
            false => Ok(0),
        }
    }

    /// The bytes of all names that were taken since the last time; all are in `dir`.
    pub fn await_all(&mut self, dir: &OwnedFd) -> Result<u64> {
        let count = self.names.len();
        for (name, answer) in self.names.iter().zip(&mut self.answers) {
            let statx = opcode::Statx::new(
                types::Fd(dir.as_raw_fd()),
                name.as_ptr(),
                std::ptr::from_mut(answer).cast(),
            )
            .flags(libc::AT_SYMLINK_NOFOLLOW)
            .mask(libc::STATX_SIZE)
            .build();
            // SAFETY: the name and the place for the answer stay where they are until all answers are here, below,
            // whatever they are: neither vector is touched before.
            if unsafe { self.uring.submission().push(&statx) }.is_err() {
                bail!("the ring has no room for {BATCH} questions");
            }
        }
        let mut left = count;
        let mut failure = None;
        while left > 0 {
            if let Err(error) = self.uring.submit_and_wait(left)
                && error.kind() != io::ErrorKind::Interrupted
            {
                // What was asked for would be answered into freed memory.
                panic!("io_uring_enter: {error}");
            }
            for done in self.uring.completion() {
                left -= 1;
                if done.result() < 0 {
                    failure = Some(io::Error::from_raw_os_error(-done.result()));
                }
            }
        }
        self.names.clear();
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(self.answers[..count].iter().map(|it| it.stx_size).sum()),
        }
    }
}
