//! What shards and servers say to one another: the steps of distributed operations, their
//! commitment (S2PC-MP), and the moving of entries when a partition splits.

use crate::data::{DataReply, DataRequest};
use crate::horizon::Horizon;
use crate::layout::LayoutChoice;
use crate::reply::InodeReply;
use crate::request::{DirSettings, NewNode};
use pandofs_placement::{DirMap, GrainState, PartitionIndex, ServerLoad};
use pandofs_types::{
    Acl, AclKind, Acls, Credentials, FileKind, FileLock, FsError, Ino, Name, SessionId, SetAttr,
    ShardId, Time, TxId,
};
use serde::{Deserialize, Serialize};

/// Numbers the steps of one distributed operation; 0 is the coordinator's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepNumber(pub u16);

/// One shard's share of an operation (a sub-operation in the paper's words). An operation is a list
/// of steps; when all are on one shard it is ordinary and applied as one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Puts a name into a directory. With `replace` a name that is there gives way if POSIX lets it;
    /// what it led to follows as a further step.
    Insert {
        dir: Ino,
        name: Name,
        /// `None`: what the operation's `NewDir`, `NewFile` or `Link` step returns.
        ino: Option<Ino>,
        kind: FileKind,
        shard: ShardId,
        replace: bool,
        caller: Credentials,
        time: Time,
    },
    /// Takes a name out of a directory.
    Remove {
        dir: Ino,
        name: Name,
        ino: Ino,
        caller: Credentials,
        time: Time,
    },
    /// Makes a directory's inode and its partition 0; further partitions follow as `NewPart`.
    NewDir { new: Box<NewDir> },
    /// Makes a partition of a directory that starts with several.
    NewPart { part: Box<NewPart> },
    /// One more name for a file.
    Link { ino: Ino, time: Time },
    /// One name less; the last one frees the file, or leaves it to those who have it open.
    Unlink {
        ino: Ino,
        must_own: Option<u32>,
        time: Time,
    },
    /// Changes ctime; with `must_own` only if that user owns it (sticky directories).
    Touch {
        ino: Ino,
        must_own: Option<u32>,
        time: Time,
    },
    /// Frees an empty directory at its home; partitions elsewhere follow as `DropPart`.
    DropDir { dir: Ino, must_own: Option<u32> },
    /// Frees the empty partitions of a directory on a shard that is not its home.
    DropPart { dir: Ino },
    /// A directory has moved below another one.
    SetParent {
        dir: Ino,
        parent: Ino,
        must_own: Option<u32>,
        caller: Credentials,
        time: Time,
    },
    /// Keeps the ancestors of `from`, itself included, where they are until the operation ends, and
    /// refuses if `moving` is among them. Ancestors on other shards follow.
    HoldAncestors { from: Ino, moving: Ino, depth: u32 },
    /// Attributes and settings of a directory, at its home and wherever it has partitions.
    SetDir {
        dir: Ino,
        set: SetAttr,
        settings: DirSettings,
        caller: Credentials,
        time: Time,
    },
    /// The receiving half of a split or a merge: what was staged under `split` and what changed since
    /// becomes the partition, or a part of the one it was split from.
    Adopt { adopt: Box<Adopt> },
    /// The giving half of a split or a merge.
    GiveUp { dir: Ino, split: SplitId },
    /// A name leads to something else than before, which had the other name of an exchange.
    Swap { swap: Box<Swap> },
    /// A directory's access control list, at its home and wherever it has partitions.
    SetAcl { set: Box<SetAcl> },
    /// Makes the inode of a branch file: one that is not with its entry.
    NewFile { new: Box<NewFile> },
    /// The old name of a rename leads to a white-out from now on. Its coordinator's own step.
    Whiteout { whiteout: Box<Whiteout> },
}

/// What a rename leaves in the place of what it takes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whiteout {
    pub dir: Ino,
    pub name: Name,
    /// What goes elsewhere.
    pub ino: Ino,
    /// What is made: a character device of number 0:0.
    pub new: NewFile,
    pub caller: Credentials,
}

