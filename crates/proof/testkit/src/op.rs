//! Operations of programs on a file system, as values: generated, run, printed and left out again when a
//! failure is made smaller.

use pandofs_api::Allocation;
use pandofs_types::{Capabilities, Credentials, FileKind, FsError, SetTime, Time};
use std::fmt;

/// A path below the root of the tree under test; empty for the root itself. Its parts are any bytes,
/// also such as no file system takes for a name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(pub Vec<Vec<u8>>);

impl Path {
    /// The directory that a subject begins with.
    pub const ROOT: Path = Path(Vec::new());

    /// Parts between slashes.
    pub fn new(text: &str) -> Path {
        Path(
            text.split('/')
                .filter(|part| !part.is_empty())
                .map(|part| part.into())
                .collect(),
        )
    }

    /// The path of a name in it.
    pub fn child(&self, name: &[u8]) -> Path {
        let mut parts = self.0.clone();
        parts.push(name.to_vec());
        Path(parts)
    }
}

/// The parts with slashes between them; a part of more than 20 bytes is truncated and its length given.
impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for (at, part) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            write_short(f, part)?;
        }
        f.write_str("\"")
    }
}

/// Bytes that are printed as text, and truncated when they are many.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        write_short(f, &self.0)?;
        f.write_str("\"")
    }
}

/// The first 20 bytes, and how many there are if they are more.
fn write_short(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    write!(f, "{}", bytes[..bytes.len().min(20)].escape_ascii())?;
    if bytes.len() > 20 {
        write!(f, "..{}", bytes.len())
    } else {
        Ok(())
    }
}

/// Kinds of files that only [`Op::Mknod`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A Unix domain socket's name.
    Socket,
    /// A character device.
    Char {
        /// Device number, in Linux's encoding.
        rdev: u32,
    },
}

/// Treatment of an extended attribute that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set in either case.
    Either,
    /// `Exists` if it is there.
    Create,
    /// `NoAttribute` if it is not there.
    Replace,
}

impl From<XattrMode> for pandofs_api::XattrMode {
    fn from(mode: XattrMode) -> pandofs_api::XattrMode {
        match mode {
            XattrMode::Either => pandofs_api::XattrMode::Either,
            XattrMode::Create => pandofs_api::XattrMode::Create,
            XattrMode::Replace => pandofs_api::XattrMode::Replace,
        }
    }
}

/// A name for an open file, chosen by the test.
pub type HandleId = u8;

/// One operation. Symbolic links at the end of a path are never followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `open` with `O_CREAT | O_EXCL | O_RDWR`, kept open as `handle` or closed.
    Create {
        /// Of the new name.
        path: Path,
        /// Permission bits, 0o7777 at most.
        mode: u16,
        /// `None`: closed at once.
        handle: Option<HandleId>,
    },
    /// `mkdir`.
    Mkdir {
        /// Of the new name.
        path: Path,
        /// Permission bits, 0o7777 at most.
        mode: u16,
    },
    /// `mknod`.
    Mknod {
        /// Of the new name.
        path: Path,
        /// Decides the kind.
        special: Special,
        /// Permission bits, 0o7777 at most.
        mode: u16,
    },
    /// `symlink`.
    Symlink {
        /// Of the new name.
        path: Path,
        /// Any bytes but NUL.
        target: Blob,
    },
    /// `link`.
    Link {
        /// The name that is there.
        from: Path,
        /// The other name.
        to: Path,
    },
    /// `unlink`.
    Unlink {
        /// The name to go.
        path: Path,
    },
    /// `rmdir`.
    Rmdir {
        /// The name to go.
        path: Path,
    },
    /// `renameat2`.
    Rename {
        /// The name that is there.
        from: Path,
        /// The other name.
        to: Path,
        /// `RENAME_NOREPLACE`.
        no_replace: bool,
        /// `RENAME_WHITEOUT`.
        whiteout: bool,
    },
    /// `lstat`.
    Stat {
        /// Leads to what it is about.
        path: Path,
    },
    /// `chmod`.
    Chmod {
        /// Leads to what it is about.
        path: Path,
        /// Permission bits, 0o7777 at most.
        mode: u16,
    },
    /// `lchown`.
    Chown {
        /// Leads to what it is about.
        path: Path,
        /// `None` stays.
        uid: Option<u32>,
        /// `None` stays.
        gid: Option<u32>,
    },
    /// Of a path, with the rights that takes.
    Truncate {
        /// Leads to what it is about.
        path: Path,
        /// Bytes.
        size: u64,
    },
    /// `utimensat`.
    SetTimes {
        /// Leads to what it is about.
        path: Path,
        /// `None` stays.
        atime: Option<SetTime>,
        /// `None` stays.
        mtime: Option<SetTime>,
    },
    /// `opendir`, `readdir` to the end, `closedir`.
    ReadDir {
        /// Leads to what it is about.
        path: Path,
    },
    /// `readlink`.
    ReadLink {
        /// Leads to what it is about.
        path: Path,
    },
    /// `lsetxattr`.
    SetXattr {
        /// Leads to what it is about.
        path: Path,
        /// With its prefix.
        name: Blob,
        /// Any bytes.
        value: Blob,
        /// The condition.
        mode: XattrMode,
    },
    /// `lgetxattr`.
    GetXattr {
        /// Leads to what it is about.
        path: Path,
        /// With its prefix.
        name: Blob,
    },
    /// `llistxattr`.
    ListXattr {
        /// Leads to what it is about.
        path: Path,
    },
    /// `lremovexattr`.
    RemoveXattr {
        /// Leads to what it is about.
        path: Path,
        /// With its prefix.
        name: Blob,
    },
    /// Reads or writes or both; `truncate` only with `write`.
    Open {
        /// Leads to what it is about.
        path: Path,
        /// The number that later operations name; not in use before.
        handle: HandleId,
        /// With the right to read.
        read: bool,
        /// With the right to write.
        write: bool,
        /// `O_TRUNC`.
        truncate: bool,
    },
    /// `close`.
    Close {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
    },
    /// `pread`.
    Read {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Writes `length` bytes that follow from `fill` ([`filling`]); 1 at least.
    Write {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Seed of the bytes.
        fill: u64,
    },
    /// `ftruncate`.
    SetSize {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        size: u64,
    },
    /// `fstat`.
    StatOpen {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
    },
    /// `fsync`.
    Sync {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
    },
    /// `renameat2` with `RENAME_EXCHANGE`.
    Exchange {
        /// The name that is there.
        from: Path,
        /// The other name.
        to: Path,
    },
    /// `fallocate`; of 1 byte at least.
    Allocate {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Reserve, punch or zero.
        allocation: Allocation,
    },
    /// `lseek` with `SEEK_DATA` or `SEEK_HOLE`.
    Seek {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        offset: u64,
        /// Data, and not a hole, is looked for.
        data: bool,
    },
    /// `write` to a file opened with `O_APPEND`; of 1 byte at least, as in [`Op::Write`].
    Append {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// Bytes.
        length: u32,
        /// Seed of the bytes.
        fill: u64,
    },
    /// `open` of a directory with `O_TMPFILE | O_RDWR`, and with `O_EXCL` where it may not be linked.
    CreateUnnamed {
        /// The directory; the file gets no name in it.
        dir: Path,
        /// Permission bits, 0o7777 at most.
        mode: u16,
        /// The number that later operations name; not in use before.
        handle: HandleId,
        /// False: `O_EXCL`.
        may_be_named: bool,
    },
    /// `linkat` of an open file.
    LinkOpen {
        /// Of an open file; else the operation makes no sense.
        handle: HandleId,
        /// The other name.
        to: Path,
    },
}

