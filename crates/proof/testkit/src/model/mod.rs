//! A file system as POSIX and Linux describe it, in memory and as naive as can be: what a subject is
//! compared with.
//!
//! POSIX does not say which of several errors that apply at once is answered, so an operation that
//! fails has a set of errors, each of which is right.

mod acl;
mod attributes;
mod create;
mod data;
mod exchange;
mod read;
mod remove;
mod rename;
mod space;
mod tree;
mod unnamed;
mod xattr;

pub use acl::{Acl, encode_acl};

use crate::bytes::Bytes;
use crate::op::{HandleId, Op, Step, callers};
use crate::subject::{Census, Traits};
use pandofs_types::{Credentials, FileKind, FsError, Time};
use std::collections::{BTreeMap, BTreeSet};

/// An inode of the model; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// Source of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamp {
    /// It was set to this.
    At(Time),
    /// The clock while the operation of this number ran.
    During(usize),
    /// The clock at any time since the operation of this number began.
    Since(usize),
}

/// The values that a time may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamps(pub Vec<Stamp>);

/// Times set from here on count as the future: 2100-01-01.
pub const FUTURE: Time = Time(4_102_444_800_000_000_000);

impl Stamps {
    fn one(stamp: Stamp) -> Stamps {
        Stamps(vec![stamp])
    }

    /// The time is the clock's now.
    fn touch(&mut self, now: usize, traits: &Traits) {
        let keep = |stamp: &Stamp| {
            traits.times_only_advance && matches!(stamp, Stamp::At(time) if *time >= FUTURE)
        };
        self.0.retain(keep);
        self.0.push(Stamp::During(now));
    }

    /// The time may be the clock's now.
    fn may_touch(&mut self, now: usize) {
        if !self.0.iter().any(|stamp| matches!(stamp, Stamp::Since(_))) {
            self.0.push(Stamp::Since(now));
        }
    }
}

/// An inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// Fixed when it is made.
    pub kind: FileKind,
    /// Permission bits, 0o7777 at most.
    pub mode: u16,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Device number; 0 of what is no device.
    pub rdev: u32,
    /// Names of what is no directory.
    pub names: u32,
    /// It was made without a name and has had none since, and may get one.
    pub may_be_named: bool,
    /// Handles that keep it.
    pub opens: u32,
    /// Moments that the last access may be told as.
    pub atime: Stamps,
    /// Moments that the last change of contents may be told as.
    pub mtime: Stamps,
    /// Moments that the last change may be told as.
    pub ctime: Stamps,
    /// Without access control lists.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Says more than the mode.
    pub access: Option<Acl>,
    /// Inherited; of directories only.
    pub default: Option<Acl>,
    /// Its contents.
    pub body: Body,
}

/// Contents of an inode.
#[derive(Clone, Debug)]
pub enum Body {
    /// A regular file's contents.
    File(Bytes),
    /// A directory's contents.
    Dir {
        /// Without `.` and `..`.
        entries: BTreeMap<Vec<u8>, NodeId>,
        /// Its own number, of the root.
        parent: NodeId,
    },
    /// A link's target.
    Symlink(Vec<u8>),
    /// Fifos, sockets and devices: nothing.
    Special,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    node: NodeId,
    caller: usize,
    read: bool,
    write: bool,
}

/// Attributes that `stat` must say, times aside a value each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedStat {
    /// So that two names of one inode are seen to be of one.
    pub node: NodeId,
    /// Must be told so exactly.
    pub kind: FileKind,
    /// Permission bits, 0o7777 at most.
    pub mode: u16,
    /// Must be told so exactly, of directories as well.
    pub nlink: u32,
    /// Must be told so exactly.
    pub uid: u32,
    /// Must be told so exactly.
    pub gid: u32,
    /// Must be told so exactly.
    pub rdev: u32,
    /// None: not specified.
    pub size: Option<u64>,
    /// The moment that is told must be one of these.
    pub atime: Stamps,
    /// The moment that is told must be one of these.
    pub mtime: Stamps,
    /// The moment that is told must be one of these.
    pub ctime: Stamps,
}

