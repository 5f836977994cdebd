//! Mapped files.

use super::{E, Number, answer, call};
use crate::case::Call;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::c_void;
use std::os::fd::AsRawFd;

/// Bytes of a page; all machines that this runs on have this or a divisor of it.
pub(crate) const PAGE: usize = 4_096;

/// A mapping, which is taken away when it is dropped. It is read and written byte by byte with
/// volatile accesses, because others change it, too.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut c_void,
    length: usize,
}

impl Mapping {
    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.length);
        // SAFETY: the byte is inside of the mapping, which lives as long as `self`. If the file has
        // no such page the process gets SIGBUS, which is what some cases are about.
        unsafe { self.start.cast::<u8>().add(at).read_volatile() }
    }

    pub(crate) fn set(&self, at: usize, byte: u8) {
        assert!(at < self.length);
        // SAFETY: as in `byte`; nothing has a reference into the mapping.
        unsafe { self.start.cast::<u8>().add(at).write_volatile(byte) }
    }

    pub(crate) fn bytes(&self, at: usize, count: usize) -> Vec<u8> {
        (at..at + count).map(|at| self.byte(at)).collect()
    }

    pub(crate) fn fill(&self, at: usize, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            self.set(place, *byte);
        }
    }

    /// `pread` into it: it begins at a page, as `O_DIRECT` may want it.
    pub(crate) fn read_direct(&self, fd: &OwnedFd, offset: u64, count: usize) -> Result<usize, E> {
        assert!(count <= self.length);
        // SAFETY: the mapping has room for so many bytes.
        let result = unsafe { libc::pread(fd.as_raw_fd(), self.start, count, offset as i64) };
        answer(result as libc::c_long).map(|count| count as usize)
    }

    /// `pwrite` from it.
    pub(crate) fn write_direct(&self, fd: &OwnedFd, offset: u64, count: usize) -> Result<usize, E> {
        assert!(count <= self.length);
        // SAFETY: the mapping has so many bytes.
        let result = unsafe { libc::pwrite(fd.as_raw_fd(), self.start, count, offset as i64) };
        answer(result as libc::c_long).map(|count| count as usize)
    }

    /// `msync` of all of it.
    pub(crate) fn sync(&self, flags: MsyncFlags) -> Call<()> {
        // SAFETY: start and length are those of a mapping of this process.
        let result = unsafe { msync(self.start, self.length, flags) };
        call!("msync", [self.length, flags], result)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and is not used any more.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

pub(crate) fn map(fd: &OwnedFd, length: usize, writable: bool, flags: MapFlags) -> Call<Mapping> {
    let mut access = ProtFlags::READ;
    access.set(ProtFlags::WRITE, writable);
    // SAFETY: the kernel chooses where, so nothing that is in use is mapped over.
    let result = unsafe { mmap(std::ptr::null_mut(), length, access, flags, fd, 0) };
    let result = result.map(|start| Mapping { start, length });
    call!("mmap", [length, access, flags, Number(fd)], result)
}

/// `MAP_SHARED`, to be read and written.
pub(crate) fn map_shared(fd: &OwnedFd, length: usize) -> Call<Mapping> {
    map(fd, length, true, MapFlags::SHARED)
}
