//! Decoding of requests.

use super::{
    Data, FORGOTTEN_BYTES, FileHandle, Forgotten, HEADER_BYTES, Header, Init, Lock, LockOwner,
    Make, Malformed, OpenFlags, Operation, Read, Rename, Request, RequestId, SetAttr, SetTime,
    Write,
};
use crate::attr::Timestamp;
use crate::bytes::Reader;
use crate::limits::SECOND_NANOS;

impl Header {
    /// Reads the header of a request.
    ///
    /// # Errors
    /// When there is none, or the request is not as long as it says.
    pub fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        let mut reader = Reader::new(bytes);
        let length = reader.u32()?;
        let header = Header {
            opcode: reader.u32()?,
            unique: RequestId(reader.u64()?),
            node: reader.u64()?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            pid: reader.u32()?,
        };
        reader.skip(4)?;
        if bytes.len() != length as usize {
            return Err(Malformed::WrongLength);
        }
        Ok(header)
    }
}

impl<'a> Request<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let header = Header::decode(bytes)?;
        let operation = Operation::decode(header.opcode, Reader::new(&bytes[HEADER_BYTES..]))?;
        Ok(Request { header, operation })
    }
}

/// Numbers of operations.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const NOTIFY_REPLY: u32 = 41;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
}

/// Bits of `valid` in `struct fuse_setattr_in`.
mod fattr {
    pub(super) const MODE: u32 = 1 << 0;
    pub(super) const UID: u32 = 1 << 1;
    pub(super) const GID: u32 = 1 << 2;
    pub(super) const SIZE: u32 = 1 << 3;
    pub(super) const ATIME: u32 = 1 << 4;
    pub(super) const MTIME: u32 = 1 << 5;
    pub(super) const FH: u32 = 1 << 6;
    pub(super) const ATIME_NOW: u32 = 1 << 7;
    pub(super) const MTIME_NOW: u32 = 1 << 8;
    pub(super) const KILL_SUIDGID: u32 = 1 << 11;
}

const WRITE_KILL_SUIDGID: u32 = 1 << 2;
const LK_FLOCK: u32 = 1 << 0;

