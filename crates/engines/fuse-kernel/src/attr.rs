//! Attributes of inodes as the kernel takes them.

use crate::bytes::Writer;
use crate::limits::SECOND_NANOS;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time: whole seconds since 1970, rounded down, and nanoseconds to add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Negative before 1970.
    pub seconds: i64,
    /// Less than a second.
    pub nanos: u32,
}

impl From<SystemTime> for Timestamp {
    /// The nearest that can be said.
    fn from(time: SystemTime) -> Timestamp {
        let whole = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp {
                seconds: whole(since.as_secs()),
                nanos: since.subsec_nanos(),
            },
            Err(before) => {
                let before = before.duration();
                let seconds = -whole(before.as_secs());
                match before.subsec_nanos() {
                    0 => Timestamp { seconds, nanos: 0 },
                    nanos => Timestamp {
                        seconds: seconds - 1,
                        nanos: SECOND_NANOS - nanos,
                    },
                }
            }
        }
    }
}

/// Kinds of inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// Made by mkfifo(3).
    NamedPipe,
    /// `st_rdev` tells which.
    CharDevice,
    /// The only kind in which there are names.
    Directory,
    /// `st_rdev` tells which.
    BlockDevice,
    /// Neither a directory nor special.
    RegularFile,
    /// Its contents are a path, which the kernel follows.
    Symlink,
    /// A name to connect to; made by bind(2).
    Socket,
}

impl FileType {
    /// Its bits in a mode.
    pub(crate) fn bits(self) -> u32 {
        match self {
            FileType::NamedPipe => libc::S_IFIFO,
            FileType::CharDevice => libc::S_IFCHR,
            FileType::Directory => libc::S_IFDIR,
            FileType::BlockDevice => libc::S_IFBLK,
            FileType::RegularFile => libc::S_IFREG,
            FileType::Symlink => libc::S_IFLNK,
            FileType::Socket => libc::S_IFSOCK,
        }
    }
}

/// Attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttr {
    /// The number by which the kernel speaks of it, and that programs see.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Allocated space in blocks of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of contents or attributes.
    pub ctime: Timestamp,
    /// The time at which it was made. Only `statx` gets it.
    pub btime: Timestamp,
    /// The kernel takes an inode that changes its kind for a broken one.
    pub kind: FileType,
    /// The lower 12 bits of the mode.
    pub perm: u16,
    /// Names that lead to it.
    pub nlink: u32,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// The device that a node stands for, as the kernel writes it in 32 bits.
    pub rdev: u32,
    /// Bytes that a program had best read or write at once.
    pub blksize: u32,
}

impl FileAttr {
    pub(crate) fn mode(&self) -> u32 {
        self.kind.bits() | u32::from(self.perm)
    }

    /// `struct fuse_attr`.
    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u64(self.ino).u64(self.size).u64(self.blocks);
        to.i64(self.atime.seconds)
            .i64(self.mtime.seconds)
            .i64(self.ctime.seconds);
        to.u32(self.atime.nanos)
            .u32(self.mtime.nanos)
            .u32(self.ctime.nanos);
        to.u32(self.mode())
            .u32(self.nlink)
            .u32(self.uid)
            .u32(self.gid);
        to.u32(self.rdev).u32(self.blksize).u32(0);
    }

    /// `struct fuse_attr_out`.
    pub(crate) fn encode_answer(&self, timeout: Duration, to: &mut Writer) {
        to.u64(timeout.as_secs()).u32(timeout.subsec_nanos()).u32(0);
        self.encode(to);
    }

    /// `struct fuse_statx_out`.
    pub(crate) fn encode_statx(&self, timeout: Duration, to: &mut Writer) {
        to.u64(timeout.as_secs()).u32(timeout.subsec_nanos()).u32(0);
        to.zeros(16);
        to.u32(libc::STATX_BASIC_STATS | libc::STATX_BTIME)
            .u32(self.blksize)
            .u64(0);
        to.u32(self.nlink).u32(self.uid).u32(self.gid);
        // The kind is in the upper four of 16 bits.
        to.u16(self.mode() as u16).u16(0);
        to.u64(self.ino).u64(self.size).u64(self.blocks).u64(0);
        for time in [self.atime, self.btime, self.ctime, self.mtime] {
            to.i64(time.seconds).u32(time.nanos).u32(0);
        }
        // Of the 32 bits 12 of the major number are between 8 and 12 of the minor.
        to.u32((self.rdev >> 8) & 0xfff)
            .u32((self.rdev & 0xff) | ((self.rdev >> 12) & 0xf_ff00));
        to.zeros(8 + 14 * 8);
    }
}

/// An entry: what a name leads to, and for how long the kernel may cache that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// With inode number 0: the name leads to nothing, which may be cached as well.
    pub attr: FileAttr,
    /// Zero: it asks each time.
    pub attr_timeout: Duration,
    /// Zero: it looks the name up each time.
    pub entry_timeout: Duration,
}

impl Entry {
    /// `struct fuse_entry_out`. Inode numbers are taken to be used once, so there is one generation.
    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u64(self.attr.ino).u64(0);
        to.u64(self.entry_timeout.as_secs())
            .u64(self.attr_timeout.as_secs());
        to.u32(self.entry_timeout.subsec_nanos())
            .u32(self.attr_timeout.subsec_nanos());
        self.attr.encode(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_rounded_down() {
        let at = |before: Duration| Timestamp::from(UNIX_EPOCH - before);
        let stamp = |seconds, nanos| Timestamp { seconds, nanos };
        assert_eq!(at(Duration::ZERO), stamp(0, 0));
        assert_eq!(at(Duration::from_secs(2)), stamp(-2, 0));
        assert_eq!(at(Duration::new(1, 200_000_000)), stamp(-2, 800_000_000));
        assert_eq!(at(Duration::new(0, 1)), stamp(-1, 999_999_999));
        let after = Timestamp::from(UNIX_EPOCH + Duration::new(7, 9));
        assert_eq!(after, stamp(7, 9));
    }
}
