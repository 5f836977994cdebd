//! Steps of distributed operations, each for one shard.

use crate::layout::LayoutChoice;
use crate::reply::InodeReply;
use crate::request::{DirSettings, NewNode};
use pandofs_placement::{DirMap, GrainState, PartitionIndex};
use pandofs_types::{
    Acl, AclKind, Acls, Credentials, FileKind, FileLock, Ino, Name, SessionId, SetAttr, ShardId,
    Time,
};
use serde::{Deserialize, Serialize};

/// Numbers the steps of one distributed operation; 0 is the coordinator's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepNumber(pub u16);

/// One shard's share of an operation (a sub-operation in the paper's words). An operation is a list
/// of steps; when all are on one shard it is ordinary and applied as one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Insert(Insert),
    Remove(Remove),
    /// Makes a directory's inode and its partition 0; further partitions follow as `NewPart`.
    NewDir(Box<NewDir>),
    /// Makes a partition of a directory that starts with several.
    NewPart(Box<NewPart>),
    Link(Link),
    Unlink(Unlink),
    Touch(Touch),
    DropDir(DropDir),
    DropPart(DropPart),
    SetParent(SetParent),
    HoldAncestors(HoldAncestors),
    SetDir(SetDir),
    /// The receiving half of a split or a merge: what was staged under `split` and what changed since
    /// becomes the partition, or a part of the one it was split from.
    Adopt(Box<Adopt>),
    GiveUp(GiveUp),
    /// A name leads to something else than before, which had the other name of an exchange.
    Swap(Box<Swap>),
    /// A directory's access control list, at its home and wherever it has partitions.
    SetAcl(Box<SetAcl>),
    /// Makes the inode of a branch file: one that is not with its entry.
    NewFile(Box<NewFile>),
    /// The old name of a rename leads to a white-out from now on. Its coordinator's own step.
    Whiteout(Box<Whiteout>),
}

/// Puts a name into a directory. With `replace` a name that is there gives way if POSIX lets it;
/// what it led to follows as a further step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insert {
    pub dir: Ino,
    pub name: Name,
    /// `None`: what the operation's `NewDir`, `NewFile` or `Link` step returns.
    pub ino: Option<Ino>,
    pub kind: FileKind,
    pub shard: ShardId,
    pub replace: bool,
    pub caller: Credentials,
    pub time: Time,
}

/// Takes a name out of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remove {
    pub dir: Ino,
    pub name: Name,
    pub ino: Ino,
    pub caller: Credentials,
    pub time: Time,
}

/// One more name for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub ino: Ino,
    pub time: Time,
}

/// One name less; the last one frees the file, or leaves it to those who have it open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlink {
    pub ino: Ino,
    pub must_own: Option<u32>,
    pub time: Time,
}

/// Changes ctime; with `must_own` only if that user owns it (sticky directories).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    pub ino: Ino,
    pub must_own: Option<u32>,
    pub time: Time,
}

/// Frees an empty directory at its home; partitions elsewhere follow as `DropPart`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropDir {
    pub dir: Ino,
    pub must_own: Option<u32>,
}

/// Frees the empty partitions of a directory on a shard that is not its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropPart {
    pub dir: Ino,
}

/// A directory has moved below another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetParent {
    pub dir: Ino,
    pub parent: Ino,
    pub must_own: Option<u32>,
    pub caller: Credentials,
    pub time: Time,
}

/// Keeps the ancestors of `from`, itself included, where they are until the operation ends, and
/// refuses if `moving` is among them. Ancestors on other shards follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldAncestors {
    pub from: Ino,
    pub moving: Ino,
    pub depth: u32,
}

/// Attributes and settings of a directory, at its home and wherever it has partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDir {
    pub dir: Ino,
    pub set: SetAttr,
    pub settings: DirSettings,
    pub caller: Credentials,
    pub time: Time,
}

/// The giving half of a split or a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUp {
    pub dir: Ino,
    pub split: SplitId,
}

/// White-out that a rename leaves in the place of what it takes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whiteout {
    pub dir: Ino,
    pub name: Name,
    /// The inode that goes elsewhere.
    pub ino: Ino,
    /// The white-out: a character device of number 0:0.
    pub new: NewFile,
    pub caller: Credentials,
}

/// New inode that is no directory, with one name on another shard, where its inheritance is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    pub node: NewNode,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// How it is striped, if it is a file.
    pub layout: LayoutChoice,
    pub time: Time,
    pub acls: Acls,
    /// The session that has it open from the beginning.
    pub opened_by: Option<SessionId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAcl {
    pub dir: Ino,
    pub kind: AclKind,
    /// `None` takes it away.
    pub acl: Option<Acl>,
    pub caller: Credentials,
    pub time: Time,
}

/// One of the two names that change places. The coordinator's own step, which names what its name leads
/// to (`from`), takes what the other one finds out; the other one (`to`) takes what it is told, and
/// says what its name led to. What that needs besides follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    pub dir: Ino,
    pub name: Name,
    /// The directory of the other name.
    pub other: Ino,
    /// The inode of the coordinator's name: it leaves that one and comes to the other.
    pub comes: SwappedEntry,
    /// Whether this is the coordinator's own name.
    pub own: bool,
    pub caller: Credentials,
    pub time: Time,
}

/// Inode of a name that changes places with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwappedEntry {
    pub ino: Ino,
    pub kind: FileKind,
    /// Where the inode is.
    pub shard: ShardId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDir {
    pub parent: Ino,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub grain: GrainState,
    pub settings: DirSettings,
    pub time: Time,
    pub acls: Acls,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPart {
    pub dir: Ino,
    pub map: DirMap,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub grain: GrainState,
    pub settings: DirSettings,
    pub time: Time,
    pub acls: Acls,
}

/// One attempt to split one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SplitId {
    pub source: ShardId,
    /// Drawn from the same counter as the source's distributed operations.
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    pub split: SplitId,
    pub part: NewPart,
    pub child: PartitionIndex,
    /// The child is merged into the partition that it was split from, which is here.
    pub back: bool,
    /// Chunks staged before; all must have arrived.
    pub chunks: u32,
    /// Entries that changed since they were staged, and names that went.
    pub changed: Vec<SplitItem>,
    pub gone: Vec<Name>,
    /// Sessions that have moved files open, and how often.
    pub opens: Vec<(Ino, SessionId, u32)>,
    pub mtime: Time,
    pub ctime: Time,
    /// Locks on moved files, with their sessions.
    pub locks: Vec<(Ino, SessionId, FileLock)>,
}

/// Entries on their way to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitChunk {
    pub split: SplitId,
    pub dir: Ino,
    /// From 0, without a gap.
    pub number: u32,
    pub items: Vec<SplitItem>,
    /// Names that went after an earlier chunk held them.
    pub gone: Vec<Name>,
}

/// One entry; stored values are passed on as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitItem {
    pub name: Name,
    #[serde(with = "serde_bytes")]
    pub entry: Vec<u8>,
    /// The inode, when it moves along.
    pub inode: Option<MovedInode>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedInode {
    pub ino: Ino,
    #[serde(with = "serde_bytes")]
    pub record: Vec<u8>,
    /// Names and values.
    pub xattrs: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
}

/// Result of a step for the others of its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// The inode that `NewDir` or `NewFile` made or `Link` linked.
    pub inode: Option<Box<InodeReply>>,
    /// The inode that had the name of a `Swap` that is not the coordinator's.
    pub entry: Option<SwappedEntry>,
}
