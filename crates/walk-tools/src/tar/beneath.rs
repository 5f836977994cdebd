//! Paths that somebody else made up, opened below a directory and nowhere else.
//!
//! They are followed name by name, never through links, so that an archive cannot write elsewhere through a link
//! that it made before; and neither depth nor length has a limit.

use crate::mirror::DIRECTORY;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, mkdirat, openat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Nowhere {
    #[error("the path leads out of the directory")]
    Out,
    #[error("{0}")]
    Os(Errno),
}

/// One thread's way through a directory.
pub struct Beneath {
    root: Arc<OwnedFd>,
    /// The directory that was used last: members of one come one after the other.
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
}

/// A name in an open directory.
pub struct Spot {
    dir: Arc<OwnedFd>,
    pub name: CString,
}

impl Spot {
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Beneath {
    pub fn new(root: Arc<OwnedFd>) -> Beneath {
        Beneath { root, last: None }
    }

    /// Where a path leads. Directories on the way are made if they are missing.
    ///
    /// # Errors
    /// When it leads out, or through what is no directory.
    pub fn spot(&mut self, path: &[u8]) -> Result<Spot, Nowhere> {
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
        let parent = names.join(&b'/');
        let name = terminated(name)?;
        if let Some((path, dir)) = &self.last
            && *path == parent
        {
            let dir = Arc::clone(dir);
            return Ok(Spot { dir, name });
        }
        let mut dir = Arc::clone(&self.root);
        for above in names {
            dir = Arc::new(enter(dir.as_fd(), &terminated(above)?).map_err(Nowhere::Os)?);
        }
        self.last = Some((parent, Arc::clone(&dir)));
        Ok(Spot { dir, name })
    }

    /// Lets go of the directory that was used last: it may be another one by now.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

fn enter(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    match openat(dir, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        // Another thread may be on the same way.
        Ok(()) | Err(Errno::EXIST) => openat(dir, name, DIRECTORY, Mode::empty()),
        Err(error) => Err(error),
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
        let mut beneath = Beneath::new(Arc::new(root));
        assert!(matches!(beneath.spot(b"../x"), Err(Nowhere::Out)));
        assert!(matches!(beneath.spot(b"a/../../x"), Err(Nowhere::Out)));
        assert!(matches!(beneath.spot(b"out/etc/x"), Err(Nowhere::Os(_))));
        let spot = beneath.spot(b"/a//./b/c").unwrap();
        assert_eq!(&*spot.name, c"c");
        assert!(dir.path().join("a/b").is_dir());
        assert_eq!(&*beneath.spot(b"./").unwrap().name, c".");
        assert_eq!(&*beneath.spot(b"out").unwrap().name, c"out");
    }
}
