//! Attributes, rights and extended attributes.

use crate::at::{Found, Here, Path, errno, of_descriptor};
use crate::fds;
use crate::memory;
use crate::session;
use crate::sys;
use pandofs_client::Node;
use pandofs_types::limits::{MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES};
use pandofs_types::{Attr, Credentials, FileKind, Ino, SetAttr, SetTime, Time};
use std::ffi::CString;
use std::sync::Arc;

/// The device number of the file system where it is not mounted: one that no device has.
const DEVICE: (u32, u32) = (0, 0xf_5000);
/// Bytes in which programs best read and write.
const PREFERRED_BYTES: i64 = 1 << 20;
const NANOS: i64 = 1_000_000_000;
/// Type of the file system by statfs(2): one of those in user space, as its mount has it.
const FUSE_MAGIC: i64 = 0x6573_5546;
/// Bytes of the blocks that room is told in.
const ROOM_BLOCK: u64 = 4_096;

/// A node that a system call is about, or a call of the kernel's.
pub(crate) type Answer = Result<Option<isize>, i32>;

fn mode(attr: &Attr) -> u32 {
    pandofs_handles::format(attr.kind) | u32::from(attr.mode)
}

fn seconds(time: Time) -> (i64, i64) {
    (time.0.div_euclid(NANOS), time.0.rem_euclid(NANOS))
}

fn stat(attr: &Attr) -> libc::stat {
    // SAFETY: it is all numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = libc::makedev(DEVICE.0, DEVICE.1);
    stat.st_ino = attr.ino.0;
    stat.st_nlink = attr.nlink.into();
    stat.st_mode = mode(attr);
    stat.st_uid = attr.uid;
    stat.st_gid = attr.gid;
    stat.st_rdev = attr.rdev.into();
    stat.st_size = attr.size as i64;
    stat.st_blksize = PREFERRED_BYTES;
    stat.st_blocks = attr.blocks as i64;
    (stat.st_atime, stat.st_atime_nsec) = seconds(attr.atime);
    (stat.st_mtime, stat.st_mtime_nsec) = seconds(attr.mtime);
    (stat.st_ctime, stat.st_ctime_nsec) = seconds(attr.ctime);
    stat
}

fn statx(attr: &Attr) -> libc::statx {
    let stamp = |time: Time| {
        let (seconds, nanos) = seconds(time);
        // SAFETY: it is all numbers.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        stamp.tv_sec = seconds;
        stamp.tv_nsec = nanos as u32;
        stamp
    };
    // SAFETY: it is all numbers.
    let mut statx: libc::statx = unsafe { std::mem::zeroed() };
    statx.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    statx.stx_blksize = PREFERRED_BYTES as u32;
    statx.stx_nlink = attr.nlink;
    statx.stx_uid = attr.uid;
    statx.stx_gid = attr.gid;
    statx.stx_mode = mode(attr) as u16;
    statx.stx_ino = attr.ino.0;
    statx.stx_size = attr.size;
    statx.stx_blocks = attr.blocks;
    statx.stx_atime = stamp(attr.atime);
    statx.stx_btime = stamp(attr.btime);
    statx.stx_ctime = stamp(attr.ctime);
    statx.stx_mtime = stamp(attr.mtime);
    statx.stx_rdev_major = libc::major(attr.rdev.into());
    statx.stx_rdev_minor = libc::minor(attr.rdev.into());
    (statx.stx_dev_major, statx.stx_dev_minor) = DEVICE;
    statx
}

/// Subject of a call with `AT_EMPTY_PATH` and the like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'p> {
    path: Option<Path<'p>>,
    fd: i32,
    follow: bool,
}

impl<'p> Subject<'p> {
    /// A path; `follow`: also if it ends in a symbolic link.
    pub(crate) fn path(path: Path<'p>, follow: bool) -> Subject<'p> {
        Subject {
            path: Some(path),
            fd: -1,
            follow,
        }
    }

    /// An open file.
    pub(crate) fn fd(fd: i32) -> Subject<'p> {
        Subject {
            path: None,
            fd,
            follow: true,
        }
    }