/// What is no directory, with one name on another shard. What it inherits from its directory is decided there.
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
    /// What the coordinator's name leads to: it leaves that one and comes to the other.
    pub comes: SwappedEntry,
    /// Whether this is the coordinator's own name.
    pub own: bool,
    pub caller: Credentials,
    pub time: Time,
}

/// What a name leads to that changes places with another one.
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
    /// Who has locks on moved files.
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

/// What a step hands to the others of its operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// The inode that `NewDir` or `NewFile` made or `Link` linked.
    pub inode: Option<Box<InodeReply>>,
    /// What the name of a `Swap` that is not the coordinator's led to.
    pub entry: Option<SwappedEntry>,
}

/// Why a participant does not perform its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    Fs(FsError),
    /// A younger operation met a lock of an older one; the coordinator starts again after a pause
    /// (wait-die: only older operations wait, so that no circle of waiting shards can close).
    Busy,
    /// `Insert` came to the wrong shard.
    Misdirected(Option<DirMap>),
    Moved {
        ino: Ino,
        shard: ShardId,
    },
    /// The two names of a rename or an exchange lead to the same file: there is nothing to do.
    SameFile,
    /// The participant has no record of the operation (answer to `Inquire`) and will not take it up.
    Unknown,
}

/// Messages of one distributed operation, section 4 of Xiong et al. In their words: `Do` is OP-REQ,
/// `Committed` Commit-REQ, `Refused` Abort-REQ, `Ack` ACK and `Inquire` Decision-REQ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitMessage {
    /// Coordinator to participant: perform or prepare this step.
    Do {
        tx: TxId,
        number: StepNumber,
        step: Step,
        ask: Ask,
        age: Age,
    },
    /// Participant to coordinator: the step can be performed whatever happens; these follow from it.
    Prepared {
        tx: TxId,
        number: StepNumber,
        result: StepResult,
        follow: Vec<(ShardId, Step)>,
    },
    /// The deciding participant has performed its step: the operation is committed.
    Committed {
        tx: TxId,
        number: StepNumber,
        result: StepResult,
    },
    /// The step was not performed: the operation is aborted.
    Refused {
        tx: TxId,
        number: StepNumber,
        why: Refused,
    },
    /// Coordinator to deciding participant, or to one that refused: the outcome is on the
    /// coordinator's disk.
    Ack { tx: TxId, number: StepNumber },
    /// Coordinator to prepared participant: the outcome.
    Outcome {
        tx: TxId,
        number: StepNumber,
        commit: bool,
    },
    /// Prepared participant to coordinator: the outcome is on the participant's disk.
    Finished { tx: TxId, number: StepNumber },
    /// Restarted coordinator to deciding participant: what did you decide?
    Inquire { tx: TxId, number: StepNumber },
    /// Prepared participant to coordinator: what came of it?
    InquireOutcome { tx: TxId, number: StepNumber },
    /// Coordinator to participant, in two-phase commit: is it prepared? VOTE-REQ.
    Vote { tx: TxId, number: StepNumber },
    /// Coordinator to prepared participant, in three-phase commit: everybody is prepared.
    PreCommit { tx: TxId, number: StepNumber },
    /// Prepared participant to coordinator: that everybody is prepared is on the participant's disk.
    PreCommitted { tx: TxId, number: StepNumber },
}

/// What a participant is to do with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Make sure that it can be performed whatever happens, and say so.
    Prepare,
    /// Every other step is prepared: perform it, and that commits the operation.
    Decide,
    /// As `Prepare`, but say so when a vote is asked for.
    PrepareSilently,
}

impl CommitMessage {
    /// Whether a participant sends it to its coordinator; the others go the other way.
    pub fn is_to_coordinator(&self) -> bool {
        match self {
            CommitMessage::Prepared { .. }
            | CommitMessage::Committed { .. }
            | CommitMessage::Refused { .. }
            | CommitMessage::Finished { .. }
            | CommitMessage::PreCommitted { .. }
            | CommitMessage::InquireOutcome { .. } => true,
            CommitMessage::Do { .. }
            | CommitMessage::Vote { .. }
            | CommitMessage::PreCommit { .. }
            | CommitMessage::Ack { .. }
            | CommitMessage::Outcome { .. }
            | CommitMessage::Inquire { .. } => false,
        }
    }
}

