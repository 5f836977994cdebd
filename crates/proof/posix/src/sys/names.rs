//! Calls that make, move and remove names.

use super::{At, Number, O, Octal, Rename, Text, answer, call};
use crate::case::Call;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{self, CWD, FileType, Mode};

pub(crate) fn open(path: impl Text, flags: O, mode: u32) -> Call<OwnedFd> {
    let result = fs::openat(CWD, path, flags | O::CLOEXEC, Mode::from_raw_mode(mode));
    call!("open", [path, flags, Octal(mode)], result)
}

pub(crate) fn openat(dir: &OwnedFd, path: impl Text, flags: O, mode: u32) -> Call<OwnedFd> {
    let result = fs::openat(dir, path, flags | O::CLOEXEC, Mode::from_raw_mode(mode));
    call!("openat", [Number(dir), path, flags, Octal(mode)], result)
}

pub(crate) fn mkdir(path: impl Text, mode: u32) -> Call<()> {
    let result = fs::mkdirat(CWD, path, Mode::from_raw_mode(mode));
    call!("mkdir", [path, Octal(mode)], result)
}

pub(crate) fn mkdirat(dir: &OwnedFd, path: impl Text, mode: u32) -> Call<()> {
    let result = fs::mkdirat(dir, path, Mode::from_raw_mode(mode));
    call!("mkdirat", [Number(dir), path, Octal(mode)], result)
}

/// `number` is the device's, as `makedev(3)` makes it.
pub(crate) fn mknod(path: impl Text, kind: FileType, mode: u32, number: u64) -> Call<()> {
    let result = fs::mknodat(CWD, path, kind, Mode::from_raw_mode(mode), number);
    call!("mknod", [path, kind, Octal(mode), number], result)
}

pub(crate) fn mkfifo(path: impl Text, mode: u32) -> Call<()> {
    mknod(path, FileType::Fifo, mode, 0)
}

pub(crate) fn rmdir(path: impl Text) -> Call<()> {
    call!("rmdir", [path], fs::unlinkat(CWD, path, At::REMOVEDIR))
}

pub(crate) fn unlink(path: impl Text) -> Call<()> {
    call!("unlink", [path], fs::unlinkat(CWD, path, At::empty()))
}

pub(crate) fn unlinkat(dir: &OwnedFd, path: impl Text, flags: At) -> Call<()> {
    let result = fs::unlinkat(dir, path, flags);
    call!("unlinkat", [Number(dir), path, flags], result)
}

pub(crate) fn link(old: impl Text, new: impl Text) -> Call<()> {
    call!(
        "link",
        [old, new],
        fs::linkat(CWD, old, CWD, new, At::empty())
    )
}

pub(crate) fn link_following(old: impl Text, new: impl Text) -> Call<()> {
    let flags = At::SYMLINK_FOLLOW;
    call!(
        "linkat",
        [old, new, flags],
        fs::linkat(CWD, old, CWD, new, flags)
    )
}

/// Gives an open file a name (`AT_EMPTY_PATH`).
pub(crate) fn link_open_file(fd: &OwnedFd, new: impl Text) -> Call<()> {
    let flags = At::EMPTY_PATH;
    call!(
        "linkat",
        [Number(fd), "", new, flags],
        fs::linkat(fd, "", CWD, new, flags)
    )
}

pub(crate) fn symlink(target: impl Text, path: impl Text) -> Call<()> {
    call!("symlink", [target, path], fs::symlinkat(target, CWD, path))
}

pub(crate) fn readlink(path: impl Text) -> Call<Vec<u8>> {
    let result = fs::readlinkat(CWD, path, Vec::new());
    call!("readlink", [path], result.map(|target| target.into_bytes()))
}

/// With a buffer of so many bytes.
pub(crate) fn readlink_into(path: impl Text, size: usize) -> Call<Vec<u8>> {
    let mut buffer = vec![0; size];
    let result = fs::readlinkat_raw(CWD, path, &mut buffer[..]);
    call!(
        "readlink",
        [path, size],
        result.map(|count| buffer[..count].to_vec())
    )
}

pub(crate) fn readlink_open(fd: &OwnedFd) -> Call<Vec<u8>> {
    let result = fs::readlinkat(fd, "", Vec::new());
    call!(
        "readlinkat",
        [Number(fd), ""],
        result.map(|target| target.into_bytes())
    )
}

pub(crate) fn rename(old: impl Text, new: impl Text) -> Call<()> {
    call!("rename", [old, new], fs::renameat(CWD, old, CWD, new))
}

pub(crate) fn renameat2(old: impl Text, new: impl Text, flags: Rename) -> Call<()> {
    let result = fs::renameat_with(CWD, old, CWD, new, flags);
    call!("renameat2", [old, new, flags], result)
}

pub(crate) fn umask(mask: u32) -> u32 {
    rustix::process::umask(Mode::from_raw_mode(mask)).as_raw_mode()
}

/// A second descriptor of the same open file description.
pub(crate) fn dup(fd: &OwnedFd) -> Call<OwnedFd> {
    call!("dup", [Number(fd)], rustix::io::dup(fd))
}

/// A new open file description of what the descriptor is of, by `/proc/self/fd`.
pub(crate) fn reopen(fd: &OwnedFd, flags: O) -> Call<OwnedFd> {
    use std::os::fd::AsRawFd;
    open(&format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, 0)
}

pub(crate) fn chdir(path: impl Text) -> Call<()> {
    call!("chdir", [path], rustix::process::chdir(path))
}

pub(crate) fn fchdir(fd: &OwnedFd) -> Call<()> {
    call!("fchdir", [Number(fd)], rustix::process::fchdir(fd))
}

/// A stream socket bound to the path.
pub(crate) fn bind(path: &str) -> Call<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
    let result = socket(AddressFamily::UNIX, SocketType::STREAM, None)
        .and_then(|fd| bind(&fd, &SocketAddrUnix::new(path)?).map(|()| fd));
    call!("bind", [path], result)
}

/// A stream socket connected to the one bound to the path.
pub(crate) fn connect(path: &str) -> Call<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let result = socket(AddressFamily::UNIX, SocketType::STREAM, None)
        .and_then(|fd| connect(&fd, &SocketAddrUnix::new(path)?).map(|()| fd));
    call!("connect", [path], result)
}

/// `open_tree(2)` with no flags but `O_PATH`'s own would do the same; this is for `O_DSYNC`, which
/// `rustix` takes for `O_SYNC`.
pub(crate) fn open_raw(path: &std::ffi::CStr, flags: i32) -> Call<OwnedFd> {
    // SAFETY: the path is a string that ends with a NUL.
    let result = answer(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0) }.into());
    // SAFETY: the number is that of a descriptor just made, which no other code knows.
    let result = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
    call!("open", [path, flags], result)
}
