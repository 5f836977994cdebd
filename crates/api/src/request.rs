//! Requests of clients to one shard.

use crate::{Allocation, LayoutChoice};
use pandofs_placement::{DirPolicy, FilePolicy};
use pandofs_types::limits::{MAX_PARTITIONS, MIN_SPLIT_THRESHOLD};
use pandofs_types::{
    AtimeRule, Credentials, Epoch, FileLock, Ino, LockKind, LockRange, Name, Position, SessionId,
    SetAttr, ShardId, SlotId, Time,
};
use serde::{Deserialize, Serialize};

/// Identifies a request for ever, so that a repeated one gets the first one's answer: the slot's
/// sequence number grows by one or more with each new request on it, over all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestKey {
    pub session: SessionId,
    pub slot: SlotId,
    pub sequence: u64,
}

/// A request with what every request carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRequest {
    pub shard: ShardId,
    /// The cluster map by which the client chose the server.
    pub epoch: Epoch,
    pub key: RequestKey,
    pub caller: Credentials,
    pub request: Request,
}

/// Settings of a directory that its new subdirectories inherit. `None` is the file system's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirSettings {
    /// Entries of a partition before it splits.
    pub threshold: Option<u32>,
    /// Partitions beyond which it does not split.
    pub max_partitions: Option<u32>,
    /// Partitions a directory is made with.
    pub initial_partitions: Option<u32>,
    /// Where new subdirectories go.
    pub policy: Option<DirPolicy>,
    /// Where the inodes of new files go.
    pub file_policy: Option<FilePolicy>,
    /// How files that are made in it are striped. Set as a whole.
    pub layout: Option<LayoutChoice>,
}

impl DirSettings {
    /// Whether every setting is in its range (they come from the network).
    pub fn is_valid(&self) -> bool {
        let partitions = 1..=MAX_PARTITIONS as u32;
        let fits = |wanted: Option<u32>| wanted.is_none_or(|wanted| partitions.contains(&wanted));
        self.threshold
            .is_none_or(|threshold| threshold >= MIN_SPLIT_THRESHOLD)
            && fits(self.max_partitions)
            && fits(self.initial_partitions)
            && self.policy.is_none_or(DirPolicy::is_valid)
            && self.file_policy.is_none_or(FilePolicy::is_valid)
            && self.layout.is_none_or(|layout| layout.is_valid())
    }
}

/// How `setxattr` treats an attribute that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    Either,
    /// XATTR_CREATE
    Create,
    /// XATTR_REPLACE
    Replace,
}

