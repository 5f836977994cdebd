//! Open directories.
//!
//! A directory is opened relative to its parent, which is kept open as long as something below it
//! waits. There may be more such directories than files may be open, in a chain of directories for
//! one. So the ones kept longest are closed, and opened again when they are needed, by name from
//! the nearest one above that is open; all on the way down are then kept, because those that wait
//! next to them will be needed next. A directory opened again must be the one it was.

use crate::dir::{Dir, DirState};
use crate::options::{Follow, Options};
use crate::stat::Stat;
use crate::visit::ProblemKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Debug)]
pub(crate) struct Descriptors<D> {
    limit: usize,
    flags: OFlags,
    follows_roots: bool,
    /// Whether it matters on which file system directories are, and which they are.
    careful: bool,
    /// Those kept open, in the order in which they were opened. Some may be done by now.
    kept: Mutex<VecDeque<Weak<Dir<D>>>>,
}

impl<D: DirState> Descriptors<D> {
    pub(crate) fn new(options: &Options) -> Descriptors<D> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if options.follow != Follow::Always {
            flags |= OFlags::NOFOLLOW;
        }
        Descriptors {
            limit: options.open_directories.max(1),
            flags,
            follows_roots: options.follow != Follow::Never,
            careful: options.one_file_system || options.follow == Follow::Always,
            kept: Mutex::new(VecDeque::new()),
        }
    }

    /// Opens a directory for the first time, to list it.
    pub(crate) fn open_first(&self, dir: &Arc<Dir<D>>) -> Result<Handle, ProblemKind> {
        let above = match dir.above() {
            Some(above) => self.open(above)?,
            None => return Ok(Handle(None)),
        };
        self.open_in(&above, dir, false)
    }

    /// A directory that was open before. It stays open as long as the answer is held.
    pub(crate) fn open(&self, dir: &Arc<Dir<D>>) -> Result<Handle, ProblemKind> {
        if dir.is_top() {
            return Ok(Handle(None));
        }
        if let Some(fd) = dir.opened() {
            return Ok(Handle(Some(fd)));
        }
        // From here up to the nearest one that is open.
        let mut closed: Vec<&Arc<Dir<D>>> = Vec::new();
        let mut above = dir.above();
        let mut handle = Handle(None);
        while let Some(it) = above.filter(|it| !it.is_top()) {
            if let Some(fd) = it.opened() {
                handle = Handle(Some(fd));
                break;
            }
            closed.push(it);
            above = it.above();
        }
        for it in closed.into_iter().rev() {
            handle = self.open_in(&handle, it, true)?;
            self.keep(it, &handle);
        }
        self.open_in(&handle, dir, true)
    }

    /// Opens a slice's directory for itself: threads that use one open file write to its count of
    /// users in each call, and wait for one another.
    pub(crate) fn open_again(&self, dir: &Arc<Dir<D>>) -> Result<Handle, ProblemKind> {
        let handle = self.open(dir)?;
        if handle.0.is_none() {
            return Ok(handle);
        }
        let own = openat(handle.as_fd(), c".", self.flags, Mode::empty());
        // A directory that may be read but not searched.
        Ok(own.map_or(handle, Handle::new))
    }

    fn open_in(&self, above: &Handle, dir: &Dir<D>, again: bool) -> Result<Handle, ProblemKind> {
        let flags = match dir.depth() {
            // One that was a directory when it was looked at may be a link by now.
            0 if self.follows_roots => self.flags - OFlags::NOFOLLOW,
            _ => self.flags,
        };
        let fd = open_fd(above.as_fd(), dir.name(), flags).map_err(ProblemKind::Open)?;
        match dir.identity() {
            Some(known) if again => {
                let found = identity(fd.as_fd()).map_err(ProblemKind::Open)?;
                if found.identity() != known {
                    return Err(ProblemKind::Replaced);
                }
            }
            Some(_) => {}
            // It came from another process, or from a file: the process that showed it knew, and
            // the file system that it is on is what those in it are compared with.
            None if self.careful => {
                let found = identity(fd.as_fd()).map_err(ProblemKind::Open)?;
                dir.set_identity(found.identity());
            }
            None => {}
        }
        Ok(Handle::new(fd))
    }

    /// Keeps it open for what is in it.
    pub(crate) fn keep(&self, dir: &Arc<Dir<D>>, handle: &Handle) {
        let Some(fd) = &handle.0 else { return };
        dir.set_open(Some(Arc::clone(fd)));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::downgrade(dir));
        let oldest = if kept.len() > self.limit {
            kept.pop_front()
        } else {
            None
        };
        drop(kept);
        if let Some(old) = oldest.and_then(|old| old.upgrade())
            && let Some(fd) = old.set_open(None)
            && let Ok(stat) = identity(fd.as_fd())
        {
            old.set_identity(stat.identity());
        }
    }
}

fn open_fd(above: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    loop {
        match openat(above, name, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn identity(fd: BorrowedFd<'_>) -> Result<Stat, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::INO).map(Stat)
}

/// An open directory; the working directory, if it is what the roots are in.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Option<Arc<OwnedFd>>);

impl Handle {
    fn new(fd: OwnedFd) -> Handle {
        Handle(Some(Arc::new(fd)))
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(CWD, |fd| fd.as_fd())
    }
}