/// Orders operations by age for wait-die; a restarted operation keeps its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Age {
    pub time: Time,
    pub tx: TxId,
}

/// One-way messages between servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every message is of the large kind"
)]
pub enum PeerMessage {
    Commit {
        from: ShardId,
        to: ShardId,
        /// What `from` coordinated and has ended everywhere.
        horizon: Horizon,
        /// Objects that the server of `from` had when it sent this, as policies that adapt count them; none in a message
        /// that was put aside here.
        held: Option<u64>,
        message: CommitMessage,
    },
    SplitChunk {
        from: ShardId,
        to: ShardId,
        chunk: SplitChunk,
    },
    /// The chunk is applied at the receiver; `accepted` is false when it does not fit what it has.
    SplitChunkDone {
        from: ShardId,
        to: ShardId,
        split: SplitId,
        number: u32,
        accepted: bool,
    },
    /// The split was given up before its last step.
    SplitAbandoned {
        from: ShardId,
        to: ShardId,
        split: SplitId,
        dir: Ino,
    },
    /// A partition has split: the home merges what the splitting shard knows.
    MapNotice {
        from: ShardId,
        to: ShardId,
        dir: Ino,
        map: DirMap,
    },
    MapNoticeDone {
        from: ShardId,
        to: ShardId,
        dir: Ino,
        map: DirMap,
    },
    /// These inodes, which `to` forwards to `from`, are on `now_at`.
    Forwarded {
        from: ShardId,
        to: ShardId,
        inos: Vec<Ino>,
        now_at: ShardId,
    },
    /// The session has closed these inodes, which have moved from `from` to `to`. If it is lost, they
    /// count as open until the session ends.
    Released {
        from: ShardId,
        to: ShardId,
        session: SessionId,
        inos: Vec<Ino>,
    },
    /// These inodes died: drop their forwarding records.
    ForgetForwarding {
        from: ShardId,
        to: ShardId,
        inos: Vec<Ino>,
    },
    ForgetForwardingDone {
        from: ShardId,
        to: ShardId,
        inos: Vec<Ino>,
    },
    /// For a data object on the receiving server, on behalf of a shard of the sender.
    Data {
        ticket: u64,
        request: DataRequest,
    },
    DataDone {
        ticket: u64,
        reply: DataReply,
    },
    /// Of a shard to itself: that the session may have locks here is on disk.
    LockerKept {
        from: ShardId,
        to: ShardId,
        session: SessionId,
    },
    /// Partition `child` is nearly empty: would the one that it was split from take it back? If this is
    /// lost, both stay as they are until one of them shrinks again or its server restarts; the same of
    /// `MergeGo`.
    MergeAsk {
        from: ShardId,
        to: ShardId,
        dir: Ino,
        child: PartitionIndex,
    },
    /// It takes it back if it has `room` entries at most. `map` is all that the sender knows, without
    /// which the receiver must not merge.
    MergeGo {
        from: ShardId,
        to: ShardId,
        dir: Ino,
        child: PartitionIndex,
        room: u64,
        map: DirMap,
    },
    /// Of a shard to itself: that the session may have leases here is on disk.
    LeaseholderKept {
        from: ShardId,
        to: ShardId,
        session: SessionId,
    },
    /// A partition of the directory wants to split and its child has no slot: the home is to make the array longer.
    SlotsAsk {
        from: ShardId,
        to: ShardId,
        dir: Ino,
    },
    /// The directory's map as its home has it.
    SlotsTold {
        from: ShardId,
        to: ShardId,
        dir: Ino,
        map: DirMap,
    },
    /// What the sender has, for the policies that go by it; `wanted`: what has the receiver? It may be lost: who
    /// wants it asks again and again.
    Load {
        load: ServerLoad,
        wanted: bool,
    },
}