/// What a client asks of a shard. The first group is sent to the shard that holds the partition of
/// `(dir, name)`, the second to the shard that holds the inode, the third to the directory's shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    // By name.
    /// Answers [`crate::Reply::Entry`].
    Lookup { dir: Ino, name: Name },
    /// Makes what is no directory; `Exists` if the name is taken. With `open` the file is also opened
    /// by the session. Answers `Entry`.
    Create {
        dir: Ino,
        name: Name,
        node: NewNode,
        mode: u16,
        /// Taken off the mode where no access control list is inherited.
        umask: u16,
        open: bool,
    },
    /// Answers `Entry`. The new directory inherits the parent's settings.
    Mkdir {
        dir: Ino,
        name: Name,
        mode: u16,
        /// As in `Create`.
        umask: u16,
    },
    /// Answers `Removed`.
    Unlink { dir: Ino, name: Name },
    /// Answers `Removed`.
    Rmdir { dir: Ino, name: Name },
    /// A further name for `ino`, whose inode is believed to be on `inode_shard`. Answers `Entry`.
    Link {
        dir: Ino,
        name: Name,
        ino: Ino,
        inode_shard: ShardId,
    },
    /// Sent to the shard of the old name; `new_shard` is where the client believes the new name to
    /// belong. Answers `Renamed`.
    Rename {
        dir: Ino,
        name: Name,
        new_dir: Ino,
        new_name: Name,
        new_shard: ShardId,
        no_replace: bool,
        /// The old name leads to a white-out afterwards: a character device of number 0:0.
        whiteout: bool,
    },

    // By inode.
    /// Answers `Inode`.
    GetAttr { ino: Ino },
    /// Changes what is `Some`. Answers `Inode`.
    SetAttr { ino: Ino, set: SetAttr },
    /// Opens a file for `access` (4 read, 2 write, 1 execute): checks the caller's rights, and from
    /// then on the session keeps the inode alive until it releases it. Answers `Inode`.
    Open {
        ino: Ino,
        access: u16,
        truncate: bool,
    },
    /// The session has closed these, once for each time it stands here. Answers `Done`. Inodes that
    /// are not known are skipped. Not recorded in a slot.
    Release { inos: Vec<Ino> },
    /// After the server restarted: the session still has these open, this many times each. Answers `Done`.
    Reopen { opens: Vec<(Ino, u32)> },
    /// Answers `Link`.
    ReadLink { ino: Ino },
    /// Reads a file kept inline; answers `Inode`, whose body holds the data or the layout.
    ReadInline { ino: Ino },
    /// Writes to a file kept inline; `Refusal::NotInline` if it is not (any more) or the write would
    /// end past the limit. Answers `Inode` (with an empty body).
    WriteInline {
        ino: Ino,
        offset: u64,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// The file outgrows its inode: the shard copies the inline data into a data object; the file is
    /// striped when this is answered. Answers `Inode`.
    Stripe { ino: Ino },
    /// Data objects were written from byte `start` of the file on, and up to `end` (0: nothing grew).
    /// `sparse`: that may have left holes, or space beyond the file's end. `cuts`: the data objects had followed so
    /// many [cuts](crate::InodeReply::cuts) then. If there was another since, it took away what was written, and nothing is
    /// changed. Answers `Inode`.
    WroteData {
        ino: Ino,
        start: u64,
        end: u64,
        mtime: Time,
        sparse: bool,
        cuts: u32,
    },
    /// Answers `Value`.
    GetXattr {
        ino: Ino,
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Answers `Names`.
    ListXattr { ino: Ino },
    /// Answers `Done`.
    SetXattr {
        ino: Ino,
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
        mode: XattrMode,
    },
    /// Answers `Done`.
    RemoveXattr {
        ino: Ino,
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Forces the shard's log: what it acknowledged before is on disk when this is answered.
    /// Answers `Done`.
    Sync,

    // Directories.
    /// Entries of the partitions on this shard from `from` on, as far as they follow one another
    /// without a gap; whole groups of equal hash. Answers `Entries`.
    ReadDir {
        dir: Ino,
        from: Position,
        plus: bool,
        max_entries: u32,
        max_bytes: u32,
    },
    /// This shard's part of the directory's attributes. Answers `Part`.
    DirPart { dir: Ino },
    /// Sets `Some` fields; `initial_partitions` also splits the directory itself up to that number.
    /// Sent to the home. Answers `Inode`.
    SetDirSettings { dir: Ino, settings: DirSettings },

    // By name.
    /// Two names change places, whatever they lead to. Sent to the shard of the first; `new_shard` is
    /// where the client believes the other one to belong. Answers `Exchanged`.
    Exchange {
        dir: Ino,
        name: Name,
        new_dir: Ino,
        new_name: Name,
        new_shard: ShardId,
    },

    // By inode, too.
    /// Does this to `offset .. offset + length` of a file kept inline; `Refusal::NotInline` if it is
    /// not (any more), or if the range is to have space and ends past the limit. Answers `Inode`.
    Allocate {
        ino: Ino,
        offset: u64,
        length: u64,
        allocation: Allocation,
    },
    /// As `WriteInline`, at the file's end, wherever that is when this is executed: the answer's size
    /// is where the data ends. Answers `Inode`.
    AppendInline {
        ino: Ino,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Makes a striped file `length` bytes longer and gives them to the client, which writes them to
    /// the data objects: they end at the answer's size. `Refusal::NotInline` if the file is not
    /// striped. Answers `Inode`.
    Extend { ino: Ino, length: u64 },
    /// The client has read these at these times, to tell what changes their times of access by `rule`.
    /// Inodes that are not here are skipped. Answers `Done`.
    Accessed {
        inos: Vec<(Ino, Time)>,
        rule: AtimeRule,
    },

    // Locks of files, by inode. They are not recorded in slots, but the shard keeps the last answer to each
    // slot in memory.
    /// Locks, in place of what the owner has of the range. `Done`; `WouldBlock` if somebody's lock is in
    /// the way and it is not `blocking`. One that is kept waiting for `wait_ms`, or would have to wait and has
    /// none, is told `Refusal::NotYet`; the same request, sent again, goes on waiting at its place. Sent again with
    /// `blocking` false it ends the waiting.
    SetLock {
        ino: Ino,
        lock: FileLock,
        blocking: bool,
        wait_ms: u32,
    },
    /// Unlocks what the owner has of the range. Answers `Done`.
    Unlock {
        ino: Ino,
        kind: LockKind,
        owner: u64,
        range: LockRange,
    },
    /// Whose lock is in the way of this one? Answers `Lock`.
    GetLock { ino: Ino, lock: FileLock },
    /// A descriptor of an open file was closed through which these owners of the session have locked: they may
    /// unlock in a moment. Until then, for [`CLOSING_WAIT`] at most, who asks for one of these locks and does
    /// not want to wait is kept. `Done`.
    ///
    /// [`CLOSING_WAIT`]: pandofs_types::limits::CLOSING_WAIT
    Closing {
        ino: Ino,
        owners: Vec<(LockKind, u64)>,
    },
    /// After the server restarted, or may have given the session up: the session has these locks. `last`
    /// when they are all. Answers `LostLocks`: those that it does not have any more. Inodes that are not on
    /// the shard are skipped.
    Relock {
        locks: Vec<(Ino, FileLock)>,
        last: bool,
    },

    // By name, as it were.
    /// Makes a file that has no name and opens it for the session, which keeps it: it is gone when it is
    /// closed, unless it was given a name. Sent to the shard that holds the partition of this position of the
    /// directory, by which its inode is placed like that of a name there. With `may_be_named` it may be
    /// linked as long as it never was. Answers `Entry`.
    CreateUnnamed {
        dir: Ino,
        at: Position,
        mode: u16,
        /// As in `Create`.
        umask: u16,
        may_be_named: bool,
    },

    // By inode, once more.
    /// How a file is to be striped that has no data yet; `NotEmpty` if it has some. Answers `Inode`.
    SetLayout { ino: Ino, layout: LayoutChoice },

    // About a directory, once more.
    /// The shard's partitions that are over the threshold split now, if there is a slot for what they give; for
    /// [`SPREAD_TERM`] from now those that are to spread to servers that joined split before they are full, and what this
    /// shard copies of the directory to others keeps to this rate. 0 for no limit. It is not logged: a shard that was
    /// restarted has forgotten it. `Busy` while it has been told so of [`MAX_SPREAD_DIRS`] others. Answers `Done`.
    ///
    /// [`SPREAD_TERM`]: pandofs_types::limits::SPREAD_TERM
    /// [`MAX_SPREAD_DIRS`]: pandofs_types::limits::MAX_SPREAD_DIRS
    Spread { dir: Ino, entries_per_second: u32 },

    // By inode, the last.
    /// As `GetAttr`, once the file's data objects have followed all of its cuts: `Refusal::TryAgain` before. Answers
    /// `Inode`.
    Followed { ino: Ino },
}

/// What [`Request::Create`] makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewNode {
    File,
    Symlink {
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    Fifo,
    Socket,
    Char {
        rdev: u32,
    },
    Block {
        rdev: u32,
    },
}

impl Request {
    /// Whether it can change the shard's state and is therefore logged and answered exactly once.
    pub fn is_mutation(&self) -> bool {
        match self {
            Request::Create { .. }
            | Request::Mkdir { .. }
            | Request::Unlink { .. }
            | Request::Rmdir { .. }
            | Request::Link { .. }
            | Request::Rename { .. }
            | Request::SetAttr { .. }
            | Request::WriteInline { .. }
            | Request::Stripe { .. }
            | Request::WroteData { .. }
            | Request::SetXattr { .. }
            | Request::RemoveXattr { .. }
            | Request::SetDirSettings { .. }
            | Request::Exchange { .. }
            | Request::Allocate { .. }
            | Request::AppendInline { .. }
            | Request::Extend { .. }
            | Request::Accessed { .. }
            | Request::CreateUnnamed { .. }
            | Request::SetLayout { .. } => true,
            Request::Open { truncate, .. } => *truncate,
            Request::Lookup { .. }
            | Request::GetAttr { .. }
            | Request::Release { .. }
            | Request::Reopen { .. }
            | Request::ReadLink { .. }
            | Request::ReadInline { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. }
            | Request::Sync
            | Request::ReadDir { .. }
            | Request::DirPart { .. }
            | Request::Spread { .. }
            | Request::Followed { .. } => false,
            Request::SetLock { .. }
            | Request::Unlock { .. }
            | Request::GetLock { .. }
            | Request::Closing { .. }
            | Request::Relock { .. } => false,
        }
    }
}
