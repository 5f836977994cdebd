//! Paths as system calls have them: with a directory's descriptor or the current directory before them.

use crate::cwd;
use crate::fds;
use crate::memory;
use crate::route::{self, Side};
use crate::session::{self, Config, Session};
use crate::sys;
use crate::walk::{End, Place, Tree, Walk};
use pandofs_client::{ClientError, Node};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name};
use std::ffi::CString;
use std::sync::Arc;

/// Times that a name is looked up which leads to something that is gone a moment later.
const MAX_LOOKS: usize = 64;

/// The right to search a directory, as the client library has it.
const SEARCH: u16 = 1;

/// A system call's path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    /// The directory where it begins, or `AT_FDCWD`.
    pub dir: i32,
    pub text: &'p [u8],
}

/// Where a path begins to lead.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// It is the kernel's as it is.
    Kernel,
    /// Along this path from this directory.
    Inside(Place, Vec<u8>),
    /// It names a descriptor of this process that stands for a file.
    Descriptor(i32),
}

/// The caller, and the session that it asks.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub session: Arc<Session>,
    pub caller: Arc<Credentials>,
    pub config: &'static Config,
}

/// The target of a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// The kernel's as it is.
    Kernel,
    /// The kernel's, by another path.
    Elsewhere(CString),
    Node(Node, Vec<u8>),
}

/// The end of a path whose last name is to be made, removed or replaced.
#[derive(Debug)]
pub(crate) enum Leaf {
    Kernel,
    Elsewhere(CString),
    Name {
        dir: Place,
        name: Name,
        slash: bool,
    },
    /// It ends in `.`, `..` or the root.
    Dir,
}

/// The error number of a client library's error.
pub(crate) fn errno(error: ClientError) -> i32 {
    error.errno()
}

impl Here {
    /// # Errors
    /// Error numbers.
    pub(crate) fn now() -> Result<Here, i32> {
        Ok(Here {
            session: session::get()?,
            caller: session::caller()?,
            config: session::config().ok_or(libc::EIO)?,
        })
    }
}

impl Tree for Here {
    fn entry(&self, dir: Ino, name: &Name) -> Result<(Ino, FileKind), i32> {
        self.session
            .client
            .entry(&self.caller, dir, name)
            .map_err(errno)
    }

    fn target(&self, link: Ino) -> Result<Vec<u8>, i32> {
        self.session
            .client
            .readlink(&self.caller, link)
            .map_err(errno)
    }

    fn parent(&self, dir: Ino) -> Result<Ino, i32> {
        self.session.client.parent(&self.caller, dir).map_err(errno)
    }

    fn search(&self, dir: Ino) -> Result<(), i32> {
        let client = &self.session.client;
        client.access(&self.caller, dir, SEARCH).map_err(errno)
    }
}

