//! Sizes of many names of one directory at once, by io_uring.
//!
//! Nothing is allocated for an entry: names go to places of their own, where the kernel reads them.

use anyhow::{Context, Result, bail};
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::CStr;
use std::io;

/// Names that are asked for in one call.
const BATCH: usize = 256;
/// Bytes of the longest name that Linux has, and its NUL.
const NAME_BYTES: usize = 256;

pub(crate) struct Ring {
    uring: IoUring,
    /// A place for each name.
    names: Box<[[u8; NAME_BYTES]]>,
    answers: Box<[libc::statx]>,
    asked: usize,
}

impl Ring {
    /// `workers` threads of the kernel at most answer: it has each of these questions answered by
    /// such a thread (`REQ_F_FORCE_ASYNC` in its `io_statx_prep`).
    pub(crate) fn new(workers: u32) -> Result<Ring> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(BATCH as u32)
            .context("io_uring_setup")?;
        uring
            .submitter()
            .register_iowq_max_workers(&mut [workers, workers])
            .context("io_uring_register")?;
        Ok(Ring {
            uring,
            names: vec![[0; NAME_BYTES]; BATCH].into_boxed_slice(),
            // SAFETY: a statx is integers and nothing else, for which zeros will do.
            answers: vec![unsafe { std::mem::zeroed() }; BATCH].into_boxed_slice(),
            asked: 0,
        })
    }

    /// Takes a name; the bytes of those that were asked for meanwhile.
    pub(crate) fn ask(&mut self, dir: &OwnedFd, name: &CStr) -> Result<u64> {
        let name = name.to_bytes_with_nul();
        let Some(place) = self.names[self.asked].get_mut(..name.len()) else {
            bail!("a name of more than {NAME_BYTES} bytes");
        };
        place.copy_from_slice(name);
        let statx = opcode::Statx::new(
            types::Fd(dir.as_raw_fd()),
            place.as_ptr().cast(),
            std::ptr::from_mut(&mut self.answers[self.asked]).cast(),
        )
        .flags(libc::AT_SYMLINK_NOFOLLOW)
        .mask(libc::STATX_SIZE)
        .build();
        // SAFETY: the name and the place for the answer are in boxes that this owns, and are not
        // touched before all answers are here, which `await_all` waits for.
        if unsafe { self.uring.submission().push(&statx) }.is_err() {
            bail!("the ring has no room for {BATCH} questions");
        }
        self.asked += 1;
        match self.asked == BATCH {
            true => self.await_all(),
            false => Ok(0),
        }
    }

    /// The bytes of all names that were taken since the last time. Directories have to be open
    /// until then.
    pub(crate) fn await_all(&mut self) -> Result<u64> {
        let mut left = self.asked;
        let mut failure = None;
        while left > 0 {
            if let Err(error) = self.uring.submit_and_wait(left)
                && error.kind() != io::ErrorKind::Interrupted
            {
                // Requests would be answered into freed memory.
                panic!("io_uring_enter: {error}");
            }
            for done in self.uring.completion() {
                left -= 1;
                if done.result() < 0 {
                    failure = Some(io::Error::from_raw_os_error(-done.result()));
                }
            }
        }
        let asked = std::mem::take(&mut self.asked);
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(self.answers[..asked].iter().map(|it| it.stx_size).sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use std::ffi::CString;

    #[test]
    fn sizes_are_those_of_all_names() {
        let dir = std::env::temp_dir().join(format!("pandofs-ring-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        for file in 0..2 * BATCH + 7 {
            std::fs::write(dir.join(file.to_string()), vec![b'x'; file]).unwrap();
        }
        let open = openat(CWD, &dir, OFlags::DIRECTORY, Mode::empty()).unwrap();
        // Where the kernel or a sandbox does not have it, there is nothing to try.
        if let Ok(mut ring) = Ring::new(2) {
            let mut sum = 0;
            for file in 0..2 * BATCH + 7 {
                let name = CString::new(file.to_string()).unwrap();
                sum += ring.ask(&open, &name).unwrap();
            }
            sum += ring.await_all().unwrap();
            let files = (2 * BATCH + 7) as u64;
            assert_eq!(sum, files * (files - 1) / 2);
            ring.ask(&open, c"missing").unwrap();
            assert!(ring.await_all().is_err());
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
