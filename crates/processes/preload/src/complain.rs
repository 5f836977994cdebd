//! Words on the standard error for what a program cannot be told by a number, each once for a process.

use crate::fds;
use crate::sys;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Subject about which a process complains once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum About {
    Start,
    Left,
    Connection,
    SharedMapping,
    Exec,
    LostLock,
    NotShared,
    OwnDescriptor,
    SharedLock,
    NotDone,
    Exit,
}

static SAID: AtomicU32 = AtomicU32::new(0);

/// Says it, if nothing was said about this yet.
pub(crate) fn once(about: About, words: &str) {
    let bit = 1 << about as u32;
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        say(words);
    }
}

/// Where is said what is to be said: the standard error, or a duplicate of it that programs do not close.
static TO: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// Has something be said also when the program has closed its standard error, as many do at their end.
pub(crate) fn keep_standard_error() {
    let (fd, command) = (libc::STDERR_FILENO as usize, libc::F_DUPFD_CLOEXEC as usize);
    let kept = sys::call3(libc::SYS_fcntl, fd, command, fds::own_base() as usize);
    if let Ok(kept @ 0..) = i32::try_from(kept) {
        TO.store(fds::make_own(kept), Ordering::Relaxed);
    }
}

/// Says it, unless the standard error is a file of the file system.
pub(crate) fn say(words: &str) {
    let to = TO.load(Ordering::Relaxed);
    if !fds::is_ours(to) {
        sys::say(to, &format!("pandofs-preload: {words}\n"));
    }
}

/// Returns whether the descriptor is the one for that.
pub(crate) fn is_kept(fd: i32) -> bool {
    TO.load(Ordering::Relaxed) == fd
}