/// Answer that an operation must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Success, with nothing to be said.
    Done,
    /// Nothing changes, and one of these errors is as right as success.
    NothingOr(BTreeSet<FsError>),
    /// Attributes of an inode.
    Stat(Box<ExpectedStat>),
    /// All of a directory, in any order.
    Entries(BTreeMap<Vec<u8>, FileKind>),
    /// A link's target.
    Link(Vec<u8>),
    /// An extended attribute's value.
    Value(Vec<u8>),
    /// Of extended attributes, in any order.
    Names(BTreeSet<Vec<u8>>),
    /// Bytes that were read.
    Data(Vec<u8>),
    /// Beginning of the data or the hole that is looked for. Which zeros a file keeps as holes is its own
    /// business.
    Found {
        /// Not before this.
        from: u64,
        /// Not after this; `None`: there may be none at all (ENXIO).
        by: Option<u64>,
        /// There may be none although there may be some.
        or_none: bool,
    },
    /// Any of these, of which there is at least one; nothing changes.
    Error(BTreeSet<FsError>),
    /// Not to be run: systems differ in what they do, or the operation makes no sense.
    Unspecified,
}

/// Why an operation of the model does not happen.
enum Stop {
    Errors(BTreeSet<FsError>),
    Unspecified,
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Stop {
        Stop::Errors(BTreeSet::from([error]))
    }
}

type Checked<T> = Result<T, Stop>;

/// Collects all errors that apply.
#[derive(Default)]
struct Errors(BTreeSet<FsError>);

impl Errors {
    fn none_if(&mut self, holds: bool, error: FsError) {
        if !holds {
            self.0.insert(error);
        }
    }

    fn finish(self) -> Checked<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Stop::Errors(self.0))
        }
    }
}

/// Rights, as in [`Credentials::may`].
const SEARCH: u16 = 1;
const WRITE: u16 = 2;
const READ: u16 = 4;
/// Asked for at once when a name is made or removed: one group of a list has to give both.
const CHANGE: u16 = SEARCH | WRITE;

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const STICKY: u16 = 0o1000;
const GROUP_EXECUTE: u16 = 0o010;

/// A whole file system, with what is open.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<NodeId, Node>,
    root: NodeId,
    next: u64,
    handles: BTreeMap<HandleId, Handle>,
    callers: Vec<Credentials>,
    traits: Traits,
    /// The number of the operation that is being run.
    now: usize,
}

impl Model {
    /// An empty root directory. Its times are those of operation 0, which is the making of it.
    pub fn new(traits: Traits) -> Model {
        let root = NodeId(1);
        let born = Stamps::one(Stamp::During(0));
        let node = Node {
            kind: FileKind::Dir,
            mode: 0o777,
            uid: 0,
            gid: 0,
            rdev: 0,
            names: 0,
            may_be_named: false,
            opens: 0,
            atime: born.clone(),
            mtime: born.clone(),
            ctime: born,
            xattrs: BTreeMap::new(),
            access: None,
            default: None,
            body: Body::Dir {
                entries: BTreeMap::new(),
                parent: root,
            },
        };
        Model {
            nodes: BTreeMap::from([(root, node)]),
            root,
            next: 2,
            handles: BTreeMap::new(),
            callers: callers(),
            traits,
            now: 0,
        }
    }

    /// Does the operation, whose number is `now`, and says what a subject must answer.
    pub fn run(&mut self, now: usize, step: &Step) -> Expected {
        self.now = now;
        match self.dispatch(step) {
            Ok(expected) => expected,
            Err(Stop::Errors(errors)) => {
                assert!(!errors.is_empty(), "{step:?} failed without an error");
                Expected::Error(errors)
            }
            Err(Stop::Unspecified) => Expected::Unspecified,
        }
    }

