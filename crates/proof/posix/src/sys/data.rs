//! Calls that read, write, size, allocate, copy and force data.

use super::{Bytes, Falloc, Number, O, SeekFrom, Text, answer, call};
use crate::case::Call;
use rustix::fd::OwnedFd;
use rustix::{fs, io};
use std::ffi::{CString, c_long};
use std::os::fd::AsRawFd;

pub(crate) fn read(fd: &OwnedFd, count: usize) -> Call<Vec<u8>> {
    let mut buffer = vec![0; count];
    let result = io::read(fd, &mut buffer[..]);
    call!(
        "read",
        [Number(fd), count],
        result.map(|count| buffer[..count].to_vec())
    )
}

pub(crate) fn pread(fd: &OwnedFd, count: usize, offset: u64) -> Call<Vec<u8>> {
    let mut buffer = vec![0; count];
    let result = io::pread(fd, &mut buffer[..], offset);
    call!(
        "pread",
        [Number(fd), count, offset],
        result.map(|count| buffer[..count].to_vec())
    )
}

pub(crate) fn write(fd: &OwnedFd, data: &[u8]) -> Call<usize> {
    call!(
        "write",
        [Number(fd), Bytes(data.len())],
        io::write(fd, data)
    )
}

pub(crate) fn pwrite(fd: &OwnedFd, data: &[u8], offset: u64) -> Call<usize> {
    call!(
        "pwrite",
        [Number(fd), Bytes(data.len()), offset],
        io::pwrite(fd, data, offset)
    )
}

pub(crate) fn readv(fd: &OwnedFd, counts: &[usize]) -> Call<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> = counts.iter().map(|count| vec![0; *count]).collect();
    let mut slices: Vec<_> = buffers
        .iter_mut()
        .map(|it| io::IoSliceMut::new(it))
        .collect();
    let result = io::readv(fd, &mut slices);
    let result = result.map(|count| buffers.concat()[..count].to_vec());
    call!("readv", [Number(fd), counts], result)
}

pub(crate) fn writev(fd: &OwnedFd, parts: &[&[u8]]) -> Call<usize> {
    let slices: Vec<_> = parts.iter().map(|it| io::IoSlice::new(it)).collect();
    let result = io::writev(fd, &slices);
    call!("writev", [Number(fd), parts.len()], result)
}

pub(crate) fn lseek(fd: &OwnedFd, to: SeekFrom) -> Call<u64> {
    call!("lseek", [Number(fd), to], fs::seek(fd, to))
}

/// The file's contents from its beginning, by `pread`.
pub(crate) fn contents(fd: &OwnedFd) -> Call<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    let result = loop {
        match io::pread(fd, &mut buffer[..], all.len() as u64) {
            Ok(0) => break Ok(all),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(errno) => break Err(errno),
        }
    };
    call!("read to the end of", [Number(fd)], result)
}

pub(crate) fn truncate(path: &str, length: i64) -> Call<()> {
    let name = CString::new(path).unwrap_or_default();
    // SAFETY: the path is a string that ends with a NUL.
    let result = answer(unsafe { libc::truncate(name.as_ptr(), length) }.into());
    call!("truncate", [path, length], result.map(drop))
}

pub(crate) fn ftruncate(fd: &OwnedFd, length: i64) -> Call<()> {
    // SAFETY: takes numbers only.
    let result = answer(unsafe { libc::ftruncate(fd.as_raw_fd(), length) }.into());
    call!("ftruncate", [Number(fd), length], result.map(drop))
}

pub(crate) fn fallocate(fd: &OwnedFd, mode: Falloc, offset: i64, length: i64) -> Call<()> {
    let result = fs::fallocate(fd, mode, offset as u64, length as u64);
    call!("fallocate", [Number(fd), mode, offset, length], result)
}

pub(crate) fn copy_file_range(
    from: (&OwnedFd, Option<u64>),
    to: (&OwnedFd, Option<u64>),
    count: usize,
) -> Call<usize> {
    let (mut start, mut target) = (from.1, to.1);
    let result = fs::copy_file_range(from.0, start.as_mut(), to.0, target.as_mut(), count);
    let arguments = [Number(from.0), Number(to.0)];
    call!(
        "copy_file_range",
        [arguments[0], from.1, arguments[1], to.1, count],
        result
    )
}

