//! Requests of the kernel as values (`include/uapi/linux/fuse.h`).

mod decode;

use crate::attr::Timestamp;
use crate::bytes::Reader;
use crate::errno::Errno;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;

pub(crate) use decode::opcode;

/// The number of a request. Once it is answered another may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// The number of an open file, which the file system gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u64);

/// The number of an owner of locks: a process's table of open files, or an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// The flags of open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub i32);

/// The reason why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it ends too early")]
    TooShort,
    #[error("its length is not what it says")]
    WrongLength,
    #[error("a number in it is out of range")]
    OutOfRange,
}

impl Malformed {
    /// The answer to such a request. Not "not implemented", which the kernel would remember.
    pub fn errno(self) -> Errno {
        Errno::EINVAL
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub header: Header,
    pub operation: Operation<'a>,
}

/// The part that every request has (`struct fuse_in_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub(crate) opcode: u32,
    pub unique: RequestId,
    /// The number of the inode that it is about; a directory where there is a name.
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    /// The thread that asks, 0 if it is none that this process could see.
    pub pid: u32,
}

/// Bytes of a header.
const HEADER_BYTES: usize = 40;

/// Bytes that a program writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Data<'a>(pub &'a [u8]);

impl Deref for Data<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl fmt::Debug for Data<'_> {
    /// Nobody reads a megabyte in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Changes of attributes; those that are `None` stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// The open file through which it is done.
    pub handle: Option<FileHandle>,
    /// The caller may not keep the file's set-id bits.
    pub kill_suidgid: bool,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    Now,
    At(Timestamp),
}

/// A lock that is asked about or for, or to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    pub handle: FileHandle,
    pub owner: LockOwner,
    /// The first byte and the last.
    pub first: u64,
    pub last: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub typ: i32,
    pub pid: u32,
    /// It is one of flock(2), not of fcntl(2).
    pub flock: bool,
}

/// A read of a file, or of a directory from a cookie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub handle: FileHandle,
    pub offset: u64,
    /// Bytes that there is room for.
    pub size: u32,
    pub flags: OpenFlags,
}

/// A write of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    pub handle: FileHandle,
    pub offset: u64,
    pub data: Data<'a>,
    pub flags: OpenFlags,
    /// The caller may not keep the file's set-id bits.
    pub kill_suidgid: bool,
}

/// A name and what is to be made under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make<'a> {
    pub name: &'a OsStr,
    /// Without the umask taken off, if that was asked for.
    pub mode: u32,
    pub umask: u32,
}

/// A rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    pub name: &'a OsStr,
    pub new_dir: u64,
    pub new_name: &'a OsStr,
    /// As renameat2(2) has them.
    pub flags: u32,
}

/// The operation that is asked for. Those that no file system here needs are [`Operation::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    Lookup {
        name: &'a OsStr,
    },
    /// Not answered, as the next one.
    Forget {
        lookups: u64,
    },
    BatchForget(Forgotten<'a>),
    Getattr,
    Statx,
    Setattr(SetAttr),
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    Mknod(Make<'a>, u32),
    Mkdir(Make<'a>),
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    Rename(Rename<'a>),
    /// A further name in the directory for the inode of this number.
    Link {
        node: u64,
        name: &'a OsStr,
    },
    Open(OpenFlags),
    Create(Make<'a>, OpenFlags),
    /// A file without a name.
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: OpenFlags,
    },
    Read(Read),
    Write(Write<'a>),
    Flush {
        handle: FileHandle,
        owner: LockOwner,
    },
    Release {
        handle: FileHandle,
    },
    Fsync {
        handle: FileHandle,
    },
    Opendir,
    Readdir(Read),
    Readdirplus(Read),
    Releasedir {
        handle: FileHandle,
    },
    Fsyncdir {
        handle: FileHandle,
    },
    Statfs,
    Setxattr {
        name: &'a OsStr,
        value: Data<'a>,
        flags: i32,
    },
    /// Of a value that there are `room` bytes for; 0: how many bytes it has.
    Getxattr {
        name: &'a OsStr,
        room: u32,
    },
    Listxattr {
        room: u32,
    },
    Removexattr {
        name: &'a OsStr,
    },
    Access {
        mask: u32,
    },
    Lseek {
        offset: i64,
        whence: i32,
    },
    Fallocate {
        offset: u64,
        length: u64,
        mode: i32,
    },
    Ioctl {
        command: u32,
        data: Data<'a>,
    },
    Getlk(Lock),
    Setlk {
        lock: Lock,
        /// It is waited for.
        waits: bool,
    },
    /// A program that waits for this request got a signal.
    Interrupt(RequestId),
    /// The kernel is done with the file system.
    Destroy,
    Init(Init),
    /// The number of an operation that is not in use.
    Other(u32),
}

/// Inodes that the kernel has forgotten, each with the number of lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten<'a>(&'a [u8]);

/// Bytes of one of them.
const FORGOTTEN_BYTES: usize = 16;

impl Forgotten<'_> {
    /// Their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = u64> {
        let each = self.0.chunks_exact(FORGOTTEN_BYTES);
        each.filter_map(|one| Reader::new(one).u64().ok())
    }
}

/// The kernel's words about itself when a file system is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    /// What it can do, as [`crate::abi::init`] has it.
    pub features: u64,
}

#[cfg(test)]
mod tests;
