//! Steps of distributed operations, each for one shard.

use crate::layout::LayoutChoice;
use crate::path::{AboveSeen, PathName};
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
    /// Puts a name into a directory.
    Insert(Insert),
    /// Takes a name out of a directory.
    Remove(Remove),
    /// Makes a directory's inode and its partition 0; further partitions follow as `NewPart`.
    NewDir(Box<NewDir>),
    /// Makes a partition of a directory that starts with several.
    NewPart(Box<NewPart>),
    /// Counts one more name of a file.
    Link(Link),
    /// Counts one name less of a file.
    Unlink(Unlink),
    /// Changes the ctime of an inode.
    Touch(Touch),
    /// Frees an empty directory at its home.
    DropDir(DropDir),
    /// Frees a directory's empty partitions elsewhere.
    DropPart(DropPart),
    /// Notes the new parent of a directory.
    SetParent(SetParent),
    /// Keeps directories from moving, so that none comes to be below itself.
    HoldAncestors(HoldAncestors),
    /// Changes attributes and settings of a directory.
    SetDir(SetDir),
    /// The receiving half of a split or a merge: what was staged under `split` and what changed since
    /// becomes the partition, or a part of the one it was split from.
    Adopt(Box<Adopt>),
    /// The giving half of a split or a merge: the entries go.
    GiveUp(GiveUp),
    /// A name leads to something else than before, which had the other name of an exchange.
    Swap(Box<Swap>),
    /// A directory's access control list, at its home and wherever it has partitions.
    SetAcl(Box<SetAcl>),
    /// Makes the inode of a branch file: one that is not with its entry.
    NewFile(Box<NewFile>),
    /// The old name of a rename leads to a white-out from now on. Its coordinator's own step.
    Whiteout(Box<Whiteout>),
    /// A directory above others has changed so that paths through it lead elsewhere or are allowed to others.
    PathLine(PathLine),
}

impl Step {
    /// The session that has done the step under its grant before any server heard of it.
    pub fn holder(&self) -> Option<Holder> {
        match self {
            Step::DropDir(step) => step.holder,
            _ => None,
        }
    }
}

/// Puts a name into a directory. With `replace` a name that is there gives way if POSIX lets it;
/// what it led to follows as a further step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insert {
    /// The directory, of which the shard has the name's partition.
    pub dir: Ino,
    /// The name to be there afterwards.
    pub name: Name,
    /// `None`: what the operation's `NewDir`, `NewFile` or `Link` step returns.
    pub ino: Option<Ino>,
    /// Of the inode; decides what may give way to it.
    pub kind: FileKind,
    /// The shard that has the inode, or will.
    pub shard: ShardId,
    /// Whether a name that is there gives way; else `Exists`.
    pub replace: bool,
    /// Must be allowed to write to the directory.
    pub caller: Credentials,
    /// For mtime and ctime of the directory.
    pub time: Time,
}

/// Takes a name out of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remove {
    /// The directory, of which the shard has the name's partition.
    pub dir: Ino,
    /// The name to be gone afterwards.
    pub name: Name,
    /// The inode that it must lead to; else the operation is aborted.
    pub ino: Ino,
    /// Must be allowed to write to the directory.
    pub caller: Credentials,
    /// For mtime and ctime of the directory.
    pub time: Time,
}

/// One more name for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The file.
    pub ino: Ino,
    /// For its ctime.
    pub time: Time,
}

/// One name less; the last one frees the file, or leaves it to those who have it open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlink {
    /// The file.
    pub ino: Ino,
    /// In a sticky directory the user who has to own it; `None` where anybody may.
    pub must_own: Option<u32>,
    /// For its ctime.
    pub time: Time,
}

/// Changes ctime; with `must_own` only if that user owns it (sticky directories).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// The inode.
    pub ino: Ino,
    /// In a sticky directory the user who has to own it; `None` where anybody may.
    pub must_own: Option<u32>,
    /// The new ctime, unless it has a later one.
    pub time: Time,
}