/// With flags, of which there are none yet.
pub(crate) fn copy_file_range_flags(from: &OwnedFd, to: &OwnedFd, flags: u32) -> Call<usize> {
    let no_offset = std::ptr::null_mut::<i64>();
    // SAFETY: both offsets may be null; the others are numbers.
    let result = answer(unsafe {
        libc::syscall(
            libc::SYS_copy_file_range,
            from.as_raw_fd(),
            no_offset,
            to.as_raw_fd(),
            no_offset,
            1_usize,
            flags,
        )
    });
    call!(
        "copy_file_range",
        [Number(from), Number(to), flags],
        result.map(|it| it as usize)
    )
}

pub(crate) fn sendfile(
    to: &OwnedFd,
    from: &OwnedFd,
    offset: Option<&mut u64>,
    count: usize,
) -> Call<usize> {
    let asked = offset.as_deref().copied();
    let result = fs::sendfile(to, from, offset, count);
    call!("sendfile", [Number(to), Number(from), asked, count], result)
}

pub(crate) fn splice(from: &OwnedFd, to: &OwnedFd, count: usize) -> Call<usize> {
    let flags = rustix::pipe::SpliceFlags::empty();
    let result = rustix::pipe::splice(from, None, to, None, count, flags);
    call!("splice", [Number(from), Number(to), count], result)
}

pub(crate) fn fsync(fd: &OwnedFd) -> Call<()> {
    call!("fsync", [Number(fd)], fs::fsync(fd))
}

pub(crate) fn fdatasync(fd: &OwnedFd) -> Call<()> {
    call!("fdatasync", [Number(fd)], fs::fdatasync(fd))
}

pub(crate) fn syncfs(fd: &OwnedFd) -> Call<()> {
    call!("syncfs", [Number(fd)], fs::syncfs(fd))
}

pub(crate) fn sync_file_range(fd: &OwnedFd, offset: i64, length: i64, flags: u32) -> Call<()> {
    // SAFETY: takes numbers only.
    let result = unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, length, flags) };
    call!(
        "sync_file_range",
        [Number(fd), offset, length, flags],
        answer(result.into()).map(drop)
    )
}

pub(crate) fn posix_fadvise(fd: &OwnedFd, offset: i64, length: i64, advice: i32) -> Call<()> {
    // SAFETY: takes numbers only.
    let result = unsafe { libc::posix_fadvise(fd.as_raw_fd(), offset, length, advice) };
    let result = if result == 0 {
        Ok(())
    } else {
        Err(super::E::from_raw_os_error(result))
    };
    call!(
        "posix_fadvise",
        [Number(fd), offset, length, advice],
        result
    )
}

/// `F_GETFL`.
pub(crate) fn flags_of(fd: &OwnedFd) -> Call<O> {
    call!("fcntl", [Number(fd), "F_GETFL"], fs::fcntl_getfl(fd))
}

/// `F_SETFL`.
pub(crate) fn set_flags(fd: &OwnedFd, flags: O) -> Call<()> {
    call!(
        "fcntl",
        [Number(fd), "F_SETFL", flags],
        fs::fcntl_setfl(fd, flags)
    )
}

/// `FIONREAD`: bytes until the end of the file.
pub(crate) fn bytes_left(fd: &OwnedFd) -> Call<u64> {
    call!("ioctl", [Number(fd), "FIONREAD"], io::ioctl_fionread(fd))
}

/// Bytes that this process may make a file long; beyond, `EFBIG` and no signal.
pub(crate) fn limit_file_size(bytes: u64) -> Call<()> {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the pointer is that of a value on the stack; a signal is left unheeded by its number.
    let result: c_long = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit).into()
    };
    call!(
        "setrlimit",
        ["RLIMIT_FSIZE", bytes],
        answer(result).map(drop)
    )
}

/// A file that is read to its end, by its path.
pub(crate) fn contents_of(path: impl Text) -> crate::case::Outcome<Vec<u8>> {
    contents(&super::open(path, O::RDONLY, 0).ok()?).ok()
}
