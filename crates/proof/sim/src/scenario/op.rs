//! Operations of clients' programs, by path.

use super::Moment;
use pandofs_api::XattrMode;
use pandofs_types::{Credentials, LockKind};
use std::fmt;

/// Names from the root down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<String>);

/// User that runs a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct User(pub u8);

impl User {
    /// The one that may do everything.
    pub const ROOT: User = User(0);
    /// Users besides, with the numbers after that of [`User::ROOT`].
    pub const OTHERS: u8 = 3;
    /// A group that has two of them.
    pub const GROUP: u32 = 9;

    /// Whose rights count.
    pub fn credentials(self) -> Credentials {
        let id = u32::from(self.0);
        match self.0 {
            0 => Credentials::ROOT,
            1 => Credentials::user(id, id, Vec::new()),
            _ => Credentials::user(id, id, vec![User::GROUP]),
        }
    }

    /// Bits that are taken off what it makes.
    pub fn umask(self) -> u16 {
        [0o022, 0, 0o002, 0o077][usize::from(self.0) % 4]
    }
}

/// Operation of a worker of a client, by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes an empty file.
    Create(Path),
    /// Makes a directory.
    Mkdir(Path),
    /// Takes away a name of what is no directory.
    Unlink(Path),
    /// Takes away an empty directory.
    Rmdir(Path),
    /// A further name for the file that the first path leads to.
    Link(Path, Path),
    /// Moves a name.
    Rename {
        /// Looked up at each step, so that it may be gone by then.
        from: Path,
        /// May lead to something, which gives way then.
        to: Path,
        /// Fails if `to` is taken.
        no_replace: bool,
        /// Leaves a white-out under the old name.
        whiteout: bool,
    },
    /// Two names change places.
    Exchange(Path, Path),
    /// Asks what the path leads to.
    Lookup(Path),
    /// Asks for the attributes of what the path leads to.
    Stat(Path),
    /// Lists a directory to its end.
    List(Path),
    /// Sets permission bits, 0o7777 at most.
    Chmod(Path, u16),
    /// Gives it to others.
    Chown {
        /// Looked up at each step, so that it may be gone by then.
        path: Path,
        /// `None`: it stays.
        uid: Option<u32>,
        /// `None`: it stays.
        gid: Option<u32>,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// Looked up at each step, so that it may be gone by then.
        path: Path,
        /// Of those that there are.
        name: usize,
        /// All bytes of it.
        value: u8,
        /// Whether it has to be there, or must not.
        mode: XattrMode,
    },
    /// Takes away the so-manieth extended attribute.
    RemoveXattr(Path, usize),
    /// Asks for its value.
    GetXattr(Path, usize),
    /// Lists the names of all.
    ListXattr(Path),
    /// Cuts a file, or makes it longer.
    Truncate(Path, u64),
    /// Writes so many bytes from this one on.
    Write {
        /// Looked up at each step, so that it may be gone by then.
        path: Path,
        /// Within what is kept in the inode.
        offset: u64,
        /// Of zeros.
        length: usize,
    },
    /// Sets the time of the last change, in nanoseconds.
    Utimens(Path, i64),
    /// Moves the file's bytes to data objects.
    Stripe(Path),
    /// Syncs the log of the shard that has what the path leads to.
    Sync(Path),
    /// Reads all of the file.
    ReadData(Path),
    /// Writes sectors, in data objects where the file is not kept inline.
    WriteData {
        /// Looked up at each step, so that it may be gone by then.
        path: Path,
        /// Number of the first.
        first: usize,
        /// As far as a file has so many.
        count: usize,
    },
    /// Keeps so many sectors of the file, or makes it as long.
    TruncateData(Path, usize),
    /// Syncs the file: all that this client has done to it.
    SyncData(Path),
    /// Keeps the file open, for what is done to open files.
    Open {
        /// Looked up at each step, so that it may be gone by then.
        path: Path,
        /// Whether it is cut to nothing.
        truncate: bool,
    },
    /// Closes one of those that are open: the so-manieth, counted round and round.
    Close(usize),
    /// Asks for the attributes of one.
    StatOpen(usize),
    /// Writes into one.
    WriteOpen(usize),
    /// Locks one, all of it or a range from this byte on.
    Lock {
        /// As in `Close`.
        place: usize,
        /// Locks of different kinds do not see one another.
        kind: LockKind,
        /// Whether nobody else may have a lock there.
        is_exclusive: bool,
        /// First byte; `None` for the whole file.
        range: Option<u64>,
        /// Whether it waits for locks in the way.
        waits: bool,
    },
    /// Gives locks back.
    Unlock {
        /// As in `Close`.
        place: usize,
        /// Locks of different kinds do not see one another.
        kind: LockKind,
        /// First byte; `None` for the whole file.
        range: Option<u64>,
    },
}

/// An operation of one client's worker, not begun before `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Since the start of the run.
    pub at: Moment,
    /// Its number, from 0.
    pub client: usize,
    /// Its number within the client; it does one operation at a time.
    pub worker: usize,
    /// In whose name.
    pub by: User,
    /// Done once the worker's operation before has ended.
    pub op: Op,
}

impl Op {
    /// Every path that it names, in the order of its arguments.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Op::Create(path)
            | Op::Mkdir(path)
            | Op::Unlink(path)
            | Op::Rmdir(path)
            | Op::Lookup(path)
            | Op::Stat(path)
            | Op::List(path)
            | Op::Chmod(path, _)
            | Op::Chown { path, .. }
            | Op::SetXattr { path, .. }
            | Op::RemoveXattr(path, _)
            | Op::GetXattr(path, _)
            | Op::ListXattr(path)
            | Op::Truncate(path, _)
            | Op::Write { path, .. }
            | Op::Utimens(path, _)
            | Op::Stripe(path)
            | Op::ReadData(path)
            | Op::WriteData { path, .. }
            | Op::TruncateData(path, _)
            | Op::SyncData(path)
            | Op::Open { path, .. }
            | Op::Sync(path) => vec![path],
            Op::Close(_)
            | Op::StatOpen(_)
            | Op::WriteOpen(_)
            | Op::Lock { .. }
            | Op::Unlock { .. } => vec![],
            Op::Link(from, to) | Op::Rename { from, to, .. } | Op::Exchange(from, to) => {
                vec![from, to]
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}
