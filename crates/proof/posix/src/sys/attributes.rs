//! Calls that read and set attributes.

use super::{Access, At, E, Number, Octal, Text, answer, call};
use crate::case::Call;
use crate::times::Time;
use rustix::fd::OwnedFd;
use rustix::fs::{
    self, CWD, Gid, Mode, Stat, StatVfs, Statx, StatxFlags, Timespec, Timestamps, Uid,
};
use std::ffi::CString;

pub(crate) fn stat(path: impl Text) -> Call<Stat> {
    call!("stat", [path], fs::statat(CWD, path, At::empty()))
}

pub(crate) fn lstat(path: impl Text) -> Call<Stat> {
    call!("lstat", [path], fs::statat(CWD, path, At::SYMLINK_NOFOLLOW))
}

pub(crate) fn fstat(fd: &OwnedFd) -> Call<Stat> {
    call!("fstat", [Number(fd)], fs::fstat(fd))
}

pub(crate) fn fstatat(dir: &OwnedFd, path: impl Text, flags: At) -> Call<Stat> {
    call!(
        "fstatat",
        [Number(dir), path, flags],
        fs::statat(dir, path, flags)
    )
}

pub(crate) fn statx(path: impl Text, flags: At) -> Call<Statx> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx_some(path, flags, mask)
}

fn statx_some(path: impl Text, flags: At, mask: StatxFlags) -> Call<Statx> {
    call!(
        "statx",
        [path, flags, mask],
        fs::statx(CWD, path, flags, mask)
    )
}

pub(crate) fn statvfs(path: impl Text) -> Call<StatVfs> {
    call!("statvfs", [path], fs::statvfs(path))
}

pub(crate) fn fstatvfs(fd: &OwnedFd) -> Call<StatVfs> {
    call!("fstatvfs", [Number(fd)], fs::fstatvfs(fd))
}

pub(crate) fn chmod(path: impl Text, mode: u32) -> Call<()> {
    let result = fs::chmod(path, Mode::from_raw_mode(mode));
    call!("chmod", [path, Octal(mode)], result)
}

pub(crate) fn fchmod(fd: &OwnedFd, mode: u32) -> Call<()> {
    let result = fs::fchmod(fd, Mode::from_raw_mode(mode));
    call!("fchmod", [Number(fd), Octal(mode)], result)
}

/// `fchmodat2(2)` with `AT_SYMLINK_NOFOLLOW`.
pub(crate) fn lchmod(path: &str, mode: u32) -> Call<()> {
    // Linux's number of it, the same on all machines; the C library has none yet.
    const FCHMODAT2: libc::c_long = 452;
    let name = CString::new(path).unwrap_or_default();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is a string that ends with a NUL; the others are numbers.
    let result = unsafe { libc::syscall(FCHMODAT2, libc::AT_FDCWD, name.as_ptr(), mode, flags) };
    call!(
        "fchmodat2",
        [path, Octal(mode), "AT_SYMLINK_NOFOLLOW"],
        answer(result).map(drop)
    )
}

/// `None` leaves as it is.
pub(crate) fn chown(path: impl Text, owner: Option<u32>, group: Option<u32>) -> Call<()> {
    chown_by("chown", path, owner, group, At::empty())
}

pub(crate) fn lchown(path: impl Text, owner: Option<u32>, group: Option<u32>) -> Call<()> {
    chown_by("lchown", path, owner, group, At::SYMLINK_NOFOLLOW)
}

fn chown_by(
    name: &'static str,
    path: impl Text,
    owner: Option<u32>,
    group: Option<u32>,
    flags: At,
) -> Call<()> {
    let ids = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
    let result = fs::chownat(CWD, path, ids.0, ids.1, flags);
    Call::new(name, &[&path, &owner, &group], result)
}

pub(crate) fn fchown(fd: &OwnedFd, owner: Option<u32>, group: Option<u32>) -> Call<()> {
    let result = fs::fchown(fd, owner.map(Uid::from_raw), group.map(Gid::from_raw));
    call!("fchown", [Number(fd), owner, group], result)
}