    /// A path, or the open file before it if it is empty and may be.
    pub(crate) fn at(path: Option<Path<'p>>, dir: usize, flags: usize) -> Subject<'p> {
        let may_be_empty = flags & libc::AT_EMPTY_PATH as usize != 0;
        match path {
            Some(path) if !path.text.is_empty() || !may_be_empty => {
                Subject::path(path, flags & libc::AT_SYMLINK_NOFOLLOW as usize == 0)
            }
            _ if dir as i32 == libc::AT_FDCWD => Subject::path(
                Path {
                    dir: libc::AT_FDCWD,
                    text: b".",
                },
                true,
            ),
            _ => Subject::fd(dir as i32),
        }
    }

    fn with(
        self,
        mut work: impl FnMut(&Here, &Node) -> Result<isize, i32>,
        elsewhere: impl FnOnce(CString) -> isize,
    ) -> Answer {
        match self.path {
            Some(path) => path.with_node(self.follow, work, elsewhere),
            None if !fds::is_ours(self.fd) => Ok(None),
            None => match of_descriptor(self.fd)? {
                Found::Node(node, _) => work(&Here::now()?, &node).map(Some),
                Found::Kernel | Found::Elsewhere(_) => Ok(None),
            },
        }
    }
}

fn set_of(here: &Here, node: &Node, attributes: &SetAttr) -> Result<isize, i32> {
    if *attributes != SetAttr::default() {
        let client = &here.session.client;
        client
            .setattr(&here.caller, node.ino, attributes.clone())
            .map_err(errno)?;
    }
    Ok(0)
}

/// Right of the caller to what only a file's owner may do.
pub(crate) fn is_owner(caller: &Credentials, attr: &Attr) -> bool {
    caller.uid == attr.uid || caller.uid == 0
}

/// As `newfstatat`, into this room.
///
/// # Errors
/// Error numbers.
pub(crate) fn get(subject: Subject<'_>, room: usize, flags: usize) -> Answer {
    subject.with(
        |_, node| {
            memory::check(room, 1)?;
            memory::put(room, stat(&node.attr));
            Ok(0)
        },
        |path| at(libc::SYS_newfstatat, &path, [room, flags, 0, 0]),
    )
}

/// As `statx`, into this room.
///
/// # Errors
/// Error numbers.
pub(crate) fn get_more(subject: Subject<'_>, flags: usize, mask: usize, room: usize) -> Answer {
    subject.with(
        |_, node| {
            memory::check(room, 1)?;
            memory::put(room, statx(&node.attr));
            Ok(0)
        },
        |path| at(libc::SYS_statx, &path, [flags, mask, room, 0]),
    )
}

/// A call of the kernel's with a path in place of a directory and a path.
fn at(number: i64, path: &CString, rest: [usize; 4]) -> isize {
    let [third, fourth, fifth, sixth] = rest;
    let (dir, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
    sys::call(number, [dir, path, third, fourth, fifth, sixth])
}

/// As `faccessat2`.
///
/// # Errors
/// Error numbers.
pub(crate) fn access(subject: Subject<'_>, rights: usize, flags: usize) -> Answer {
    if rights & !0o7 != 0 {
        return Err(libc::EINVAL);
    }
    let is_effective = flags & libc::AT_EACCESS as usize != 0;
    subject.with(
        |here, node| {
            let caller = match is_effective {
                true => Arc::clone(&here.caller),
                false => session::real_caller()?,
            };
            let client = &here.session.client;
            client
                .access(&caller, node.ino, rights as u16)
                .map_err(errno)?;
            Ok(0)
        },
        |path| at(libc::SYS_faccessat2, &path, [rights, flags, 0, 0]),
    )
}

/// As `fchmodat2`.
///
/// # Errors
/// Error numbers.
pub(crate) fn chmod(subject: Subject<'_>, mode: usize, flags: usize) -> Answer {
    let set = SetAttr {
        mode: Some((mode & 0o7777) as u16),
        ..SetAttr::default()
    };
    let change = |here: &Here, node: &Node| match node.kind {
        FileKind::Symlink => Err(libc::EOPNOTSUPP),
        _ => set_of(here, node, &set),
    };
    subject.with(change, |path| match flags {
        0 => at(libc::SYS_fchmodat, &path, [mode, 0, 0, 0]),
        _ => at(libc::SYS_fchmodat2, &path, [mode, flags, 0, 0]),
    })
}

/// As `fchownat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn chown(subject: Subject<'_>, uid: usize, gid: usize, flags: usize) -> Answer {
    let given = |id: usize| (id as u32 != u32::MAX).then_some(id as u32);
    let set = SetAttr {
        uid: given(uid),
        gid: given(gid),
        // With neither only these go.
        clear_set_id: given(uid).is_none() && given(gid).is_none(),
        ..SetAttr::default()
    };
    subject.with(
        |here, node| set_of(here, node, &set),
        |path| at(libc::SYS_fchownat, &path, [uid, gid, flags, 0]),
    )
}

/// As `utimensat`, with the two times as numbers, or none for now.
///
/// # Errors
/// Error numbers.
pub(crate) fn set_times(
    subject: Subject<'_>,
    times: Option<[[i64; 2]; 2]>,
    flags: usize,
) -> Answer {
    let time = |[seconds, nanos]: [i64; 2]| match nanos {
        libc::UTIME_OMIT => Ok(None),
        libc::UTIME_NOW => Ok(Some(SetTime::Now)),
        0..NANOS => Ok(Some(SetTime::At(Time(
            seconds.saturating_mul(NANOS).saturating_add(nanos),
        )))),
        _ => Err(libc::EINVAL),
    };
    let (atime, mtime) = match times {
        Some([atime, mtime]) => (time(atime)?, time(mtime)?),
        None => (Some(SetTime::Now), Some(SetTime::Now)),
    };
    let set = SetAttr {
        atime,
        mtime,
        ..SetAttr::default()
    };
    // A caller that may write can set both to now, and the owner alone one of them.
    let is_one_now = matches!(
        (atime, mtime),
        (Some(SetTime::Now), None) | (None, Some(SetTime::Now))
    );
    subject.with(
        |here, node| match is_one_now && !is_owner(&here.caller, &node.attr) {
            true => Err(libc::EPERM),
            false => set_of(here, node, &set),
        },
        |path| {
            let place = times.as_ref().map_or(0, |times| times.as_ptr() as usize);
            at(libc::SYS_utimensat, &path, [place, flags, 0, 0])
        },
    )
}

/// The times of `utimes`, in microseconds.
///
/// # Errors
/// `EINVAL` for what is no time, `EFAULT` for a pointer that leads nowhere.
pub(crate) fn of_microseconds(pointer: usize) -> Result<Option<[[i64; 2]; 2]>, i32> {
    let times: Option<[[i64; 2]; 2]> = memory::get_any(pointer)?;
    let nanos = |[seconds, micros]: [i64; 2]| match micros {
        0..1_000_000 => Ok([seconds, micros * 1_000]),
        _ => Err(libc::EINVAL),
    };
    times
        .map(|[atime, mtime]| Ok([nanos(atime)?, nanos(mtime)?]))
        .transpose()
}

/// As `statfs`.
///
/// # Errors
/// Error numbers.
pub(crate) fn room(subject: Subject<'_>, place: usize) -> Answer {
    subject.with(
        |here, _| {
            memory::check(place, 1)?;
            let space = here.session.client.statfs().map_err(errno)?;
            // SAFETY: it is all numbers.
            let mut statfs: libc::statfs = unsafe { std::mem::zeroed() };
            statfs.f_type = FUSE_MAGIC;
            statfs.f_bsize = ROOM_BLOCK as i64;
            statfs.f_frsize = ROOM_BLOCK as i64;
            statfs.f_blocks = space.total / ROOM_BLOCK;
            statfs.f_bfree = space.free / ROOM_BLOCK;
            statfs.f_bavail = space.available / ROOM_BLOCK;
            // Nothing but space limits them, so that as many more are said to fit as there are free blocks, as by a mount.
            statfs.f_ffree = statfs.f_bavail;
            statfs.f_files = space.inodes.saturating_add(statfs.f_ffree);
            statfs.f_namelen = libc::NAME_MAX as i64;
            memory::put(place, statfs);
            Ok(0)
        },
        |path| sys::call3(libc::SYS_statfs, path.as_ptr() as usize, place, 0),
    )
}

/// A call for extended attributes: what it is about, and the arguments behind that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XattrCall<'p> {
    pub subject: Subject<'p>,
    /// The call of this kind by path.
    pub number: i64,
    pub rest: [usize; 4],
}

