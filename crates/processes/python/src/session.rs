//! The class of connections: calls by paths.

use crate::batch;
use crate::error::exception;
use crate::file::File;
use crate::held::Held;
use crate::listing::Listing;
use crate::path::PathArgument;
use pandofs_handles::attributes::{of_mode, of_owner};
use pandofs_handles::{
    Failure, Mount, OpenDir, OpenFile, Result, format, named_caller, xattr_mode,
};
use pandofs_types::{Attr, FsError, SetAttr, SetTime, Time};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};
use std::ffi::c_int;
use std::sync::Arc;

/// Paths that a thread of a batch takes at a time, and asks about together, at most.
const MAX_GROUP: usize = 32;

/// Mode, number, links, user, group, bytes, times of access, modification and change (nanoseconds), units of 512 bytes,
/// device, time when it was made (nanoseconds).
pub(crate) type Attributes = (u32, u64, u32, u32, u32, u64, i64, i64, i64, u64, u32, i64);

pub(crate) fn attributes(attr: &Attr) -> Attributes {
    (
        format(attr.kind) | u32::from(attr.mode),
        attr.ino.0,
        attr.nlink,
        attr.uid,
        attr.gid,
        attr.size,
        attr.atime.0,
        attr.mtime.0,
        attr.ctime.0,
        attr.blocks,
        attr.rdev,
        attr.btime.0,
    )
}

/// A connection to a file system.
#[pyclass(frozen, module = "pandofs._pandofs")]
pub(crate) struct Session {
    held: Held<Mount>,
}

impl Session {
    /// Does something about these paths, while other threads of Python go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        about: &[&PathArgument],
        work: impl FnOnce(&Arc<Mount>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            if about.iter().any(|path| path.bytes.is_empty()) {
                return Err(FsError::NotFound.into());
            }
            work(&self.held.get()?)
        });
        done.map_err(|failure| exception(py, &failure, about))
    }

    /// One call for each path, on threads that take a group of paths at a time, of which the work is told the place of the
    /// first: what it answers, or the exception.
    fn each<'py, T: Send>(
        &self,
        py: Python<'py>,
        paths: &[PathArgument],
        threads: (usize, usize),
        work: impl Fn(&Mount, usize, &[&[u8]]) -> Vec<Result<T>> + Sync,
        made: impl Fn(T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mount = self
            .held
            .get()
            .map_err(|failure| exception(py, &failure, &[]))?;
        let bytes: Vec<&[u8]> = paths.iter().map(|path| path.bytes.as_slice()).collect();
        let results = batch::each(py, &bytes, threads, |first, paths| {
            work(&mount, first, paths)
        });
        // It may have been closed meanwhile, and end now.
        py.detach(move || drop(mount));
        let results = results?;
        let list = PyList::empty(py);
        for (path, result) in paths.iter().zip(results) {
            match result {
                Ok(value) => list.append(made(value)?)?,
                Err(failure) => list.append(exception(py, &failure, &[path]).into_value(py))?,
            }
        }
        Ok(list)
    }
}

#[pymethods]
impl Session {
    /// Connects: `cluster` is the path of a cluster map or addresses of servers; without a user the process's own user and
    /// groups are the caller.
    #[new]
    #[pyo3(signature = (cluster, timeout_ms, cache_bytes, uid, gid, groups, umask))]
    #[expect(clippy::too_many_arguments, reason = "the package alone calls it")]
    fn new(
        py: Python<'_>,
        cluster: PathArgument,
        timeout_ms: u32,
        cache_bytes: u64,
        uid: Option<u32>,
        gid: Option<u32>,
        groups: Vec<u32>,
        umask: u16,
    ) -> PyResult<Session> {
        let connected = py.detach(|| {
            let caller = named_caller(uid, gid, &groups)?;
            Mount::connect(&cluster.bytes, timeout_ms, cache_bytes, caller, umask)
        });
        match connected {
            Ok(mount) => Ok(Session {
                held: Held::new(mount),
            }),
            Err(failure) => Err(exception(py, &failure, &[&cluster])),
        }
    }

    /// Ends the connection when the last file that is open is closed. Unless `wait`, nobody waits any more for servers that
    /// do not answer.
    fn close(&self, py: Python<'_>, wait: bool) {
        py.detach(|| {
            // One that is closed already, or another process's, has nothing to be ended.
            if let Ok(mount) = self.held.take()
                && !wait
            {
                mount.client().close();
            }
        });
    }

