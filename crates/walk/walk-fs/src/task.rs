//! Something that was put off, as a visitor sees it.

use crate::dir::Dir;
use crate::paths::Paths;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// A part of an entry's work that a visitor has put off, so that any thread can do it.
pub struct Task<'a, D> {
    pub(crate) dir: &'a Arc<Dir<D>>,
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) what: &'a [u8],
    pub(crate) paths: &'a mut Paths<D>,
}

impl<'a, D> Task<'a, D> {
    /// Returns what was given to [`crate::Entry::later`].
    pub fn what(&self) -> &'a [u8] {
        self.what
    }

    /// The directory of the entry; for a root what all roots are in.
    pub fn holder(&self) -> &'a Arc<Dir<D>> {
        self.dir
    }

    /// The same, open.
    pub fn dir_fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// The path of an entry of that directory.
    pub fn path(&mut self, name: &[u8]) -> &[u8] {
        self.paths.entry(self.dir, name)
    }
}