impl<'a> Operation<'a> {
    fn decode(code: u32, mut from: Reader<'a>) -> Result<Operation<'a>, Malformed> {
        Ok(match code {
            opcode::LOOKUP => Operation::Lookup { name: from.name()? },
            opcode::FORGET => Operation::Forget {
                lookups: from.u64()?,
            },
            opcode::BATCH_FORGET => {
                let count = from.u32()? as usize;
                from.skip(4)?;
                let length = count.checked_mul(FORGOTTEN_BYTES);
                Operation::BatchForget(Forgotten(from.bytes(length.ok_or(Malformed::OutOfRange)?)?))
            }
            opcode::GETATTR => from.skip(16).map(|()| Operation::Getattr)?,
            opcode::STATX => from.skip(24).map(|()| Operation::Statx)?,
            opcode::SETATTR => Operation::Setattr(set_attr(from)?),
            opcode::READLINK => Operation::Readlink,
            opcode::SYMLINK => Operation::Symlink {
                name: from.name()?,
                target: from.name()?,
            },
            opcode::MKNOD => {
                let (mode, rdev, umask) = (from.u32()?, from.u32()?, from.u32()?);
                from.skip(4)?;
                Operation::Mknod(make(from, mode, umask)?, rdev)
            }
            opcode::MKDIR => {
                let (mode, umask) = (from.u32()?, from.u32()?);
                Operation::Mkdir(make(from, mode, umask)?)
            }
            opcode::UNLINK => Operation::Unlink { name: from.name()? },
            opcode::RMDIR => Operation::Rmdir { name: from.name()? },
            opcode::RENAME => {
                let new_dir = from.u64()?;
                Operation::Rename(rename(from, new_dir, 0)?)
            }
            opcode::RENAME2 => {
                let (new_dir, flags) = (from.u64()?, from.u32()?);
                from.skip(4)?;
                Operation::Rename(rename(from, new_dir, flags)?)
            }
            opcode::LINK => Operation::Link {
                node: from.u64()?,
                name: from.name()?,
            },
            opcode::OPEN => {
                let flags = OpenFlags(from.i32()?);
                from.skip(4).map(|()| Operation::Open(flags))?
            }
            opcode::CREATE => {
                let (flags, mode, umask) = (from.i32()?, from.u32()?, from.u32()?);
                from.skip(4)?;
                Operation::Create(make(from, mode, umask)?, OpenFlags(flags))
            }
            opcode::TMPFILE => {
                let (flags, mode, umask) = (from.i32()?, from.u32()?, from.u32()?);
                from.skip(4)?;
                Operation::Tmpfile {
                    mode,
                    umask,
                    flags: OpenFlags(flags),
                }
            }
            opcode::READ => {
                let handle = FileHandle(from.u64()?);
                let offset = from.offset()?;
                Operation::Read(read(from, handle, offset)?)
            }
            opcode::WRITE => Operation::Write(write(from)?),
            opcode::STATFS => Operation::Statfs,
            opcode::RELEASE => {
                let handle = FileHandle(from.u64()?);
                from.skip(16).map(|()| Operation::Release { handle })?
            }
            opcode::RELEASEDIR => {
                let handle = FileHandle(from.u64()?);
                from.skip(16).map(|()| Operation::Releasedir { handle })?
            }
            opcode::FSYNC => {
                let handle = FileHandle(from.u64()?);
                from.skip(8).map(|()| Operation::Fsync { handle })?
            }
            opcode::FSYNCDIR => {
                let handle = FileHandle(from.u64()?);
                from.skip(8).map(|()| Operation::Fsyncdir { handle })?
            }
            opcode::SETXATTR => {
                let (size, flags) = (from.u32()?, from.i32()?);
                let name = from.name()?;
                let value = Data(from.bytes(size as usize)?);
                Operation::Setxattr { name, value, flags }
            }
            opcode::GETXATTR => {
                let room = from.u32()?;
                from.skip(4)?;
                let name = from.name()?;
                Operation::Getxattr { name, room }
            }
            opcode::LISTXATTR => {
                let room = from.u32()?;
                from.skip(4).map(|()| Operation::Listxattr { room })?
            }
            opcode::REMOVEXATTR => Operation::Removexattr { name: from.name()? },
            opcode::FLUSH => {
                let handle = FileHandle(from.u64()?);
                from.skip(8)?;
                let owner = LockOwner(from.u64()?);
                Operation::Flush { handle, owner }
            }
            opcode::INIT => Operation::Init(init(from)?),
            opcode::OPENDIR => from.skip(8).map(|()| Operation::Opendir)?,
            opcode::READDIR | opcode::READDIRPLUS => {
                let handle = FileHandle(from.u64()?);
                // A cookie, not a position: it may be any number.
                let offset = from.u64()?;
                let read = read(from, handle, offset)?;
                match code {
                    opcode::READDIR => Operation::Readdir(read),
                    _ => Operation::Readdirplus(read),
                }
            }
            opcode::GETLK => Operation::Getlk(lock(from)?),
            opcode::SETLK | opcode::SETLKW => Operation::Setlk {
                lock: lock(from)?,
                waits: code == opcode::SETLKW,
            },
            opcode::ACCESS => {
                let mask = from.u32()?;
                from.skip(4).map(|()| Operation::Access { mask })?
            }
            opcode::INTERRUPT => Operation::Interrupt(RequestId(from.u64()?)),
            opcode::DESTROY => Operation::Destroy,
            opcode::IOCTL => {
                from.skip(12)?;
                let command = from.u32()?;
                from.skip(8)?;
                let size = from.u32()?;
                from.skip(4)?;
                let data = Data(from.bytes(size as usize)?);
                Operation::Ioctl { command, data }
            }
            opcode::FALLOCATE => {
                from.skip(8)?;
                let (offset, length) = (from.offset()?, from.offset()?);
                let mode = from.i32()?;
                from.skip(4)?;
                Operation::Fallocate {
                    offset,
                    length,
                    mode,
                }
            }
            opcode::LSEEK => {
                from.skip(8)?;
                let (offset, whence) = (from.i64()?, from.i32()?);
                from.skip(4).map(|()| Operation::Lseek { offset, whence })?
            }
            other => Operation::Other(other),
        })
    }
}

fn make<'a>(mut from: Reader<'a>, mode: u32, umask: u32) -> Result<Make<'a>, Malformed> {
    let name = from.name()?;
    Ok(Make { name, mode, umask })
}