impl XattrCall<'_> {
    fn with(self, mut work: impl FnMut(&Here, Ino) -> Result<isize, i32>) -> Answer {
        let [first, second, third, fourth] = self.rest;
        self.subject.with(
            |here, node| work(here, node.ino),
            |path| {
                let args = [path.as_ptr() as usize, first, second, third, fourth, 0];
                sys::call(self.number, args)
            },
        )
    }

    fn name<'n>(self) -> Result<&'n [u8], i32> {
        let name = memory::text(self.rest[0]).ok_or(libc::EFAULT)?;
        match name.len() {
            1..=MAX_XATTR_NAME_BYTES => Ok(name),
            _ => Err(libc::ERANGE),
        }
    }

    /// As `getxattr`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn get(self) -> Answer {
        let (name, [_, room, size, _]) = (self.name()?, self.rest);
        self.with(|here, ino| {
            let value = here
                .session
                .client
                .getxattr(&here.caller, ino, name)
                .map_err(errno)?;
            give(&value, room, size)
        })
    }

    /// As `listxattr`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn list(self) -> Answer {
        let [room, size, ..] = self.rest;
        self.with(|here, ino| {
            let names = here
                .session
                .client
                .listxattr(&here.caller, ino)
                .map_err(errno)?;
            let list: Vec<u8> = names
                .iter()
                .flat_map(|name| [&name[..], b"\0"].concat())
                .collect();
            give(&list, room, size)
        })
    }

    /// As `setxattr`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn set(self) -> Answer {
        let (name, [_, value, size, flags]) = (self.name()?, self.rest);
        if size > MAX_XATTR_VALUE_BYTES {
            return Err(libc::E2BIG);
        }
        let mode = pandofs_handles::xattr_mode(flags as i32).map_err(|failure| failure.errno())?;
        memory::check(value, size)?;
        let value = memory::bytes(value, size);
        self.with(|here, ino| {
            let client = &here.session.client;
            client
                .setxattr(&here.caller, ino, name, value, mode)
                .map_err(errno)?;
            Ok(0)
        })
    }

    /// As `removexattr`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn remove(self) -> Answer {
        let name = self.name()?;
        self.with(|here, ino| {
            here.session
                .client
                .removexattr(&here.caller, ino, name)
                .map_err(errno)?;
            Ok(0)
        })
    }
}

/// Bytes into a call's room; with none, how many there are.
fn give(bytes: &[u8], room: usize, size: usize) -> Result<isize, i32> {
    match size {
        0 => {}
        size if size < bytes.len() => return Err(libc::ERANGE),
        _ => {
            memory::check(room, bytes.len())?;
            memory::put_bytes(room, bytes);
        }
    }
    Ok(bytes.len() as isize)
}

/// As `umask`: what is made from now on.
pub(crate) fn set_umask(umask: usize) {
    session::set_umask(umask as u32);
}
