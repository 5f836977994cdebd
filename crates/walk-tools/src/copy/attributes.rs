//! What a copy takes over besides the data: owner, extended attributes (access control lists are two of them),
//! permissions, times.

use pandofs_walk_fs::{Stat, Time};
use rustix::fd::BorrowedFd;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fgetxattr,
    flistxattr, fremovexattr, fsetxattr, futimens, llistxattr_query, utimensat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

/// Takes over all that there is from an open file or directory to another one. The first thing that could not
/// be done is told; the rest is done all the same.
///
/// # Errors
/// What could not be done.
pub fn take_over(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> Result<(), Failed> {
    // The owner first: a change of it takes set-id bits away.
    let owner = owner(stat, |uid, gid| fchown(to, uid, gid)).map_err(|it| Failed("owner", it));
    let extended = extended(from, to);
    let mode = fchmod(to, Mode::from_raw_mode(stat.mode() & 0o7777));
    let mode = mode.map_err(|it| Failed("permissions", it));
    // The times last: all of the above changes none, but what was written before did.
    let times = futimens(to, &times(stat)).map_err(|it| Failed("times", it));
    owner.and(extended).and(mode).and(times)
}

/// The same for what cannot be opened, as links: owner, permissions but of links, and times.
///
/// # Errors
/// What could not be done.
pub fn take_over_at(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Failed> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let change = |uid, gid| chownat(dir, name, uid, gid, flags);
    let owner = owner(stat, change).map_err(|it| Failed("owner", it));
    let mode = if stat.kind() == pandofs_walk_fs::FileType::Symlink {
        Ok(())
    } else {
        let mode = Mode::from_raw_mode(stat.mode() & 0o7777);
        rustix::fs::chmodat(dir, name, mode, AtFlags::empty())
            .map_err(|it| Failed("permissions", it))
    };
    let times = utimensat(dir, name, &times(stat), flags).map_err(|it| Failed("times", it));
    owner.and(mode).and(times)
}

/// Something of a copy that is not as it should be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cannot take over its {0}: {1}")]
pub struct Failed(pub &'static str, pub Errno);

fn owner(
    stat: &Stat,
    change: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(stat.uid()), Gid::from_raw(stat.gid()));
    if rustix::process::geteuid().is_root() {
        return change(Some(uid), Some(gid));
    }
    // Others may give files to groups that they are in, and keep their own.
    match change(None, Some(gid)) {
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

fn extended(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Failed> {
    let failed = |error| Failed("extended attributes", error);
    let wanted = names(from).map_err(failed)?;
    // A new file may have some as well: those that its directory has for what is made in it.
    let had = names(to).map_err(failed)?;
    let mut first = Ok(());
    let mut done = |name: &CStr, result| match result {
        // Only root may, and the other file system may have none of its kind.
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP)
            if !name.to_bytes().starts_with(b"user.") => {}
        // It was removed meanwhile.
        Ok(()) | Err(Errno::NODATA) => {}
        Err(error) => first = first.and(Err(failed(error))),
    };
    for name in each(&had) {
        if !each(&wanted).any(|it| it == name) {
            done(name, fremovexattr(to, name));
        }
    }
    for name in each(&wanted) {
        let value = all(|buffer| fgetxattr(from, name, buffer));
        let set = value.and_then(|value| fsetxattr(to, name, &value, XattrFlags::empty()));
        done(name, set);
    }
    first
}

/// Names of extended attributes, each with a NUL after it.
fn names(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut small = [0_u8; 256];
    match flistxattr(fd, &mut small[..]) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(Errno::RANGE) => all(|buffer| flistxattr(fd, buffer)),
        Err(error) => Err(error),
    }
}

fn each(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let names = names.split_inclusive(|byte| *byte == 0);
    names.filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Whether an entry has extended attributes, as far as that can be told without opening it.
pub fn may_have(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    // There is no such call relative to a directory, but there is a path to one that is open.
    let path = format!("/proc/self/fd/{}/", dir.as_raw_fd());
    let mut path = path.into_bytes();
    path.extend_from_slice(name.to_bytes());
    !matches!(llistxattr_query(path), Ok(0) | Err(Errno::OPNOTSUPP))
}

fn all(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 16, 0),
            Err(error) => return Err(error),
        }
    }
}

/// Extended attributes of an open file, in the order of their names.
///
/// # Errors
/// When they cannot be read.
pub fn list(fd: BorrowedFd<'_>) -> Result<Vec<(CString, Vec<u8>)>, Errno> {
    let names = names(fd)?;
    let mut listed = Vec::new();
    for name in each(&names) {
        listed.push((name.to_owned(), all(|buffer| fgetxattr(fd, name, buffer))?));
    }
    listed.sort_unstable();
    Ok(listed)
}

/// The times of access and modification.
pub fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: timespec(stat.accessed()),
        last_modification: timespec(stat.modified()),
    }
}

fn timespec(time: Time) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanoseconds),
    }
}
