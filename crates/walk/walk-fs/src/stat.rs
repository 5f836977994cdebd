//! Attributes of an entry.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use std::ffi::CStr;

/// Answer of `statx`. Fields that were not asked for may be 0.
#[derive(Clone, Copy)]
pub struct Stat(pub(crate) Statx);

/// A moment, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds, rounded down; negative before 1970.
    pub seconds: i64,
    /// Less than a second, to be added.
    pub nanoseconds: u32,
}

impl Stat {
    /// Of an entry of an open directory; of a link itself.
    ///
    /// # Errors
    /// Why it cannot be looked at.
    pub fn of(dir: BorrowedFd<'_>, name: &CStr) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let fields = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        statx(dir, name, flags, fields).map(Stat)
    }

    /// The same; of what a link leads to. When it was made as well.
    ///
    /// # Errors
    /// Why it cannot be looked at.
    pub fn followed(dir: BorrowedFd<'_>, name: &CStr) -> Result<Stat, Errno> {
        let fields = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        statx(dir, name, AtFlags::empty(), fields).map(Stat)
    }

    /// Of what is open.
    ///
    /// # Errors
    /// Why it cannot be looked at.
    pub fn of_open(fd: BorrowedFd<'_>) -> Result<Stat, Errno> {
        statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(Stat)
    }

    /// From the mode's upper bits.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(u32::from(self.0.stx_mode))
    }

    /// Kind and permissions, as `st_mode` has them.
    pub fn mode(&self) -> u32 {
        u32::from(self.0.stx_mode)
    }

    /// Unique within the file system.
    pub fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    /// Major and minor number of the device, in one number that is not the kernel's encoding.
    pub fn device(&self) -> u64 {
        u64::from(self.0.stx_dev_major) << 32 | u64::from(self.0.stx_dev_minor)
    }

    /// The device as `st_dev` has it.
    pub fn dev(&self) -> u64 {
        rustix::fs::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    /// Returns the device that a device file stands for, as `st_rdev` has it.
    pub fn rdev(&self) -> u64 {
        rustix::fs::makedev(self.0.stx_rdev_major, self.0.stx_rdev_minor)
    }

    /// Names of the inode, as the file system counts them.
    pub fn links(&self) -> u32 {
        self.0.stx_nlink
    }

    /// Number of the owning user.
    pub fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    /// Number of the owning group.
    pub fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.0.stx_size
    }

    /// Blocks of 512 bytes on disk.
    pub fn blocks(&self) -> u64 {
        self.0.stx_blocks
    }

    /// Last access, by the rule of the mount.
    pub fn accessed(&self) -> Time {
        Time {
            seconds: self.0.stx_atime.tv_sec,
            nanoseconds: self.0.stx_atime.tv_nsec,
        }
    }

    /// Last change of contents.
    pub fn modified(&self) -> Time {
        Time {
            seconds: self.0.stx_mtime.tv_sec,
            nanoseconds: self.0.stx_mtime.tv_nsec,
        }
    }

    /// Last change of contents or attributes.
    pub fn changed(&self) -> Time {
        Time {
            seconds: self.0.stx_ctime.tv_sec,
            nanoseconds: self.0.stx_ctime.tv_nsec,
        }
    }

    /// When it was made, if [`StatxFlags::BTIME`] was asked for and the file system knows.
    pub fn born(&self) -> Option<Time> {
        StatxFlags::from_bits_retain(self.0.stx_mask)
            .contains(StatxFlags::BTIME)
            .then_some(Time {
                seconds: self.0.stx_btime.tv_sec,
                nanoseconds: self.0.stx_btime.tv_nsec,
            })
    }

    /// Returns whether something is mounted here (Linux 5.8 and newer say so).
    pub fn is_mount_root(&self) -> bool {
        self.0.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    }

    /// Returns its identity: the same for two names of one file.
    pub fn identity(&self) -> (u64, u64) {
        (self.device(), self.ino())
    }
}

impl std::fmt::Debug for Stat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Stat({:?}, mode {:o}, {} bytes)",
            self.identity(),
            self.mode(),
            self.size()
        )
    }
}
