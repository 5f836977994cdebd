//! Another tree, whose directories correspond to those that are walked.
//!
//! They are opened relative to one another, as those of the walk are, so that neither depth nor the
//! length of paths matters. Those used last stay open.

use crate::outcome::wrong;
use crate::text::shown;
use anyhow::{Context, Result};
use pandofs_walk_fs::limits::OPEN_DIRECTORIES;
use pandofs_walk_fs::{Dir, DirState};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Flags to open directories.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory's counterpart, if it is open.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Arc<OwnedFd>>>);

impl Slot {
    fn get(&self) -> Option<Arc<OwnedFd>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, fd: Option<Arc<OwnedFd>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fd;
    }
}

/// The state of a directory that has a counterpart.
pub(crate) trait Mirrored: DirState {
    fn slot(&self) -> &Slot;
}

/// Counterpart of a root.
#[derive(Debug)]
struct Root {
    given: CString,
    /// The directory that the counterpart is in, open.
    parent: Arc<OwnedFd>,
    name: CString,
}

/// The other tree.
#[derive(Debug)]
pub(crate) struct Mirror<D> {
    roots: Vec<Root>,
    kept: Mutex<VecDeque<Weak<Dir<D>>>>,
}

/// Place of the counterpart of an entry.
pub(crate) struct Place<'p> {
    dir: Arc<OwnedFd>,
    pub name: &'p CStr,
}

impl Place<'_> {
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl<D: Mirrored> Mirror<D> {
    /// Of each root as it is given to the walk, and the path of its counterpart, which need not
    /// exist. The directory that it is in has to.
    ///
    /// # Errors
    /// When that directory cannot be opened.
    pub(crate) fn new<'r>(
        roots: impl IntoIterator<Item = (&'r OsStr, &'r OsStr)>,
    ) -> Result<Mirror<D>> {
        let roots = roots.into_iter().map(|(given, path)| {
            let (parent, name) = parted(path.as_bytes());
            let fd = openat(CWD, parent, DIRECTORY - OFlags::NOFOLLOW, Mode::empty())
                .with_context(|| shown(parent))?;
            Ok(Root {
                given: CString::new(given.as_bytes())?,
                parent: Arc::new(fd),
                name: CString::new(name)?,
            })
        });
        Ok(Mirror {
            roots: roots.collect::<Result<_>>()?,
            kept: Mutex::default(),
        })
    }

    /// The counterpart of a directory that is walked.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(&self, dir: &Arc<Dir<D>>) -> Result<Arc<OwnedFd>, Errno> {
        let mut closed = Vec::new();
        let mut next = Some(dir);
        let mut open = None;
        while let Some(dir) = next {
            open = dir.state().slot().get();
            if open.is_some() {
                break;
            }
            closed.push(dir);
            next = dir.parent();
        }
        for dir in closed.into_iter().rev() {
            let fd = match &open {
                Some(above) => openat(above, dir.name(), DIRECTORY, Mode::empty())?,
                None => {
                    let root = self.root(dir.name())?;
                    // As a root's name, it may be a link.
                    let flags = DIRECTORY - OFlags::NOFOLLOW;
                    openat(&root.parent, &*root.name, flags, Mode::empty())?
                }
            };
            let fd = Arc::new(fd);
            self.keep(dir, &fd);
            open = Some(fd);
        }
        open.ok_or(Errno::NOENT)
    }

    /// Returns the place of an entry's counterpart; of a root's, if the directory is what all roots
    /// are in.
    ///
    /// # Errors
    /// When the directory's counterpart cannot be opened.
    pub(crate) fn place<'p>(
        &'p self,
        holder: &Arc<Dir<D>>,
        name: &'p CStr,
    ) -> Result<Place<'p>, Errno> {
        if holder.is_above_roots() {
            let root = self.root(name)?;
            return Ok(Place {
                dir: Arc::clone(&root.parent),
                name: &root.name,
            });
        }
        Ok(Place {
            dir: self.open(holder)?,
            name,
        })
    }

    fn root(&self, given: &CStr) -> Result<&Root, Errno> {
        let root = self.roots.iter().find(|root| *root.given == *given);
        root.ok_or(Errno::NOENT)
    }

    fn keep(&self, dir: &Arc<Dir<D>>, fd: &Arc<OwnedFd>) {
        dir.state().slot().set(Some(Arc::clone(fd)));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::downgrade(dir));
        let oldest = if kept.len() > OPEN_DIRECTORIES / 4 {
            kept.pop_front()
        } else {
            None
        };
        drop(kept);
        if let Some(old) = oldest.and_then(|old| old.upgrade()) {
            old.state().slot().set(None);
        }
    }
}

/// A path's directory, and its last name. Slashes at its end are not in it.
pub(crate) fn parted(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let path = &path[..end.max(1).min(path.len())];
    match path.iter().rposition(|byte| *byte == b'/') {
        None => (b".", path),
        Some(_) if path == b"/" => (b"/", b"."),
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    }
}

/// Refuses names of roots that are the same: what is found in them could not be distinguished.
///
/// # Errors
/// When two are the same.
pub(crate) fn refuse_doubles<T: Ord + AsRef<OsStr>>(names: &[T]) -> Result<()> {
    let mut sorted: Vec<&OsStr> = names.iter().map(AsRef::as_ref).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(wrong(format!(
            "'{}' is given twice",
            shown(pair[0].as_bytes())
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parted_before_their_last_name() {
        for (path, parent, name) in [
            ("a", ".", "a"),
            ("a/", ".", "a"),
            ("/", "/", "."),
            ("/a", "/", "a"),
            ("/a//", "/", "a"),
            ("a/b", "a", "b"),
            ("./a/b/", "./a", "b"),
        ] {
            let expected = (parent.as_bytes(), name.as_bytes());
            assert_eq!(parted(path.as_bytes()), expected, "{path}");
        }
    }
}
