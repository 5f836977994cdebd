//! Locks: `flock`, and record locks of a process or of an open file description.

use super::{Flock, Number, answer, call};
use crate::case::Call;
use rustix::fd::OwnedFd;
use std::os::fd::AsRawFd;

pub(crate) fn flock(fd: &OwnedFd, operation: Flock) -> Call<()> {
    call!(
        "flock",
        [Number(fd), operation],
        rustix::fs::flock(fd, operation)
    )
}

/// A record lock: kind and range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub kind: Kind,
    /// From the beginning of the file.
    pub start: i64,
    /// 0 for all up to the end, however far that goes.
    pub length: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Unlock,
}

impl Record {
    pub(crate) const fn read(start: i64, length: i64) -> Record {
        Record {
            kind: Kind::Read,
            start,
            length,
        }
    }

    pub(crate) const fn write(start: i64, length: i64) -> Record {
        Record {
            kind: Kind::Write,
            start,
            length,
        }
    }

    pub(crate) const fn unlock(start: i64, length: i64) -> Record {
        Record {
            kind: Kind::Unlock,
            start,
            length,
        }
    }

    fn raw(self, whence: i32) -> libc::flock {
        let kind = match self.kind {
            Kind::Read => libc::F_RDLCK,
            Kind::Write => libc::F_WRLCK,
            Kind::Unlock => libc::F_UNLCK,
        };
        libc::flock {
            l_type: kind as i16,
            l_whence: whence as i16,
            l_start: self.start,
            l_len: self.length,
            l_pid: 0,
        }
    }
}

/// `F_SETLK`.
pub(crate) fn lock(fd: &OwnedFd, record: Record) -> Call<()> {
    let result = fcntl(fd, libc::F_SETLK, record, libc::SEEK_SET);
    call!("fcntl", [Number(fd), "F_SETLK", record], result.map(drop))
}

/// `F_SETLK` with the start from elsewhere.
pub(crate) fn lock_from(fd: &OwnedFd, record: Record, whence: i32) -> Call<()> {
    let result = fcntl(fd, libc::F_SETLK, record, whence);
    call!(
        "fcntl",
        [Number(fd), "F_SETLK", record, whence],
        result.map(drop)
    )
}

/// `F_SETLKW`.
pub(crate) fn lock_waiting(fd: &OwnedFd, record: Record) -> Call<()> {
    let result = fcntl(fd, libc::F_SETLKW, record, libc::SEEK_SET);
    call!("fcntl", [Number(fd), "F_SETLKW", record], result.map(drop))
}

/// `F_GETLK`: the lock that is in the way of this one, and whose it is; none if it could be had.
pub(crate) fn lock_in_the_way(fd: &OwnedFd, record: Record) -> Call<Option<(Record, i32)>> {
    let result = fcntl(fd, libc::F_GETLK, record, libc::SEEK_SET);
    call!("fcntl", [Number(fd), "F_GETLK", record], result.map(found))
}

/// `F_OFD_SETLK`.
pub(crate) fn ofd_lock(fd: &OwnedFd, record: Record) -> Call<()> {
    let result = fcntl(fd, libc::F_OFD_SETLK, record, libc::SEEK_SET);
    call!(
        "fcntl",
        [Number(fd), "F_OFD_SETLK", record],
        result.map(drop)
    )
}

/// `F_OFD_SETLKW`.
pub(crate) fn ofd_lock_waiting(fd: &OwnedFd, record: Record) -> Call<()> {
    let result = fcntl(fd, libc::F_OFD_SETLKW, record, libc::SEEK_SET);
    call!(
        "fcntl",
        [Number(fd), "F_OFD_SETLKW", record],
        result.map(drop)
    )
}

/// `F_OFD_GETLK`.
pub(crate) fn ofd_lock_in_the_way(fd: &OwnedFd, record: Record) -> Call<Option<(Record, i32)>> {
    let result = fcntl(fd, libc::F_OFD_GETLK, record, libc::SEEK_SET);
    call!(
        "fcntl",
        [Number(fd), "F_OFD_GETLK", record],
        result.map(found)
    )
}

fn fcntl(fd: &OwnedFd, command: i32, record: Record, whence: i32) -> Result<libc::flock, super::E> {
    let mut raw = record.raw(whence);
    // SAFETY: the pointer is that of a `struct flock` on the stack, as these commands want it.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw mut raw) };
    answer(result.into()).map(|_| raw)
}

fn found(raw: libc::flock) -> Option<(Record, i32)> {
    let kind = match i32::from(raw.l_type) {
        libc::F_RDLCK => Kind::Read,
        libc::F_WRLCK => Kind::Write,
        _ => return None,
    };
    let record = Record {
        kind,
        start: raw.l_start,
        length: raw.l_len,
    };
    Some((record, raw.l_pid))
}