/// Frees an empty directory at its home; partitions elsewhere follow as `DropPart`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropDir {
    /// The directory; `NotEmpty` if it has entries here.
    pub dir: Ino,
    /// In a sticky directory the user who has to own it; `None` where anybody may.
    pub must_own: Option<u32>,
    /// The session that has removed it under its grant, which ends with the directory.
    pub holder: Option<Holder>,
}

/// A session that has done a step under its grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Which.
    pub session: SessionId,
    /// Of its grants of the step's shard. If these are over the step is taken as any other session's.
    pub incarnation: u64,
}

/// Frees the empty partitions of a directory on a shard that is not its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropPart {
    /// The directory; `NotEmpty` if it has entries here.
    pub dir: Ino,
}

/// A directory has moved below another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetParent {
    /// The directory that has moved.
    pub dir: Ino,
    /// The one that it is in now.
    pub parent: Ino,
    /// In a sticky directory the user who has to own it; `None` where anybody may.
    pub must_own: Option<u32>,
    /// Must be allowed to write to it, as its `..` changes.
    pub caller: Credentials,
    /// For its ctime.
    pub time: Time,
}

/// Keeps the ancestors of `from`, itself included, where they are until the operation ends, and
/// refuses if `moving` is among them. Ancestors on other shards follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldAncestors {
    /// The directory to begin at, which is to become the parent.
    pub from: Ino,
    /// The directory that is renamed.
    pub moving: Ino,
    /// Directories that were passed before, at most `MAX_DIRECTORY_DEPTH`.
    pub depth: u32,
}

/// A change of a directory that a shard which paths lead to takes down in its path log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLine {
    /// The directory.
    pub dir: Ino,
    /// Whether its name or parent changes, so that its own path does as well as those below it.
    pub moved: bool,
    /// Random: the same on all shards, and of no other change.
    pub stamp: u64,
}

/// Attributes and settings of a directory, at its home and wherever it has partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDir {
    /// The directory.
    pub dir: Ino,
    /// Attributes to change; `None` stays.
    pub set: SetAttr,
    /// Settings to change; `None` stays.
    pub settings: DirSettings,
    /// Must be the owner, or have the capability for the change.
    pub caller: Credentials,
    /// For its ctime, and for times that are set to now.
    pub time: Time,
}

/// The giving half of a split or a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUp {
    /// The directory.
    pub dir: Ino,
    /// The attempt of this shard that ends with it.
    pub split: SplitId,
}

/// White-out that a rename leaves in the place of what it takes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whiteout {
    /// The directory of the old name.
    pub dir: Ino,
    /// The old name.
    pub name: Name,
    /// The inode that goes elsewhere.
    pub ino: Ino,
    /// The white-out: a character device of number 0:0.
    pub new: NewFile,
    /// Must be allowed to take the old name away.
    pub caller: Credentials,
}

/// New inode that is no directory, with one name on another shard, where its inheritance is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Kind, with what only this kind has.
    pub node: NewNode,
    /// Permission bits after inheritance, 0o7777 at most.
    pub mode: u16,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group, inherited or the caller's.
    pub gid: u32,
    /// How it is striped, if it is a file.
    pub layout: LayoutChoice,
    /// All four of its times.
    pub time: Time,
    /// Lists that it inherits.
    pub acls: Acls,
    /// The session that has it open from the beginning.
    pub opened_by: Option<SessionId>,
}

/// Sets or takes away one of a directory's access control lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAcl {
    /// The directory.
    pub dir: Ino,
    /// Which of its two lists.
    pub kind: AclKind,
    /// `None` takes it away.
    pub acl: Option<Acl>,
    /// Must own the directory.
    pub caller: Credentials,
    /// For its ctime.
    pub time: Time,
}

/// One of the two names that change places. The coordinator's own step, which names the inode of its
/// name (`from`), takes the one that the other step finds; the other one (`to`) takes the one that it
/// is told, and says which one its name led to. The other steps needed follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// The directory of the name that this step changes.
    pub dir: Ino,
    /// The name that this step changes.
    pub name: Name,
    /// The directory of the other name.
    pub other: Ino,
    /// The inode of the coordinator's name: it leaves that one and comes to the other.
    pub comes: SwappedEntry,
    /// Whether this is the coordinator's own name.
    pub own: bool,
    /// Must be allowed to write to the directory.
    pub caller: Credentials,
    /// For mtime and ctime of the directory.
    pub time: Time,
    /// Of the lines in path logs for directories that move.
    pub stamp: u64,
}