pub(crate) fn access(path: impl Text, access: Access) -> Call<()> {
    call!(
        "access",
        [path, access],
        fs::accessat(CWD, path, access, At::empty())
    )
}

/// With `AT_EACCESS` and `AT_SYMLINK_NOFOLLOW`: `faccessat2(2)`.
pub(crate) fn faccessat(path: &str, access: Access, flags: At) -> Call<()> {
    let name = CString::new(path).unwrap_or_default();
    // SAFETY: the path is a string that ends with a NUL; the others are numbers.
    let result = answer(unsafe {
        let (path, access, flags) = (name.as_ptr(), access.bits(), flags.bits());
        libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path, access, flags)
    });
    call!("faccessat2", [path, access, flags], result.map(drop))
}

/// `unshare()` of the user name space.
pub(crate) fn enter_user_name_space() -> Call<()> {
    // SAFETY: nothing but what the process may do changes; it has one thread.
    let done = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    let result = match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .map_or(E::IO, E::from_raw_os_error)),
    };
    call!("unshare", ["CLONE_NEWUSER"], result)
}

/// The current time (`UTIME_NOW`).
pub(crate) const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: fs::UTIME_NOW,
};
/// Left as it is (`UTIME_OMIT`).
pub(crate) const OMIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: fs::UTIME_OMIT,
};

pub(crate) const fn at(time: Time) -> Timespec {
    Timespec {
        tv_sec: time.0,
        tv_nsec: time.1,
    }
}

pub(crate) fn utimens(path: impl Text, atime: Timespec, mtime: Timespec) -> Call<()> {
    utimens_by(path, atime, mtime, At::empty())
}

pub(crate) fn utimens_link(path: impl Text, atime: Timespec, mtime: Timespec) -> Call<()> {
    utimens_by(path, atime, mtime, At::SYMLINK_NOFOLLOW)
}

fn utimens_by(path: impl Text, atime: Timespec, mtime: Timespec, flags: At) -> Call<()> {
    let times = Timestamps {
        last_access: atime,
        last_modification: mtime,
    };
    let shown = (Shown(atime), Shown(mtime));
    let result = fs::utimensat(CWD, path, &times, flags);
    call!("utimensat", [path, shown.0, shown.1, flags], result)
}

pub(crate) fn futimens(fd: &OwnedFd, atime: Timespec, mtime: Timespec) -> Call<()> {
    let times = Timestamps {
        last_access: atime,
        last_modification: mtime,
    };
    let result = fs::futimens(fd, &times);
    call!("futimens", [Number(fd), Shown(atime), Shown(mtime)], result)
}

/// `utimensat` with no times at all.
pub(crate) fn utimens_null(path: &str) -> Call<()> {
    let name = CString::new(path).unwrap_or_default();
    // SAFETY: the path is a string that ends with a NUL, and the times may be null.
    let result = unsafe { libc::utimensat(libc::AT_FDCWD, name.as_ptr(), std::ptr::null(), 0) };
    call!("utimensat", [path, "NULL"], answer(result.into()).map(drop))
}

struct Shown(Timespec);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.tv_nsec {
            fs::UTIME_NOW => f.write_str("UTIME_NOW"),
            fs::UTIME_OMIT => f.write_str("UTIME_OMIT"),
            nanoseconds => write!(f, "{}.{nanoseconds:09}", self.0.tv_sec),
        }
    }
}

/// The permission bits, set-id bits and the sticky bit of what is at the path. Nothing else is
/// asked for: of that the kernel may know that it has changed, and it would find out the mode with
/// it.
pub(crate) fn mode_of(path: impl Text) -> crate::case::Outcome<u32> {
    let found = statx_some(path, At::SYMLINK_NOFOLLOW, StatxFlags::MODE).ok()?;
    Ok(u32::from(found.stx_mode) & 0o7777)
}

/// Returns whether nothing is at the path.
pub(crate) fn is_gone(path: impl Text) -> crate::case::Outcome {
    lstat(path).fails(E::NOENT)
}
