//! Answers of shards to clients.

use crate::data::Layout;
use crate::request::DirSettings;
use pandofs_placement::{DirMap, Placing};
use pandofs_types::{Attr, Epoch, FileKind, FileLock, FsError, Ino, Name, Position, ShardId, Time};
use serde::{Deserialize, Serialize};

/// Answer of a shard that did what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done, with nothing to tell.
    Done,
    /// The name and what it leads to, after the operation.
    Entry(EntryReply),
    /// The inode after the operation.
    Inode(InodeReply),
    /// The name is gone.
    Removed {
        /// The inode that it led to.
        ino: Ino,
    },
    /// The new name leads there, or both names did already.
    Renamed {
        /// The inode that was moved.
        ino: Ino,
    },
    /// Target of the symbolic link, bytes as they were given.
    Link(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Value of the extended attribute.
    Value(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Names of all extended attributes, each with its prefix.
    Names(Vec<serde_bytes::ByteBuf>),
    /// A page of a listing.
    Entries(EntriesReply),
    /// This shard's part of the directory.
    Part(DirPart),
    /// The inode that had the first name, and the one that had the other.
    Exchanged {
        /// It has the other name now.
        ino: Ino,
        /// It has the first name now.
        other: Ino,
    },
    /// Of those in the way the first.
    Lock(Option<FileLock>),
    /// Locks that others have taken since, so that the session's are lost.
    LostLocks(Vec<(Ino, FileLock)>),
    /// Closes that did not count here, once for each, and the shard that is to be told of them: another one if the
    /// inode has moved, this one once more if an operation that may move it is under way. All others counted.
    NotClosed(Vec<(Ino, ShardId)>),
    /// `None`: there is no grant to be had now.
    Granted(Option<Box<Granted>>),
    /// Inode numbers, which follow one another.
    Numbers {
        /// The smallest.
        first: Ino,
        /// Those to be used in their order.
        count: u32,
        /// Those after these, to be used in any order.
        unordered: u32,
    },
    /// The outcome of a batch.
    Batch(Box<BatchReply>),
}

/// Grant of a directory: what the shard has of it and of the inodes in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Random number that is the same for all grants that the session has of the shard at a time, and another one after
    /// these were lost.
    pub incarnation: u64,
    /// As they are when it is granted.
    pub terms: GrantTerms,
    /// Keys and values as the shard's store has them (`docs/data-layout.md`): the directory, all its entries, all inodes
    /// on this shard that they lead to, with their extended attributes.
    pub pairs: Vec<(serde_bytes::ByteBuf, serde_bytes::ByteBuf)>,
}

/// Conditions of what a session does under grants of a shard, as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    /// Clock of the server.
    pub time: Time,
    /// Placement where the policy follows the load.
    pub placing: Option<Placing>,
    /// The disk has little space, or that of a server which data of files goes to: what needs some is to be asked for.
    pub is_low: bool,
}

/// Outcome of a [`Batch`](crate::op::Batch).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchReply {
    /// Operations that were executed, from the first on.
    pub done: u32,
    /// Refusal of the next one.
    pub refused: Option<Refusal>,
    /// [`Granted::incarnation`] of the grants that the session has, which were renewed, those of directories that were
    /// made among them; `None` if it has none.
    pub incarnation: Option<u64>,
    /// As they are when it is answered.
    pub terms: GrantTerms,
}

/// Inode that a name leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryReply {
    /// The inode.
    pub ino: Ino,
    /// Fixed for the inode.
    pub kind: FileKind,
    /// Where the inode is.
    pub shard: ShardId,
    /// Given when the inode is on the answering shard; else ask `shard`.
    pub inode: Option<InodeReply>,
}

/// An inode as its shard has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeReply {
    /// For a directory: of the home's partitions only; the rest is gathered over `dir`'s map.
    pub attr: Attr,
    /// Where the file's data is; for what is no file `None`.
    pub body: FileBody,
    /// For a directory: its map as its home knows it.
    pub dir: Option<Box<DirReply>>,
    /// How often the file was truncated: once when it got its data objects, and whenever it was given a size since that these
    /// have to follow. A request that changes them says which count it goes by ([`DataRequest`](crate::DataRequest)). It
    /// stays at `u32::MAX`.
    pub truncations: u32,
}