impl<'p> Path<'p> {
    /// The path at these arguments; `None` for a null pointer.
    pub(crate) fn new(dir: usize, text: usize) -> Option<Path<'p>> {
        Some(Path {
            dir: dir as i32,
            text: memory::text(text)?,
        })
    }

    /// Returns whether it may lead into the file system, without asking anybody but the kernel's own tables, and without
    /// allocating anything.
    pub(crate) fn may_be_ours(self) -> bool {
        let Some(config) = session::config() else {
            return false;
        };
        if self.text.starts_with(b"/") {
            return config.prefix.side(self.text) != Side::Outside
                || own_descriptor(self.text).is_some();
        }
        if self.dir == libc::AT_FDCWD && cwd::is_inside() || fds::is_ours(self.dir) {
            return true;
        }
        config.prefix.may_lead_inside(self.text)
    }

    /// Tells where it begins to lead.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn start(self) -> Result<Start, i32> {
        let config = session::config().ok_or(libc::EIO)?;
        if self.text.is_empty() {
            return Err(libc::ENOENT);
        }
        if self.text.len() >= libc::PATH_MAX as usize {
            return Err(libc::ENAMETOOLONG);
        }
        if let Some(fd) = own_descriptor(self.text) {
            return Ok(Start::Descriptor(fd));
        }
        if !self.text.starts_with(b"/") {
            if self.dir == libc::AT_FDCWD {
                if let Some(place) = cwd::inside() {
                    return Ok(Start::Inside(place, self.text.to_vec()));
                }
            } else if fds::is_ours(self.dir) {
                let dir = fds::get(self.dir)?;
                if dir.kind != FileKind::Dir {
                    return Err(libc::ENOTDIR);
                }
                let place = Place {
                    ino: dir.ino,
                    path: dir.path.clone(),
                };
                return Ok(Start::Inside(place, self.text.to_vec()));
            }
        }
        // The kernel knows what its own directories are called, links and all.
        let mut path = match self.text.starts_with(b"/") {
            true => self.text.to_vec(),
            false => match kernel_path(self.dir, b".") {
                Some(dir) => [&dir[..], b"/", self.text].concat(),
                None => return Ok(Start::Kernel),
            },
        };
        loop {
            match config.prefix.side(&path) {
                Side::Inside(rest) => return Ok(Start::Inside(Place::root(), rest.to_vec())),
                Side::Outside => return Ok(Start::Kernel),
                Side::Unclear => {}
            }
            let Some((up, rest)) = route::split_behind_dots(&path) else {
                return Ok(Start::Kernel);
            };
            match kernel_path(libc::AT_FDCWD, up) {
                Some(up) => path = [&up[..], b"/", rest].concat(),
                None => return Ok(Start::Kernel),
            }
        }
    }

    /// Its target; `follow`: also if it ends in a symbolic link.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn find(self, follow: bool) -> Result<Found, i32> {
        let (from, path) = match self.start()? {
            Start::Kernel => return Ok(Found::Kernel),
            Start::Descriptor(_) if !follow => return Ok(Found::Kernel),
            Start::Descriptor(fd) => return of_descriptor(fd),
            Start::Inside(from, path) => (from, path),
        };
        let here = Here::now()?;
        for _ in 0..MAX_LOOKS {
            match find_from(&here, from.clone(), path.clone(), follow) {
                Err(error) if error == FsError::Stale.errno() => {}
                done => return done,
            }
        }
        Err(libc::ENOENT)
    }

    /// As [`Path::find`], and then does something with what is there: again if that is gone when it begins. The kernel's
    /// are left to `elsewhere`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn with_node(
        self,
        follow: bool,
        mut work: impl FnMut(&Here, &Node) -> Result<isize, i32>,
        elsewhere: impl FnOnce(CString) -> isize,
    ) -> Result<Option<isize>, i32> {
        for _ in 0..MAX_LOOKS {
            match self.find(follow)? {
                Found::Kernel => return Ok(None),
                Found::Elsewhere(path) => return Ok(Some(elsewhere(path))),
                Found::Node(node, _) => match work(&Here::now()?, &node) {
                    Err(error) if error == FsError::Stale.errno() => {}
                    done => return done.map(Some),
                },
            }
        }
        Err(libc::ENOENT)
    }

    /// The directory and the name in which it ends.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn leaf(self) -> Result<Leaf, i32> {
        let (from, path) = match self.start()? {
            Start::Kernel | Start::Descriptor(_) => return Ok(Leaf::Kernel),
            Start::Inside(from, path) => (from, path),
        };
        let here = Here::now()?;
        let end = Walk::new(&here, &here.config.prefix).go_to_name(from, &path)?;
        Ok(match end {
            End::Outside(path) => Leaf::Elsewhere(c_string(path)?),
            End::Dir(_) => Leaf::Dir,
            End::Name { dir, name, slash } => Leaf::Name { dir, name, slash },
        })
    }
}