/// Inode of a name that changes places with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwappedEntry {
    /// The inode.
    pub ino: Ino,
    /// Decides which directories count a subdirectory more or less.
    pub kind: FileKind,
    /// Where the inode is.
    pub shard: ShardId,
}

/// New directory at its home, where its inheritance is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDir {
    /// The directory that its name is in.
    pub parent: Ino,
    /// Permission bits after inheritance, 0o7777 at most.
    pub mode: u16,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Where in its distribution unit it is.
    pub grain: GrainState,
    /// Those that it inherits; its partitions split by them.
    pub settings: DirSettings,
    /// All four of its times.
    pub time: Time,
    /// Its lists, by which callers are checked and children inherit.
    pub acls: Acls,
    /// The session that has made it under a grant before its home heard of it, and the number that it has given it.
    pub chosen: Option<(SessionId, Ino)>,
    /// The path that it is placed by.
    pub path: Option<PathName>,
    /// Its path permissions, where the shard of its name has them valid and the path leads to its home.
    pub above: Option<AboveSeen>,
}

/// Partitions on one shard of a directory whose home is elsewhere: what they know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPart {
    /// The directory.
    pub dir: Ino,
    /// With the partitions on this shard in it.
    pub map: DirMap,
    /// Permission bits after inheritance, 0o7777 at most.
    pub mode: u16,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Where in its distribution unit it is.
    pub grain: GrainState,
    /// Those that it inherits; its partitions split by them.
    pub settings: DirSettings,
    /// Its times at the beginning.
    pub time: Time,
    /// Its lists, by which callers are checked and children inherit.
    pub acls: Acls,
    /// The path that the directory was placed by.
    pub path: Option<PathName>,
}

/// One attempt to split one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SplitId {
    /// The shard that gives entries away.
    pub source: ShardId,
    /// Drawn from the same counter as the source's distributed operations.
    pub sequence: u64,
}

/// The taking half of a split or a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    /// The attempt that the chunks were staged under.
    pub split: SplitId,
    /// The directory as the source knows it; the shard may have no partition of it yet.
    pub part: NewPart,
    /// The partition that comes, or that ends by a merge.
    pub child: PartitionIndex,
    /// The child is merged into the partition that it was split from, which is here.
    pub back: bool,
    /// Chunks staged before; all must have arrived.
    pub chunks: u32,
    /// Entries that changed since they were staged, and names that went.
    pub changed: Vec<SplitItem>,
    /// Names that went after they were staged.
    pub gone: Vec<Name>,
    /// Sessions that have moved files open, and how often.
    pub opens: Vec<(Ino, SessionId, u32)>,
    /// Of the giving partition.
    pub mtime: Time,
    /// Of the giving partition.
    pub ctime: Time,
    /// Locks on moved files, with their sessions.
    pub locks: Vec<(Ino, SessionId, FileLock)>,
}

/// Entries on their way to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitChunk {
    /// The attempt that it is staged under.
    pub split: SplitId,
    /// The directory that splits.
    pub dir: Ino,
    /// From 0, without a gap.
    pub number: u32,
    /// In the order of positions.
    pub items: Vec<SplitItem>,
    /// Names that went after an earlier chunk held them.
    pub gone: Vec<Name>,
}

/// One entry; stored values are passed on as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitItem {
    /// Unique within the directory.
    pub name: Name,
    /// The stored value of the entry, position and all.
    #[serde(with = "serde_bytes")]
    pub entry: Vec<u8>,
    /// The inode, when it moves along.
    pub inode: Option<MovedInode>,
}

/// Inode that goes to another shard with its only name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedInode {
    /// It keeps its number, which tells where it was made.
    pub ino: Ino,
    /// The stored value of the inode.
    #[serde(with = "serde_bytes")]
    pub record: Vec<u8>,
    /// The bytes of a file that is kept inline.
    pub data: serde_bytes::ByteBuf,
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
