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
    Fifo,
    Socket,
    Char { rdev: u32 },
}

/// Treatment of an extended attribute that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    Either,
    Create,
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
        path: Path,
        mode: u16,
        handle: Option<HandleId>,
    },
    Mkdir {
        path: Path,
        mode: u16,
    },
    Mknod {
        path: Path,
        special: Special,
        mode: u16,
    },
    Symlink {
        path: Path,
        target: Blob,
    },
    Link {
        from: Path,
        to: Path,
    },
    Unlink {
        path: Path,
    },
    Rmdir {
        path: Path,
    },
    Rename {
        from: Path,
        to: Path,
        no_replace: bool,
        whiteout: bool,
    },
    Stat {
        path: Path,
    },
    Chmod {
        path: Path,
        mode: u16,
    },
    Chown {
        path: Path,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// Of a path, with the rights that takes.
    Truncate {
        path: Path,
        size: u64,
    },
    SetTimes {
        path: Path,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    },
    ReadDir {
        path: Path,
    },
    ReadLink {
        path: Path,
    },
    SetXattr {
        path: Path,
        name: Blob,
        value: Blob,
        mode: XattrMode,
    },
    GetXattr {
        path: Path,
        name: Blob,
    },
    ListXattr {
        path: Path,
    },
    RemoveXattr {
        path: Path,
        name: Blob,
    },
    /// Reads or writes or both; `truncate` only with `write`.
    Open {
        path: Path,
        handle: HandleId,
        read: bool,
        write: bool,
        truncate: bool,
    },
    Close {
        handle: HandleId,
    },
    Read {
        handle: HandleId,
        offset: u64,
        length: u32,
    },
    /// Writes `length` bytes that follow from `fill` ([`filling`]); 1 at least.
    Write {
        handle: HandleId,
        offset: u64,
        length: u32,
        fill: u64,
    },
    /// `ftruncate`.
    SetSize {
        handle: HandleId,
        size: u64,
    },
    /// `fstat`.
    StatOpen {
        handle: HandleId,
    },
    Sync {
        handle: HandleId,
    },
    /// `renameat2` with `RENAME_EXCHANGE`.
    Exchange {
        from: Path,
        to: Path,
    },
    /// `fallocate`; of 1 byte at least.
    Allocate {
        handle: HandleId,
        offset: u64,
        length: u64,
        allocation: Allocation,
    },
    /// `lseek` with `SEEK_DATA` or `SEEK_HOLE`.
    Seek {
        handle: HandleId,
        offset: u64,
        data: bool,
    },
    /// `write` to a file opened with `O_APPEND`; of 1 byte at least, as in [`Op::Write`].
    Append {
        handle: HandleId,
        length: u32,
        fill: u64,
    },
    /// `open` of a directory with `O_TMPFILE | O_RDWR`, and with `O_EXCL` where it may not be linked.
    CreateUnnamed {
        dir: Path,
        mode: u16,
        handle: HandleId,
        may_be_named: bool,
    },
    /// `linkat` of an open file.
    LinkOpen {
        handle: HandleId,
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

/// An operation and who asks for it, as a place in [`callers`]. Operations on an open file are asked
/// for by whoever opened it, whatever stands here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub caller: usize,
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
    pub ino: u64,
    pub kind: FileKind,
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

/// Answer of an operation that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Stat(Box<Stat>),
    /// Names and what they lead to, in any order, without `.` and `..`.
    Entries(Vec<(Vec<u8>, FileKind)>),
    Link(Vec<u8>),
    Value(Vec<u8>),
    /// In any order.
    Names(Vec<Vec<u8>>),
    Data(Vec<u8>),
    /// Beginning of the next data or hole; `None` (ENXIO) if there is none.
    Found(Option<u64>),
}

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Fs(FsError),
    /// An answer that no file system gives: never right.
    Other(String),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Fs(error)
    }
}

pub type Outcome = Result<Answer, Failure>;