fn rename<'a>(mut from: Reader<'a>, new_dir: u64, flags: u32) -> Result<Rename<'a>, Malformed> {
    Ok(Rename {
        name: from.name()?,
        new_dir,
        new_name: from.name()?,
        flags,
    })
}

/// The rest of `struct fuse_read_in`.
fn read(mut from: Reader<'_>, handle: FileHandle, offset: u64) -> Result<Read, Malformed> {
    let size = from.u32()?;
    from.skip(12)?;
    let flags = OpenFlags(from.i32()?);
    from.skip(4)?;
    Ok(Read {
        handle,
        offset,
        size,
        flags,
    })
}

/// `struct fuse_write_in` and the bytes.
fn write(mut from: Reader<'_>) -> Result<Write<'_>, Malformed> {
    let (handle, offset) = (FileHandle(from.u64()?), from.offset()?);
    let (size, write_flags) = (from.u32()?, from.u32()?);
    from.skip(8)?;
    let flags = OpenFlags(from.i32()?);
    from.skip(4)?;
    Ok(Write {
        handle,
        offset,
        data: Data(from.bytes(size as usize)?),
        flags,
        kill_suidgid: write_flags & WRITE_KILL_SUIDGID != 0,
    })
}

/// `struct fuse_lk_in`.
fn lock(mut from: Reader<'_>) -> Result<Lock, Malformed> {
    let (handle, owner) = (FileHandle(from.u64()?), LockOwner(from.u64()?));
    let (first, last) = (from.u64()?, from.u64()?);
    let (typ, pid, flags) = (from.i32()?, from.u32()?, from.u32()?);
    from.skip(4)?;
    Ok(Lock {
        handle,
        owner,
        first,
        last,
        typ,
        pid,
        flock: flags & LK_FLOCK != 0,
    })
}

/// `struct fuse_setattr_in`. The kernel's change time is left out: a file system has its own.
fn set_attr(mut from: Reader<'_>) -> Result<SetAttr, Malformed> {
    let valid = from.u32()?;
    from.skip(4)?;
    let (handle, size) = (FileHandle(from.u64()?), from.u64()?);
    from.skip(8)?;
    let (atime, mtime) = (from.i64()?, from.i64()?);
    from.skip(8)?;
    let (atime_nanos, mtime_nanos) = (from.u32()?, from.u32()?);
    from.skip(4)?;
    let mode = from.u32()?;
    from.skip(4)?;
    let (uid, gid) = (from.u32()?, from.u32()?);
    from.skip(4)?;
    let is_set = |flag| valid & flag != 0;
    let time = |flag, now, seconds, nanos| match () {
        () if !is_set(flag) => Ok(None),
        () if is_set(now) => Ok(Some(SetTime::Now)),
        () if nanos >= SECOND_NANOS => Err(Malformed::OutOfRange),
        () => Ok(Some(SetTime::At(Timestamp { seconds, nanos }))),
    };
    Ok(SetAttr {
        mode: is_set(fattr::MODE).then_some(mode),
        uid: is_set(fattr::UID).then_some(uid),
        gid: is_set(fattr::GID).then_some(gid),
        size: is_set(fattr::SIZE).then_some(size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, atime, atime_nanos)?,
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, mtime, mtime_nanos)?,
        handle: is_set(fattr::FH).then_some(handle),
        kill_suidgid: is_set(fattr::KILL_SUIDGID),
    })
}

/// `struct fuse_init_in`, of which an older kernel sends the beginning.
fn init(mut from: Reader<'_>) -> Result<Init, Malformed> {
    let (major, minor) = (from.u32()?, from.u32()?);
    let (max_readahead, flags) = (from.u32()?, from.u32()?);
    let low = u64::from(flags);
    let high = if low & crate::abi::init::INIT_EXT == 0 {
        0
    } else {
        from.u32()?
    };
    Ok(Init {
        major,
        minor,
        max_readahead,
        features: low | u64::from(high) << 32,
    })
}
