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
    /// A field lies past the end.
    #[error("it ends too early")]
    TooShort,
    /// It was cut or has something after it.
    #[error("its length is not what it says")]
    WrongLength,
    /// A field's value has no meaning.
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
    /// The part that all requests have.
    pub header: Header,
    /// The operation, with its arguments.
    pub operation: Operation<'a>,
}

/// The part that every request has (`struct fuse_in_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub(crate) opcode: u32,
    /// Stands in the answer and in an interrupt.
    pub unique: RequestId,
    /// The number of the inode that it is about; a directory where there is a name.
    pub node: u64,
    /// The user for the file system.
    pub uid: u32,
    /// The group for the file system.
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
    /// Permission bits and kind; the kind does not change.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<SetTime>,
    /// New time of the last change.
    pub mtime: Option<SetTime>,
    /// The open file through which it is done.
    pub handle: Option<FileHandle>,
    /// The caller may not keep the file's set-id bits.
    pub kill_suidgid: bool,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time at which it is carried out.
    Now,
    /// Chosen by the caller.
    At(Timestamp),
}

/// A lock that is asked about or for, or to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The open file through which it is asked.
    pub handle: FileHandle,
    /// Tells owners of one mount apart.
    pub owner: LockOwner,
    /// The first byte and the last.
    pub first: u64,
    /// Included; `i64::MAX` for all that follows.
    pub last: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub typ: i32,
    /// The process that asks; of flock(2) as well.
    pub pid: u32,
    /// It is one of flock(2), not of fcntl(2).
    pub flock: bool,
}

/// A read of a file, or of a directory from a cookie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The open file or directory.
    pub handle: FileHandle,
    /// Bytes; of a directory the cookie of the last entry that was taken, 0 for the start.
    pub offset: u64,
    /// Bytes that there is room for.
    pub size: u32,
    /// As the file was opened, and as changed since.
    pub flags: OpenFlags,
}

/// A write of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The open file.
    pub handle: FileHandle,
    /// Bytes.
    pub offset: u64,
    /// Borrowed from the request's memory, which is free again afterwards.
    pub data: Data<'a>,
    /// As the file was opened, and as changed since.
    pub flags: OpenFlags,
    /// The caller may not keep the file's set-id bits.
    pub kill_suidgid: bool,
}

/// A name and what is to be made under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make<'a> {
    /// One component, without a `/`.
    pub name: &'a OsStr,
    /// Without the umask taken off, if that was asked for.
    pub mode: u32,
    /// The caller's.
    pub umask: u32,
}

/// A rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// In the directory that the request is about.
    pub name: &'a OsStr,
    /// Number of the other directory, or of the same.
    pub new_dir: u64,
    /// One component, without a `/`.
    pub new_name: &'a OsStr,
    /// As renameat2(2) has them.
    pub flags: u32,
}