    fn dispatch(&mut self, step: &Step) -> Checked<Expected> {
        let by = &self.callers[step.caller].clone();
        match &step.op {
            Op::Create { path, mode, handle } => {
                self.create_file(by, step.caller, path, *mode, *handle)
            }
            Op::Mkdir { path, mode } => self.mkdir(by, path, *mode),
            Op::Mknod {
                path,
                special,
                mode,
            } => self.mknod(by, path, *special, *mode),
            Op::Symlink { path, target } => self.symlink(by, path, &target.0),
            Op::Link { from, to } => self.link(by, from, to),
            Op::Unlink { path } => self.unlink(by, path),
            Op::Rmdir { path } => self.rmdir(by, path),
            Op::Rename {
                from,
                to,
                no_replace,
                whiteout,
            } => self.rename(by, from, to, (*no_replace, *whiteout)),
            Op::Stat { path } => self.stat(by, path),
            Op::Chmod { path, mode } => self.chmod(by, path, *mode),
            Op::Chown { path, uid, gid } => self.chown(by, path, *uid, *gid),
            Op::Truncate { path, size } => self.truncate(by, path, *size),
            Op::SetTimes { path, atime, mtime } => self.set_times(by, path, *atime, *mtime),
            Op::ReadDir { path } => self.read_dir(by, path),
            Op::ReadLink { path } => self.read_link(by, path),
            Op::SetXattr {
                path,
                name,
                value,
                mode,
            } => self.set_xattr(by, path, &name.0, &value.0, *mode),
            Op::GetXattr { path, name } => self.get_xattr(by, path, &name.0),
            Op::ListXattr { path } => self.list_xattr(by, path),
            Op::RemoveXattr { path, name } => self.remove_xattr(by, path, &name.0),
            Op::Open {
                path,
                handle,
                read,
                write,
                truncate,
            } => self.open(by, step.caller, path, *handle, *read, *write, *truncate),
            Op::Close { handle } => self.close(*handle),
            Op::Read {
                handle,
                offset,
                length,
            } => self.read(*handle, *offset, *length),
            Op::Write {
                handle,
                offset,
                length,
                fill,
            } => self.write(*handle, *offset, *length, *fill),
            Op::SetSize { handle, size } => self.set_size(*handle, *size),
            Op::StatOpen { handle } => self.stat_open(*handle),
            Op::Sync { handle } => self.handle(*handle).map(|_| Expected::Done),
            Op::Exchange { from, to } => self.exchange(by, from, to),
            Op::Allocate {
                handle,
                offset,
                length,
                allocation,
            } => self.allocate(*handle, *offset, *length, *allocation),
            Op::Seek {
                handle,
                offset,
                data,
            } => self.seek(*handle, *offset, *data),
            Op::Append {
                handle,
                length,
                fill,
            } => self.append(*handle, *length, *fill),
            Op::CreateUnnamed {
                dir,
                mode,
                handle,
                may_be_named,
            } => self.create_unnamed(by, step.caller, dir, *mode, *handle, *may_be_named),
            Op::LinkOpen { handle, to } => self.link_open(*handle, to),
        }
    }

    /// In ascending order.
    pub fn open_handles(&self) -> Vec<HandleId> {
        self.handles.keys().copied().collect()
    }

    /// The caller who opened the file.
    pub fn opener(&self, handle: HandleId) -> Option<usize> {
        self.handles.get(&handle).map(|handle| handle.caller)
    }

    /// Counted anew each time.
    pub fn census(&self) -> Census {
        let entries = |node: &Node| match &node.body {
            Body::Dir { entries, .. } => entries.len() as u64,
            _ => 0,
        };
        Census {
            entries: self.nodes.values().map(entries).sum(),
            inodes: self.nodes.len() as u64,
        }
    }
}