fn find_from(here: &Here, from: Place, path: Vec<u8>, follow: bool) -> Result<Found, i32> {
    let client = &here.session.client;
    let mut walk = Walk::new(here, &here.config.prefix);
    let (mut from, mut path) = (from, path);
    loop {
        let (dir, name, slash) = match walk.go_to_name(from, &path)? {
            End::Outside(path) => return Ok(Found::Elsewhere(c_string(path)?)),
            End::Dir(place) => {
                let node = client.node(&here.caller, place.ino).map_err(errno)?;
                return Ok(Found::Node(node, place.path));
            }
            End::Name { dir, name, slash } => (dir, name, slash),
        };
        let node = client.lookup(&here.caller, dir.ino, &name).map_err(errno)?;
        match node.kind {
            FileKind::Symlink if follow || slash => {
                let behind: &[u8] = if slash { b"/" } else { b"" };
                match walk.through(dir, node.ino, behind)? {
                    Ok((on, rest)) => (from, path) = (on, rest),
                    Err(outside) => return Ok(Found::Elsewhere(c_string(outside)?)),
                }
            }
            FileKind::Dir => return Ok(Found::Node(node, dir.join(&name))),
            _ if slash => return Err(libc::ENOTDIR),
            _ => return Ok(Found::Node(node, dir.join(&name))),
        }
    }
}

/// The target of a descriptor that stands for a file.
///
/// # Errors
/// Error numbers.
pub(crate) fn of_descriptor(fd: i32) -> Result<Found, i32> {
    let file = fds::get(fd)?;
    let here = Here::now()?;
    let attr = here
        .session
        .client
        .getattr(&here.caller, file.ino)
        .map_err(errno)?;
    Ok(Found::Node(attr.into(), file.path.clone()))
}

/// The descriptor of this process, standing for a file, that a path in `/proc` or `/dev` names.
pub(crate) fn own_descriptor(path: &[u8]) -> Option<i32> {
    let number = match path {
        b"/dev/stdin" => b"0",
        b"/dev/stdout" => b"1",
        b"/dev/stderr" => b"2",
        _ => path
            .strip_prefix(b"/dev/fd/")
            .or_else(|| path.strip_prefix(b"/proc/self/fd/"))
            .or_else(|| path.strip_prefix(b"/proc/thread-self/fd/"))
            .or_else(|| own_process(path)?.strip_prefix(b"/fd/"))?,
    };
    let fd: i32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    fds::is_ours(fd).then_some(fd)
}

/// The rest after this process's own number in a path in `/proc`.
fn own_process(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(b"/proc/")?;
    let end = rest.iter().position(|&byte| byte == b'/')?;
    let number: u32 = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    (number == std::process::id()).then_some(&rest[end..])
}

/// The path of a directory that the kernel knows.
fn kernel_path(dir: i32, path: &[u8]) -> Option<Vec<u8>> {
    let path = CString::new(path).ok()?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let args = [
        dir as usize,
        path.as_ptr() as usize,
        flags as usize,
        0,
        0,
        0,
    ];
    let fd = i32::try_from(sys::call(libc::SYS_openat, args)).ok()?;
    if fd < 0 {
        return None;
    }
    let found = sys::readlink(&sys::proc_path(fd));
    sys::close(fd);
    found
}

/// A path for the kernel.
///
/// # Errors
/// `EINVAL` for one that it cannot have.
pub(crate) fn c_string(path: Vec<u8>) -> Result<CString, i32> {
    CString::new(path).map_err(|_| libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_name_descriptors_name_none_that_is_the_kernels() {
        for path in [
            "/dev/fd/0",
            "/proc/self/fd/1",
            "/dev/stdout",
            "/dev/fd/x",
            "/proc/1/fd/0",
        ] {
            assert_eq!(own_descriptor(path.as_bytes()), None, "{path}");
        }
        let own = format!("/proc/{}/fd/3", std::process::id());
        assert_eq!(own_process(own.as_bytes()), Some(&b"/fd/3"[..]));
        assert_eq!(own_process(b"/proc/self/fd/3"), None);
    }

    #[test]
    fn the_kernel_says_what_its_directories_are_called() {
        assert_eq!(
            kernel_path(libc::AT_FDCWD, b"/proc/..").as_deref(),
            Some(&b"/"[..])
        );
        assert_eq!(kernel_path(libc::AT_FDCWD, b"/is/not/there"), None);
    }
}
