//! Files with several names: copied once, with as many names.
//!
//! Which name was first is settled in the tree that is copied to: there is a directory in it while
//! copies are made, in which each such file has a name made of its device and inode number. The
//! thread that makes that name has copied, or copies, the data, everybody else links to it. So
//! nothing is remembered in memory, and several processes, on several machines, agree without a
//! word.

use crate::mirror::DIRECTORY;
use pandofs_walk_fs::Stat;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, RawDir, futimens, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory with those names.
pub(crate) const NAME: &CStr = c".pandofs-links";

/// Names of files with several names.
#[derive(Debug)]
pub(crate) struct Links {
    /// The directory that it is in.
    base: OwnedFd,
    dir: OnceLock<OwnedFd>,
    useless: AtomicBool,
}

impl Links {
    pub(crate) fn new(base: OwnedFd) -> Links {
        Links {
            base,
            dir: OnceLock::new(),
            useless: AtomicBool::new(false),
        }
    }

    /// Returns the name of a file there.
    pub(crate) fn key(stat: &Stat) -> CString {
        let (device, ino) = stat.identity();
        CString::new(format!("{device:x}-{ino:x}")).unwrap_or_default()
    }

    /// The directory; none if links cannot be made.
    pub(crate) fn dir(&self) -> Option<BorrowedFd<'_>> {
        if self.useless.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(dir) = self.dir.get() {
            return Some(dir.as_fd());
        }
        match mkdirat(&self.base, NAME, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(_) => {
                self.give_up();
                return None;
            }
        }
        let Ok(dir) = openat(&self.base, NAME, DIRECTORY, Mode::empty()) else {
            self.give_up();
            return None;
        };
        Some(self.dir.get_or_init(|| dir).as_fd())
    }

    /// Files cannot have several names there.
    pub(crate) fn give_up(&self) {
        self.useless.store(true, Ordering::Relaxed);
    }

    /// Removes it with all names, at the end, or at the beginning what an earlier run had to leave.
    /// The times of what it is in stay what they are.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn remove(&self) -> Result<(), Errno> {
        let dir = match openat(&self.base, NAME, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            dir => dir?,
        };
        let before = Stat::of_open(self.base.as_fd())?;
        let mut buffer = [MaybeUninit::uninit(); 32 << 10];
        loop {
            let again = openat(&dir, c".", DIRECTORY, Mode::empty())?;
            let mut listing = RawDir::new(again, &mut buffer);
            let mut removed = 0;
            while let Some(entry) = listing.next() {
                let entry = entry?;
                if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    unlinkat(&dir, entry.file_name(), AtFlags::empty())?;
                    removed += 1;
                }
            }
            // A listing of a directory that changes meanwhile is not complete.
            if removed == 0 {
                break;
            }
        }
        unlinkat(&self.base, NAME, AtFlags::REMOVEDIR)?;
        futimens(&self.base, &super::attributes::times(&before))
    }
}
