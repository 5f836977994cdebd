//! Conversion between the kernel's types and PandoFS's own.

use crate::limits::PREFERRED_IO_BYTES;
use pandofs_api::NewNode;
use pandofs_fuse_kernel as kernel;
use pandofs_fuse_kernel::{Entry, Errno, FileAttr, FileType, OpenFlags, Timestamp};
use pandofs_types::{Attr, FileKind, Ino, Name, NameError, NewMode, SetAttr, SetTime, Time};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;
/// The flag that the kernel adds to an open that is to execute the file (`__FMODE_EXEC`, not in
/// any user-space header).
const EXECUTE: i32 = 0x20;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Rights as [`pandofs_types::Credentials::may`] has them.
pub(crate) const MAY_READ: u16 = 4;
pub(crate) const MAY_WRITE: u16 = 2;
pub(crate) const MAY_EXECUTE: u16 = 1;

/// Returns whether what a new file of this mode becomes depends on its maker's groups without any
/// refusal: a set-group-id bit is left off for a group its maker is not in.
pub(crate) fn depends_on_groups(mode: u16) -> bool {
    mode & 0o2000 != 0
}

/// The mode for something new and the caller's umask, which the kernel has not taken off
/// (`FUSE_DONT_MASK`): whether it counts the directory's default list decides.
pub(crate) fn new_mode(mode: u32, umask: u32) -> NewMode {
    NewMode {
        mode: permissions(mode),
        umask: (umask & 0o777) as u16,
    }
}

/// The permission bits of a mode as the kernel sends it.
pub(crate) fn permissions(mode: u32) -> u16 {
    (mode & PERMISSIONS) as u16
}

pub(crate) fn name(bytes: &OsStr) -> Result<Name, Errno> {
    Name::new(bytes.as_bytes()).map_err(|error| match error {
        NameError::TooLong(_) => Errno::ENAMETOOLONG,
        NameError::Empty | NameError::ForbiddenByte | NameError::Dots => Errno::EINVAL,
    })
}

/// The kind of node that `mknod` makes with this mode and device number.
pub(crate) fn new_node(mode: u32, rdev: u32) -> Result<NewNode, Errno> {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Ok(NewNode::File),
        libc::S_IFIFO => Ok(NewNode::Fifo),
        libc::S_IFSOCK => Ok(NewNode::Socket),
        libc::S_IFCHR => Ok(NewNode::Char { rdev }),
        libc::S_IFBLK => Ok(NewNode::Block { rdev }),
        _ => Err(Errno::EINVAL),
    }
}

/// The rights an open with these flags needs.
pub(crate) fn access(flags: OpenFlags) -> u16 {
    let wanted = match flags.0 & libc::O_ACCMODE {
        // Executing needs no right to read: the kernel reads on the caller's behalf.
        libc::O_RDONLY if flags.0 & EXECUTE != 0 => MAY_EXECUTE,
        libc::O_RDONLY => MAY_READ,
        libc::O_WRONLY => MAY_WRITE,
        // 3 is Linux's "for ioctl only", which asks for both.
        _ => MAY_READ | MAY_WRITE,
    };
    if truncates(flags) {
        wanted | MAY_WRITE
    } else {
        wanted
    }
}

pub(crate) fn truncates(flags: OpenFlags) -> bool {
    flags.0 & libc::O_TRUNC != 0
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::Char => FileType::CharDevice,
        FileKind::Block => FileType::BlockDevice,
    }
}

pub(crate) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: attr.ino.0,
        size: attr.size,
        blocks: attr.blocks,
        atime: timestamp(attr.atime),
        mtime: timestamp(attr.mtime),
        ctime: timestamp(attr.ctime),
        btime: timestamp(attr.btime),
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: PREFERRED_IO_BYTES,
    }
}

/// Attributes for an entry of which only this much is known; for answers that the kernel may not
/// cache for any time.
pub(crate) fn unknown_attr(ino: Ino, kind: FileKind) -> FileAttr {
    file_attr(&Attr {
        ino,
        kind,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Time(0),
        mtime: Time(0),
        ctime: Time(0),
        btime: Time(0),
        has_xattrs: false,
    })
}

/// The answer to a lookup that found nothing, which the kernel may cache for so long.
pub(crate) fn no_entry(timeout: Duration) -> Entry {
    Entry {
        // Number 0 makes the kernel remember that there is no such name.
        attr: unknown_attr(Ino(0), FileKind::File),
        attr_timeout: timeout,
        entry_timeout: timeout,
    }
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp {
        seconds: time.0.div_euclid(NANOS_PER_SECOND),
        nanos: time.0.rem_euclid(NANOS_PER_SECOND) as u32,
    }
}

/// This machine's clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    saturated(since.as_nanos() as i128)
}