impl Op {
    /// The open file it works on.
    pub fn handle(&self) -> Option<HandleId> {
        match self {
            Op::Close { handle }
            | Op::Read { handle, .. }
            | Op::Write { handle, .. }
            | Op::SetSize { handle, .. }
            | Op::StatOpen { handle }
            | Op::Sync { handle }
            | Op::Allocate { handle, .. }
            | Op::Seek { handle, .. }
            | Op::Append { handle, .. }
            | Op::LinkOpen { handle, .. } => Some(*handle),
            _ => None,
        }
    }
}

/// An operation and its caller, as a place in [`callers`]. Operations on an open file are those of
/// the caller that opened it, whatever stands here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index in [`callers`].
    pub caller: usize,
    /// Done in the caller's name.
    pub op: Op,
}

/// Callers: the superuser, a user, another one with a further group, the first user in that group, a user with
/// capabilities, and the superuser's number with few.
pub fn callers() -> Vec<Credentials> {
    let user = |uid, groups: &[u32]| Credentials::user(uid, uid, groups.to_vec());
    let for_users = Capabilities::DAC_READ_SEARCH
        .with(Capabilities::FOWNER)
        .with(Capabilities::SYS_ADMIN);
    let for_root = Capabilities::MKNOD
        .with(Capabilities::CHOWN)
        .with(Capabilities::FSETID)
        .with(Capabilities::SETFCAP);
    vec![
        Credentials::ROOT,
        user(1_000, &[]),
        user(1_001, &[2_000]),
        user(1_000, &[2_000, 1_001]),
        user(1_001, &[]).with(for_users),
        user(0, &[2_000]).with(for_root),
    ]
}

/// The bytes of a write.
pub fn filling(fill: u64, length: u32) -> Vec<u8> {
    // Neither all alike nor ever 0, which is what a hole reads as.
    (0..u64::from(length))
        .map(|at| (fill.wrapping_add(at) % 251) as u8 + 1)
        .collect()
}

/// Attributes that `stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Unique among what is there.
    pub ino: u64,
    /// As in the mode's upper bits.
    pub kind: FileKind,
    /// Permission bits, 0o7777 at most.
    pub mode: u16,
    /// Of a directory 2 and one for each subdirectory.
    pub nlink: u32,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Device number; 0 of what is no device.
    pub rdev: u32,
    /// Bytes; of a directory any number.
    pub size: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
}

/// Answer of an operation that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing more is to be said.
    Done,
    /// Of `Stat` and `StatOpen`.
    Stat(Box<Stat>),
    /// Names and what they lead to, in any order, without `.` and `..`.
    Entries(Vec<(Vec<u8>, FileKind)>),
    /// A link's target.
    Link(Vec<u8>),
    /// An extended attribute's value.
    Value(Vec<u8>),
    /// In any order.
    Names(Vec<Vec<u8>>),
    /// Fewer bytes than asked for only at the end of the file.
    Data(Vec<u8>),
    /// Beginning of the next data or hole; `None` (ENXIO) if there is none.
    Found(Option<u64>),
}

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error that programs know.
    Fs(FsError),
    /// An answer that no file system gives: never right.
    Other(String),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Fs(error)
    }
}

/// Outcome of an operation at a subject.
pub type Outcome = Result<Answer, Failure>;