/// The operation that is asked for. Those that no file system here needs are [`Operation::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The inode that the name leads to; counts as a lookup.
    Lookup {
        /// One component, without a `/`.
        name: &'a OsStr,
    },
    /// Not answered, as the next one.
    Forget {
        /// The kernel drops so many of the lookups that it counted.
        lookups: u64,
    },
    /// Several inodes that the kernel drops lookups of. Not answered.
    BatchForget(Forgotten<'a>),
    /// The attributes of the inode.
    Getattr,
    /// The attributes with the time of making.
    Statx,
    /// Changes attributes; the answer has them all.
    Setattr(SetAttr),
    /// The target of the link.
    Readlink,
    /// A symbolic link.
    Symlink {
        /// One component, without a `/`.
        name: &'a OsStr,
        /// Bytes that need not lead anywhere.
        target: &'a OsStr,
    },
    /// A file, fifo, socket or device, with the device's number.
    Mknod(Make<'a>, u32),
    /// A directory.
    Mkdir(Make<'a>),
    /// A name of what is no directory goes.
    Unlink {
        /// One component, without a `/`.
        name: &'a OsStr,
    },
    /// An empty directory goes.
    Rmdir {
        /// One component, without a `/`.
        name: &'a OsStr,
    },
    /// A name moves, replaces or changes places with another one.
    Rename(Rename<'a>),
    /// A further name in the directory for the inode of this number.
    Link {
        /// Number of the inode.
        node: u64,
        /// One component, without a `/`.
        name: &'a OsStr,
    },
    /// A file that is there; the answer has a handle.
    Open(OpenFlags),
    /// Makes a file and opens it.
    Create(Make<'a>, OpenFlags),
    /// A file without a name.
    Tmpfile {
        /// Without the umask taken off, if that was asked for.
        mode: u32,
        /// The caller's.
        umask: u32,
        /// How it is opened.
        flags: OpenFlags,
    },
    /// Bytes of a file.
    Read(Read),
    /// The answer tells how many bytes were written.
    Write(Write<'a>),
    /// A process has closed a descriptor of the file.
    Flush {
        /// The open file.
        handle: FileHandle,
        /// Locks of fcntl(2) of this owner end.
        owner: LockOwner,
    },
    /// Nobody has the handle any more.
    Release {
        /// The open file.
        handle: FileHandle,
    },
    /// All bytes written are to be on disk.
    Fsync {
        /// The open file.
        handle: FileHandle,
    },
    /// A directory to be listed; the answer has a handle.
    Opendir,
    /// A page of a listing, with names and kinds.
    Readdir(Read),
    /// A page of a listing; each entry counts as a lookup.
    Readdirplus(Read),
    /// Nobody has the handle any more.
    Releasedir {
        /// The open directory.
        handle: FileHandle,
    },
    /// Changes of names are to be on disk.
    Fsyncdir {
        /// The open directory.
        handle: FileHandle,
    },
    /// Space and limits of the file system.
    Statfs,
    /// Sets an extended attribute.
    Setxattr {
        /// With its prefix.
        name: &'a OsStr,
        /// At most 64 KiB.
        value: Data<'a>,
        /// `XATTR_CREATE`, `XATTR_REPLACE` or 0.
        flags: i32,
    },
    /// Of a value that there are `room` bytes for; 0: how many bytes it has.
    Getxattr {
        /// With its prefix.
        name: &'a OsStr,
        /// Bytes.
        room: u32,
    },
    /// Names of extended attributes, each ended by a NUL; with no room how many bytes they are.
    Listxattr {
        /// Bytes.
        room: u32,
    },
    /// Removes an extended attribute.
    Removexattr {
        /// With its prefix.
        name: &'a OsStr,
    },
    /// Whether the caller has rights; not asked if the kernel checks permissions.
    Access {
        /// `R_OK`, `W_OK` and `X_OK`, added up.
        mask: u32,
    },
    /// The next data or hole.
    Lseek {
        /// Bytes.
        offset: i64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        whence: i32,
    },
    /// Space for a range, or holes in it.
    Fallocate {
        /// Bytes.
        offset: u64,
        /// Bytes.
        length: u64,
        /// `FALLOC_FL_` flags.
        mode: i32,
    },
    /// A command to the file.
    Ioctl {
        /// As ioctl(2) has it.
        command: u32,
        /// Bytes that the command comes with.
        data: Data<'a>,
    },
    /// The lock that is in the way of this one.
    Getlk(Lock),
    /// Takes a lock or gives it back.
    Setlk {
        /// `F_UNLCK` as its type gives it back.
        lock: Lock,
        /// It is waited for.
        waits: bool,
    },
    /// A program that waits for this request got a signal.
    Interrupt(RequestId),
    /// The kernel is done with the file system.
    Destroy,
    /// The first request of a mount.
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
    /// Version of the interface; another one than this crate's is refused.
    pub major: u32,
    /// Grows with additions.
    pub minor: u32,
    /// Bytes.
    pub max_readahead: u32,
    /// Its features, as [`crate::abi::init`] has them.
    pub features: u64,
}

#[cfg(test)]
mod tests;