    /// As open(2).
    fn open(&self, py: Python<'_>, path: PathArgument, flags: c_int, mode: u32) -> PyResult<File> {
        let opened = self.with(py, &[&path], |mount| {
            OpenFile::open(mount, &path.bytes, flags, mode)
        })?;
        Ok(File::new(opened, path))
    }

    /// As opendir(3), with attributes.
    fn scan(&self, py: Python<'_>, path: PathArgument) -> PyResult<Listing> {
        let opened = self.with(py, &[&path], |mount| {
            OpenDir::open(Arc::clone(mount), &path.bytes, true)
        })?;
        Ok(Listing::new(opened, path))
    }

    /// As stat(2), or as lstat(2).
    fn stat(&self, py: Python<'_>, path: PathArgument, follow: bool) -> PyResult<Attributes> {
        let attr = self.with(py, &[&path], |mount| mount.stat(&path.bytes, follow))?;
        Ok(attributes(&attr))
    }

    /// As access(2).
    fn access(&self, py: Python<'_>, path: PathArgument, rights: c_int) -> PyResult<()> {
        self.with(py, &[&path], |mount| mount.access(&path.bytes, rights))
    }

    /// As chmod(2).
    fn chmod(&self, py: Python<'_>, path: PathArgument, mode: u32, follow: bool) -> PyResult<()> {
        self.with(py, &[&path], |mount| {
            mount.set(&path.bytes, follow, &of_mode(mode))
        })
    }

    /// As chown(2): None leaves it as it is.
    fn chown(
        &self,
        py: Python<'_>,
        path: PathArgument,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    ) -> PyResult<()> {
        self.with(py, &[&path], |mount| {
            mount.set(&path.bytes, follow, &of_owner(uid, gid))
        })
    }

    /// As utimensat(2): the times of access and modification in nanoseconds; None is now.
    fn utime(
        &self,
        py: Python<'_>,
        path: PathArgument,
        times: Option<(i64, i64)>,
        follow: bool,
    ) -> PyResult<()> {
        self.with(py, &[&path], |mount| {
            mount.set(&path.bytes, follow, &of_times(times))
        })
    }

    /// As truncate(2).
    fn truncate(&self, py: Python<'_>, path: PathArgument, size: u64) -> PyResult<()> {
        self.with(py, &[&path], |mount| mount.truncate(&path.bytes, size))
    }

    /// As mkdir(2).
    fn mkdir(&self, py: Python<'_>, path: PathArgument, mode: u32) -> PyResult<()> {
        self.with(py, &[&path], |mount| mount.mkdir(&path.bytes, mode))
    }

    /// As rmdir(2).
    fn rmdir(&self, py: Python<'_>, path: PathArgument) -> PyResult<()> {
        self.with(py, &[&path], |mount| mount.rmdir(&path.bytes))
    }

    /// As unlink(2).
    fn unlink(&self, py: Python<'_>, path: PathArgument) -> PyResult<()> {
        self.with(py, &[&path], |mount| mount.unlink(&path.bytes))
    }

    /// As renameat2(2), with its flags.
    fn rename(
        &self,
        py: Python<'_>,
        path: PathArgument,
        new_path: PathArgument,
        flags: u32,
    ) -> PyResult<()> {
        self.with(py, &[&path, &new_path], |mount| {
            mount.rename(&path.bytes, mount, &new_path.bytes, flags)
        })
    }

    /// As link(2).
    fn link(&self, py: Python<'_>, path: PathArgument, new_path: PathArgument) -> PyResult<()> {
        self.with(py, &[&path, &new_path], |mount| {
            mount.link(&path.bytes, mount, &new_path.bytes)
        })
    }

    /// As symlink(2).
    fn symlink(&self, py: Python<'_>, target: PathArgument, path: PathArgument) -> PyResult<()> {
        self.with(py, &[&target, &path], |mount| {
            mount.symlink(&target.bytes, &path.bytes)
        })
    }

