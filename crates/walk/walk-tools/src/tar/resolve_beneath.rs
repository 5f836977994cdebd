//! Untrusted paths, opened below a directory and nowhere else.
//!
//! They are followed name by name, never through links, so that an archive cannot write elsewhere
//! through a link that it made before; and neither depth nor length has a limit.

use crate::mirror::DIRECTORY;
use pandofs_walk_fs::Stat;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, mkdirat, openat};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Nowhere {
    #[error("the path leads out of the directory")]
    Out,
    #[error("{0}")]
    Os(Errno),
}

/// Directories that this run has made. Others are to be left as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own(Arc<Mutex<HashSet<(u64, u64)>>>);

impl Own {
    /// Makes one, and knows it before anybody can ask for it.
    ///
    /// # Errors
    /// When it cannot be made, or is there.
    pub(crate) fn make(
        &self,
        spot: &Spot,
        make: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        make()?;
        own.insert(Stat::of(spot.dir(), &spot.name)?.identity());
        Ok(())
    }

    /// Returns whether it is one of them.
    pub(crate) fn has(&self, stat: &Stat) -> bool {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        own.contains(&stat.identity())
    }
}

/// One thread's way through a directory.
pub(crate) struct Resolver {
    root: Arc<OwnedFd>,
    own: Option<Own>,
    /// The directories on the way to where it was last, from the root: mostly the next way is
    /// nearly the same.
    way: VecDeque<(Vec<u8>, Option<Arc<OwnedFd>>)>,
    /// The first of them that is open; those after it are as well.
    open_from: usize,
}

/// Directories on a way that are kept open: the last ones. Coming up from the bottom of a chain
/// goes all the way from the root once for each so many.
const OPEN_DIRECTORIES: usize = 64;

/// A name in an open directory.
pub(crate) struct Spot {
    dir: Arc<OwnedFd>,
    pub name: CString,
}

impl Spot {
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Resolver {
    /// Directories that are made on the way are known as such.
    pub(crate) fn new(root: Arc<OwnedFd>, own: Option<Own>) -> Resolver {
        Resolver {
            root,
            own,
            way: VecDeque::new(),
            open_from: 0,
        }
    }

    /// Resolves a path. Directories on the way are made if they are missing.
    ///
    /// # Errors
    /// When it leads out, or through what is no directory.
    pub(crate) fn spot(&mut self, path: &[u8]) -> Result<Spot, Nowhere> {
        let mut names = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(Nowhere::Out),
                name => names.push(name),
            }
        }
        let terminated = |name: &[u8]| CString::new(name).map_err(|_| Nowhere::Os(Errno::INVAL));
        let Some(name) = names.pop() else {
            return Ok(Spot {
                dir: Arc::clone(&self.root),
                name: c".".to_owned(),
            });
        };
        let name = terminated(name)?;
        let same = self.way.iter().zip(&names);
        let same = same.take_while(|((known, _), name)| known == *name).count();
        self.way.truncate(same);
        let mut dir = match self.way.back() {
            Some((_, Some(dir))) => Arc::clone(dir),
            _ => {
                self.forget();
                Arc::clone(&self.root)
            }
        };
        for above in &names[self.way.len()..] {
            let spot = Spot {
                dir,
                name: terminated(above)?,
            };
            dir = Arc::new(self.enter(&spot).map_err(Nowhere::Os)?);
            self.way.push_back((above.to_vec(), Some(Arc::clone(&dir))));
            if self.way.len() - self.open_from > OPEN_DIRECTORIES {
                self.way[self.open_from].1 = None;
                self.open_from += 1;
            }
        }
        Ok(Spot { dir, name })
    }

    fn enter(&self, spot: &Spot) -> Result<OwnedFd, Errno> {
        let open = || openat(spot.dir(), &*spot.name, DIRECTORY, Mode::empty());
        match open() {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let make = || mkdirat(spot.dir(), &*spot.name, Mode::from_raw_mode(0o777));
        let made = match &self.own {
            Some(own) => own.make(spot, make),
            None => make(),
        };
        match made {
            // Another thread may be on the same way.
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error),
        }
    }

    /// Lets go of the directories on the way: they may be others by now.
    pub(crate) fn forget(&mut self) {
        self.way.clear();
        self.open_from = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("out")).unwrap();
        let root = openat(rustix::fs::CWD, dir.path(), DIRECTORY, Mode::empty()).unwrap();
        let mut resolver = Resolver::new(Arc::new(root), None);
        assert!(matches!(resolver.spot(b"../x"), Err(Nowhere::Out)));
        assert!(matches!(resolver.spot(b"a/../../x"), Err(Nowhere::Out)));
        assert!(matches!(resolver.spot(b"out/etc/x"), Err(Nowhere::Os(_))));
        let spot = resolver.spot(b"/a//./b/c").unwrap();
        assert_eq!(&*spot.name, c"c");
        assert!(dir.path().join("a/b").is_dir());
        assert_eq!(&*resolver.spot(b"./").unwrap().name, c".");
        // Down and up a way that is longer than what is kept open, and beside it.
        let identity = |spot: &Spot| {
            pandofs_walk_fs::Stat::of_open(spot.dir())
                .unwrap()
                .identity()
        };
        let way = |depth: usize| [&b"d/".repeat(depth)[..], b"name"].concat();
        let mut down = Vec::new();
        for depth in 0..3 * OPEN_DIRECTORIES {
            down.push(identity(&resolver.spot(&way(depth)).unwrap()));
        }
        for depth in (0..3 * OPEN_DIRECTORIES).rev() {
            let spot = resolver.spot(&way(depth)).unwrap();
            assert_eq!(identity(&spot), down[depth], "{depth}");
            let beside = [&b"d/".repeat(depth)[..], b"e/name"].concat();
            assert_ne!(identity(&resolver.spot(&beside).unwrap()), down[depth]);
            let open = resolver.way.iter().filter(|(_, fd)| fd.is_some()).count();
            assert!(open <= OPEN_DIRECTORIES, "{open}");
        }
        resolver.forget();
        assert_eq!(identity(&resolver.spot(&way(70)).unwrap()), down[70]);
        assert_eq!(&*resolver.spot(b"out").unwrap().name, c"out");
    }
}
