//! An entry of a directory, as a visitor sees it.

use crate::claims::Key;
use crate::dir::Dir;
use crate::options::Follow;
use crate::paths::Paths;
use crate::stat::Stat;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::Arc;

/// An entry. Its attributes are read when they are asked for, and once.
pub struct Entry<'a, D> {
    pub(crate) dir: &'a Arc<Dir<D>>,
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    pub(crate) kind: FileType,
    pub(crate) ino: u64,
    pub(crate) stat: Option<Result<Stat, Errno>>,
    pub(crate) paths: &'a mut Paths<D>,
    pub(crate) fields: StatxFlags,
    pub(crate) follow: Follow,
    /// Tasks that are put off.
    pub(crate) tasks: Vec<Box<[u8]>>,
    /// Claims, each with the amount for the directory.
    pub(crate) claims: Vec<(Key, u64)>,
}

impl<'a, D> Entry<'a, D> {
    /// The name in its directory; for a root what was given.
    pub fn name(&self) -> &'a CStr {
        self.name
    }

    /// 0 for a root.
    pub fn depth(&self) -> u32 {
        if self.dir.is_top() {
            0
        } else {
            self.dir.depth() + 1
        }
    }

    /// The path, beginning with its root's as it was given.
    pub fn path(&mut self) -> &[u8] {
        self.paths.entry(self.dir, self.name.to_bytes())
    }

    /// The directory that it is in; none for a root.
    pub fn dir(&self) -> Option<&Arc<Dir<D>>> {
        Some(self.dir).filter(|dir| !dir.is_top())
    }

    /// The same; for a root what all roots are in, whose state starts with zeros and which is never
    /// left.
    pub fn holder(&self) -> &'a Arc<Dir<D>> {
        self.dir
    }

    /// Puts off a part of the work: some thread calls [`crate::Visitor::task`] with this.
    pub fn later(&mut self, what: impl Into<Box<[u8]>>) {
        self.tasks.push(what.into());
    }

    /// Claims something that counts once in the whole walk, whichever process meets it: a file with
    /// several names, by what [`Stat::identity`] says. If that was not claimed before,
    /// [`DirState::claimed`](crate::DirState::claimed) is called of the directory that the entry is
    /// in, before that is left.
    pub fn claim(&mut self, key: (u64, u64), amount: u64) {
        self.claims.push((key, amount));
    }

    /// Its directory, open: for calls that take a directory and [`Entry::name`].
    pub fn dir_fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// Returns its type; [`FileType::Unknown`] if that cannot be found out. Costs a call where the
    /// directory does not tell, for roots, and for links that are followed.
    pub fn kind(&mut self) -> FileType {
        let tells = match self.kind {
            FileType::Unknown => false,
            FileType::Symlink => !self.follows(),
            _ => true,
        };
        if !tells {
            self.kind = self.stat().map_or(FileType::Unknown, Stat::kind);
        }
        self.kind
    }

    /// The inode's number as the directory has it, which at a mount point is that of the directory
    /// below.
    pub fn listed_ino(&self) -> u64 {
        self.ino
    }

    /// Its attributes, with at least the fields of [`crate::Options::fields`] that the file system
    /// has. Of a link that is followed those of what it points to, if there is such a thing.
    ///
    /// # Errors
    /// Why it cannot be looked at.
    // In line for the reason given at `Worker::visit`.
    #[inline(always)]
    pub fn stat(&mut self) -> Result<&Stat, Errno> {
        if self.stat.is_none() {
            let follows =
                self.follows() && matches!(self.kind, FileType::Unknown | FileType::Symlink);
            if follows {
                self.stat = self.look(AtFlags::empty()).ok().map(Ok);
            }
            if self.stat.is_none() {
                self.stat = Some(self.look(AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT));
            }
        }
        match &self.stat {
            Some(Ok(stat)) => Ok(stat),
            Some(Err(error)) => Err(*error),
            None => unreachable!("it was looked at"),
        }
    }

    #[inline(always)]
    fn look(&self, how: AtFlags) -> Result<Stat, Errno> {
        statx(self.fd, self.name, how, self.fields).map(Stat)
    }

    /// Returns whether a directory is on another file system than the one it is in. Never for
    /// roots.
    pub fn is_elsewhere(&mut self) -> bool {
        let Some(above) = self.dir().and_then(|dir| dir.identity()) else {
            return false;
        };
        self.stat().is_ok_and(|stat| stat.device() != above.0)
    }

    fn follows(&self) -> bool {
        match self.follow {
            Follow::Never => false,
            Follow::Roots => self.dir.is_top(),
            Follow::Always => true,
        }
    }
}
