//! A directory that is done, as a visitor sees it.

use crate::descriptors::{Descriptors, Handle};
use crate::dir::{Dir, DirState};
use crate::entry::Entry;
use crate::options::{Follow, Options};
use crate::paths::Paths;
use crate::visit::ProblemKind;
use rustix::fd::AsFd;
use rustix::fs::FileType;
use std::ffi::CStr;
use std::sync::Arc;

/// A directory all below which was visited.
pub struct Leaving<'a, D> {
    pub(crate) dir: &'a Arc<Dir<D>>,
    pub(crate) paths: &'a mut Paths<D>,
    pub(crate) descriptors: &'a Descriptors<D>,
    pub(crate) options: &'a Options,
}

impl<'a, D: DirState> Leaving<'a, D> {
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
        let above = self.open_above()?;
        Ok(call(above.as_fd(), self.dir.name()))
    }

    /// Calls with the directory itself, open.
    ///
    /// # Errors
    /// When it had to be opened again and could not be.
    pub fn in_itself<R>(
        &self,
        call: impl FnOnce(rustix::fd::BorrowedFd<'_>) -> R,
    ) -> Result<R, ProblemKind> {
        let handle = self.descriptors.open(self.dir)?;
        Ok(call(handle.as_fd()))
    }

    /// Calls with the directory as an entry of the one that it is in, as it was before it was
    /// entered.
    ///
    /// # Errors
    /// When the directory above had to be opened again and could not be.
    pub fn as_entry<R>(
        &mut self,
        call: impl FnOnce(&mut Entry<'_, D>) -> R,
    ) -> Result<R, ProblemKind> {
        let above = self.open_above()?;
        let mut entry = Entry {
            dir: self.above(),
            fd: above.as_fd(),
            name: self.dir.name(),
            kind: FileType::Directory,
            ino: 0,
            stat: None,
            paths: self.paths,
            fields: self.options.fields,
            // The target of a link was entered, so it is looked at again by its name.
            follow: self.options.follow,
            tasks: Vec::new(),
            claims: Vec::new(),
        };
        if self.options.follow != Follow::Never {
            entry.kind = FileType::Unknown;
        }
        Ok(call(&mut entry))
    }

    fn open_above(&self) -> Result<Handle, ProblemKind> {
        self.descriptors.open(self.above())
    }

    fn above(&self) -> &'a Arc<Dir<D>> {
        match self.dir.above() {
            Some(above) => above,
            None => unreachable!("what the roots are in is not left"),
        }
    }
}
