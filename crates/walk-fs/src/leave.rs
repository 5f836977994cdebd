//! A directory that is done, as a visitor sees it.

use crate::descriptors::{Descriptors, Handle};
use crate::dir::{Dir, DirState};
use crate::paths::Paths;
use crate::visit::ProblemKind;
use std::ffi::CStr;
use std::sync::Arc;

/// A directory all below which was visited.
pub struct Leaving<'a, D> {
    pub(crate) dir: &'a Arc<Dir<D>>,
    pub(crate) paths: &'a mut Paths<D>,
    pub(crate) descriptors: &'a Descriptors<D>,
}

impl<D: DirState> Leaving<'_, D> {
    /// The directory itself.
    pub fn dir(&self) -> &Arc<Dir<D>> {
        self.dir
    }

    /// Its path, beginning with its root's as it was given.
    pub fn path(&mut self) -> &[u8] {
        self.paths.directory(self.dir)
    }

    /// Calls with the directory that it is in, open, and its name there.
    ///
    /// # Errors
    /// When the directory above had to be opened again and could not be.
    pub fn in_parent<R>(
        &self,
        call: impl FnOnce(rustix::fd::BorrowedFd<'_>, &CStr) -> R,
    ) -> Result<R, ProblemKind> {
        use rustix::fd::AsFd;
        let above: Handle = match self.dir.above() {
            Some(above) => self.descriptors.open(above)?,
            None => unreachable!("what the roots are in is not left"),
        };
        Ok(call(above.as_fd(), self.dir.name()))
    }
}
