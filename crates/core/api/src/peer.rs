//! Messages between shards and servers: the commitment of distributed operations (S2PC-MP), the moving of entries when a
//! partition splits, and requests for data objects.

use crate::data::{DataReply, DataRequest};
use crate::horizon::Horizon;
use crate::step::{SplitChunk, SplitId, Step, StepNumber, StepResult};
use pandofs_placement::{DirMap, PartitionIndex, ServerLoad};
use pandofs_types::{FsError, Ino, ShardId, Time, TxId};
use serde::{Deserialize, Serialize};

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

/// Request to a participant about a step.
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
    /// Load of the sender, for the policies that go by it; `wanted`: what has the receiver? It may be lost: who
    /// wants it asks again and again.
    Load {
        load: ServerLoad,
        wanted: bool,
    },
}