/// The changes of attributes that a program asks for.
pub(crate) fn set_attr(set: &kernel::SetAttr) -> SetAttr {
    SetAttr {
        mode: set.mode.map(permissions),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime.map(set_time),
        mtime: set.mtime.map(set_time),
        clear_set_id: set.kill_suidgid,
    }
}

fn set_time(time: kernel::SetTime) -> SetTime {
    match time {
        kernel::SetTime::Now => SetTime::Now,
        kernel::SetTime::At(time) => SetTime::At(requested_time(time)),
    }
}

/// The time a program asked for; the nearest one that can be kept where it cannot be.
fn requested_time(time: Timestamp) -> Time {
    let seconds = i128::from(time.seconds) * i128::from(NANOS_PER_SECOND);
    saturated(seconds + i128::from(time.nanos))
}

fn saturated(nanos: i128) -> Time {
    Time(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn opens_ask_for_the_rights_they_need() {
        let needs = |flags| access(OpenFlags(flags));
        assert_eq!(needs(libc::O_RDONLY), MAY_READ);
        assert_eq!(needs(libc::O_WRONLY | libc::O_APPEND), MAY_WRITE);
        assert_eq!(needs(libc::O_RDWR), MAY_READ | MAY_WRITE);
        assert_eq!(needs(libc::O_RDONLY | EXECUTE), MAY_EXECUTE);
        assert_eq!(needs(libc::O_RDONLY | libc::O_TRUNC), MAY_READ | MAY_WRITE);
        assert_eq!(needs(3), MAY_READ | MAY_WRITE);
    }

    #[test]
    fn mknod_makes_what_its_mode_says() {
        assert_eq!(new_node(libc::S_IFREG | 0o644, 7), Ok(NewNode::File));
        assert_eq!(new_node(libc::S_IFIFO, 0), Ok(NewNode::Fifo));
        assert_eq!(new_node(libc::S_IFSOCK, 0), Ok(NewNode::Socket));
        assert_eq!(
            new_node(libc::S_IFCHR, 0x103),
            Ok(NewNode::Char { rdev: 0x103 })
        );
        assert_eq!(
            new_node(libc::S_IFBLK, 0x800),
            Ok(NewNode::Block { rdev: 0x800 })
        );
        assert_eq!(new_node(libc::S_IFDIR, 0), Err(Errno::EINVAL));
        assert_eq!(new_node(0o644, 0), Err(Errno::EINVAL));
    }

    #[test]
    fn a_name_that_cannot_be_one_has_its_errno() {
        let long = "x".repeat(256);
        assert_eq!(name(OsStr::new(&long)), Err(Errno::ENAMETOOLONG));
        assert_eq!(name(OsStr::new("..")), Err(Errno::EINVAL));
        assert_eq!(
            name(OsStr::from_bytes(b"\xff\n")).unwrap().as_bytes(),
            b"\xff\n"
        );
    }

    #[test]
    fn attributes_arrive_as_they_are() {
        let attr = Attr {
            ino: Ino(0x2a_0000_0000_0007),
            kind: FileKind::Symlink,
            mode: 0o4751,
            nlink: 3,
            uid: 1_000,
            gid: 100,
            rdev: 9,
            size: 1 << 40,
            blocks: 77,
            atime: Time(1),
            mtime: Time(-1),
            ctime: Time(1_700_000_000_123_456_789),
            btime: Time(0),
            has_xattrs: false,
        };
        let file = file_attr(&attr);
        let stamp = |seconds, nanos| Timestamp { seconds, nanos };
        assert_eq!(file.ino, attr.ino.0);
        assert_eq!(
            (file.kind, file.perm, file.nlink),
            (FileType::Symlink, 0o4751, 3)
        );
        assert_eq!((file.uid, file.gid, file.rdev), (1_000, 100, 9));
        assert_eq!((file.size, file.blocks), (1 << 40, 77));
        assert_eq!(file.atime, stamp(0, 1));
        assert_eq!(file.mtime, stamp(-1, 999_999_999));
        assert_eq!(file.ctime, stamp(1_700_000_000, 123_456_789));
        assert_eq!(file.btime, stamp(0, 0));
    }

    proptest! {
        #[test]
        fn a_time_survives_being_shown(time: i64) {
            prop_assert_eq!(requested_time(timestamp(Time(time))), Time(time));
        }
    }

    #[test]
    fn a_time_out_of_range_becomes_the_nearest() {
        let far = |seconds| requested_time(Timestamp { seconds, nanos: 1 });
        // The year 9999.
        assert_eq!(far(253_402_300_799), Time(i64::MAX));
        assert_eq!(far(-100_000_000_000), Time(i64::MIN));
        assert_eq!(far(i64::MIN), Time(i64::MIN));
        assert_eq!(far(i64::MAX), Time(i64::MAX));
    }
}