    /// As readlink(2).
    fn readlink<'py>(&self, py: Python<'py>, path: PathArgument) -> PyResult<Bound<'py, PyBytes>> {
        let target = self.with(py, &[&path], |mount| mount.readlink(&path.bytes))?;
        Ok(PyBytes::new(py, &target))
    }

    /// As getxattr(2).
    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: PathArgument,
        name: PathArgument,
        follow: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.with(py, &[&path], |mount| {
            mount.with_node(&path.bytes, follow, |node| {
                let client = mount.client();
                Ok(client.getxattr(&mount.caller, node.ino, &name.bytes)?)
            })
        })?;
        Ok(PyBytes::new(py, &value))
    }

    /// As listxattr(2): the names.
    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: PathArgument,
        follow: bool,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let names = self.with(py, &[&path], |mount| {
            mount.with_node(&path.bytes, follow, |node| {
                Ok(mount.client().listxattr(&mount.caller, node.ino)?)
            })
        })?;
        Ok(names.iter().map(|name| PyBytes::new(py, name)).collect())
    }

    /// As setxattr(2), with its flags.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: PathArgument,
        name: PathArgument,
        value: PyBackedBytes,
        flags: c_int,
        follow: bool,
    ) -> PyResult<()> {
        self.with(py, &[&path], |mount| {
            let mode = xattr_mode(flags)?;
            mount.with_node(&path.bytes, follow, |node| {
                let client = mount.client();
                Ok(client.setxattr(&mount.caller, node.ino, &name.bytes, &value, mode)?)
            })
        })
    }

    /// As removexattr(2).
    fn removexattr(
        &self,
        py: Python<'_>,
        path: PathArgument,
        name: PathArgument,
        follow: bool,
    ) -> PyResult<()> {
        self.with(py, &[&path], |mount| {
            mount.with_node(&path.bytes, follow, |node| {
                let client = mount.client();
                Ok(client.removexattr(&mount.caller, node.ino, &name.bytes)?)
            })
        })
    }

    /// Bytes in all, free, and free for others than user 0, and inodes in use.
    fn statvfs(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let space = self.with(py, &[], |mount| Ok(mount.client().statfs()?))?;
        Ok((space.total, space.free, space.available, space.inodes))
    }

    /// The bytes of each file, or the exception.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathArgument>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let read = |mount: &Mount, _: usize, paths: &[&[u8]]| {
            let files = paths.iter().map(|path| (*path, usize::MAX));
            mount.read_many(&files.collect::<Vec<_>>())
        };
        let made = |bytes: Vec<u8>| Ok(PyBytes::new(py, &bytes).into_any());
        self.each(py, &paths, grouped(&paths, threads), read, made)
    }

    /// Attributes of each path, or the exception.
    fn stat_many<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathArgument>,
        follow: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let stat = |mount: &Mount, _: usize, paths: &[&[u8]]| mount.stat_many(paths, follow);
        let made = |attr: Attr| Ok(attributes(&attr).into_pyobject(py)?.into_any());
        self.each(py, &paths, grouped(&paths, threads), stat, made)
    }

    /// Opens each path as open(2), writes its bytes and closes it: None, or the exception.
    fn create_many<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathArgument>,
        contents: Vec<PyBackedBytes>,
        flags: c_int,
        mode: u32,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        if paths.len() != contents.len() {
            let failure = Failure::Invalid("there are not as many contents as paths");
            return Err(exception(py, &failure, &[]));
        }
        let create_one = |mount: &Mount, path: &[u8], contents: &[u8]| {
            if path.is_empty() {
                return Err(FsError::NotFound.into());
            }
            let file = OpenFile::open(mount, path, flags, mode)?;
            file.write_whole(contents)?;
            Arc::new(file).close()
        };
        let create = |mount: &Mount, first: usize, paths: &[&[u8]]| {
            let files = paths.iter().copied();
            let files = files.zip(contents[first..].iter().map(|contents| &contents[..]));
            match flags & libc::O_EXCL {
                0 => files
                    .map(|(path, contents)| create_one(mount, path, contents))
                    .collect(),
                _ => mount.create_many(&files.collect::<Vec<_>>(), mode),
            }
        };
        let made = |()| Ok(py.None().into_bound(py));
        // Those that may be there are opened one by one.
        let threads = match flags & libc::O_EXCL {
            0 => (threads, 1),
            _ => grouped(&paths, threads),
        };
        self.each(py, &paths, threads, create, made)
    }
}

/// The threads of a batch, and how many paths each takes at a time: no thread is without any.
fn grouped(paths: &[PathArgument], threads: usize) -> (usize, usize) {
    let each = paths.len().div_ceil(threads.max(1));
    (threads, each.clamp(1, MAX_GROUP))
}

fn of_times(times: Option<(i64, i64)>) -> SetAttr {
    let time = |given: Option<i64>| Some(given.map_or(SetTime::Now, |at| SetTime::At(Time(at))));
    SetAttr {
        atime: time(times.map(|(atime, _)| atime)),
        mtime: time(times.map(|(_, mtime)| mtime)),
        ..SetAttr::default()
    }
}