/// Addition of the home to the attributes of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirReply {
    /// All partitions that the home has heard of.
    pub map: DirMap,
    /// The directory that it is in; of the root itself.
    pub parent: Ino,
    /// Its own, which new subdirectories inherit.
    pub settings: DirSettings,
}

/// Where the data of a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileBody {
    /// No file.
    None,
    /// The bytes are kept beside the inode; the file's size may be larger, the rest reads as zeros.
    /// `data` is only given in answer to `ReadInline`; otherwise it is empty.
    Inline {
        /// Shorter than the size where zeros follow.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
        /// The layout for when the file is striped.
        layout: Layout,
    },
    /// In data objects, without holes: what it takes follows from its size.
    Striped(Layout),
    /// Striped, and may have holes or space beyond its end: what it takes only its data objects know
    /// (`DataRequest::Usage`).
    Sparse(Layout),
}

/// One shard's part of a directory's attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirPart {
    /// Names in the shard's partitions.
    pub entries: u64,
    /// Directories among them.
    pub subdirs: u32,
    /// The latest change of a name in these partitions.
    pub mtime: Time,
    /// The latest change of these partitions or, at the home, of the attributes.
    pub ctime: Time,
    /// All partitions that this shard has heard of.
    pub map: DirMap,
}

/// A page of a listing, in the order of positions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesReply {
    /// Without `.` and `..`; few or none where the page is full at once or the partition ends.
    pub entries: Vec<DirEntry>,
    /// Where to go on, `Position::END` when the directory ends there; the shard that holds that
    /// position may be another one.
    pub next: Position,
    /// All partitions that this shard has heard of.
    pub map: DirMap,
    /// Of a listing from the start: the directory that this one is in.
    pub parent: Option<Ino>,
    /// The directory itself, for a client that has named it by its path.
    pub dir: Ino,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Unique within the directory.
    pub name: Name,
    /// Its own, with the ordinal.
    pub position: Position,
    /// The inode that the name leads to.
    pub ino: Ino,
    /// Of the inode.
    pub kind: FileKind,
    /// The shard that has the inode, as far as the entry tells.
    pub shard: ShardId,
    /// With `plus`, when the inode is on the answering shard.
    pub inode: Option<InodeReply>,
}

/// Why a request was not executed. Each variant is one reaction of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Tell the program.
    Fs(FsError),
    /// This shard does not hold that part of the directory: merge the map (if the shard knows any)
    /// and ask the right shard; without a map ask the directory's home for its map.
    Misdirected(Option<DirMap>),
    /// The new name of a rename belongs to another shard than the client said: merge, ask again.
    NewNameMisdirected(Option<DirMap>),
    /// The inode is on another shard now: ask there.
    Moved {
        /// The inode that was asked for.
        ino: Ino,
        /// The shard to ask, as far as this one knows.
        shard: ShardId,
    },
    /// This server does not lead that shard: fetch the cluster map if its epoch is newer, ask again.
    WrongServer {
        /// Of the server's own map.
        epoch: Epoch,
    },
    /// Nothing was done; ask again after a short pause.
    TryAgain,
    /// The file's data is not inline, or the write does not fit: use the layout.
    NotInline {
        /// Where the data is to go, or is.
        layout: Layout,
        /// Whether it is in data objects already; else ask for `Stripe` first.
        striped: bool,
    },
    /// The sequence number is older than the last one answered on that slot.
    StaleSequence,
    /// The request makes no sense; the text says why.
    Malformed(String),
    /// The lock cannot be given yet: ask again, with the same request, to go on waiting.
    NotYet,
    /// A request by path that this shard does not decide alone.
    ByPath(PathReply),
}

/// Knowledge that a shard has of a path if it does not do what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathReply {
    /// Nothing that is sure to be right: the path is to be gone through, and may be kept then.
    Unknown {
        /// Changes that the shard's path log has seen.
        seen: u64,
    },
    /// The path leads to this directory, which the caller may reach, and the name's partition is on another shard, or the
    /// other directory of a rename is.
    LeadsTo {
        /// The directory.
        dir: Ino,
        /// All partitions of it that this shard has heard of, if it has any.
        map: Option<DirMap>,
    },
}

impl From<FsError> for Refusal {
    fn from(error: FsError) -> Refusal {
        Refusal::Fs(error)
    }
}
