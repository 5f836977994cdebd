//! Messages between shards and servers: the commitment of distributed operations (S2PC-MP), the moving of entries when a
//! partition splits, and requests for data objects.

use crate::data::{DataReply, DataRequest};
use crate::horizon::Horizon;
use crate::step::{SplitChunk, SplitId, Step, StepNumber, StepResult};
use pandofs_placement::{DirMap, PartitionIndex, ServerLoad};
use pandofs_types::{FsError, Ino, ShardId, Time, TraceContext, TxId};
use serde::{Deserialize, Serialize};

/// Why a participant does not perform its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// The step is not possible; the program is told.
    Fs(FsError),
    /// A younger operation met a lock of an older one; the coordinator starts again after a pause
    /// (wait-die: only older operations wait, so that no circle of waiting shards can close).
    Busy,
    /// `Insert` came to the wrong shard.
    Misdirected(Option<DirMap>),
    /// The inode is on another shard: the coordinator looks there.
    Moved {
        /// The inode that the step was for.
        ino: Ino,
        /// The shard that has it, as far as the participant knows.
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
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// The work for the participant's shard.
        step: Step,
        /// Whether it is to decide or to prepare.
        ask: Ask,
        /// By it a younger operation gives way.
        age: Age,
    },
    /// Participant to coordinator: the step can be performed whatever happens; these follow from it.
    Prepared {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// For the steps that need it.
        result: StepResult,
        /// Steps that were only found now, each with its shard.
        follow: Vec<(ShardId, Step)>,
    },
    /// The deciding participant has performed its step: the operation is committed.
    Committed {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// For the steps that need it.
        result: StepResult,
    },
    /// The step was not performed: the operation is aborted.
    Refused {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// The coordinator passes it on, or begins again.
        why: Refused,
    },
    /// Coordinator to deciding participant, or to one that refused: the outcome is on the
    /// coordinator's disk.
    Ack {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Coordinator to prepared participant: the outcome.
    Outcome {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// Committed, and not aborted.
        commit: bool,
    },
    /// Prepared participant to coordinator: the outcome is on the participant's disk.
    Finished {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Restarted coordinator to deciding participant: what did you decide?
    Inquire {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Prepared participant to coordinator: what came of it?
    InquireOutcome {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Coordinator to participant, in two-phase commit: is it prepared? VOTE-REQ.
    Vote {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Coordinator to prepared participant, in three-phase commit: everybody is prepared.
    PreCommit {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
    /// Prepared participant to coordinator: that everybody is prepared is on the participant's disk.
    PreCommitted {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
    },
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
    /// When the operation was first begun, by its coordinator's clock.
    pub time: Time,
    /// Decides between equal times.
    pub tx: TxId,
}

/// One-way messages between servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every message is of the large kind"
)]
pub enum PeerMessage {
    /// A message about a distributed operation, with what its sender says beside it.
    Commit {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The operations coordinated by `from` that have ended everywhere.
        horizon: Horizon,
        /// Objects that the server of `from` had when it sent this, as policies that adapt count them; none in a message
        /// that was put aside here.
        held: Option<u64>,
        /// About one step of the operation.
        message: CommitMessage,
    },
    /// Entries of a partition that is being split; they are staged until `Adopt`.
    SplitChunk {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// Sent again until it is answered.
        chunk: SplitChunk,
    },
    /// The chunk is applied at the receiver; `accepted` is false when it does not fit what it has.
    SplitChunkDone {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The attempt that the chunk belongs to.
        split: SplitId,
        /// As in the chunk.
        number: u32,
        /// Then the sender gives the split up.
        accepted: bool,
    },
    /// The split was given up before its last step.
    SplitAbandoned {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The attempt; what was staged for it is dropped.
        split: SplitId,
        /// The directory that was to split.
        dir: Ino,
    },
    /// A partition has split: the home merges what the splitting shard knows.
    MapNotice {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory.
        dir: Ino,
        /// The map as the sender knows it.
        map: DirMap,
    },
    /// The home has merged the notice, and has that on disk.
    MapNoticeDone {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory.
        dir: Ino,
        /// The map as the home knows it now.
        map: DirMap,
    },
    /// These inodes, which `to` forwards to `from`, are on `now_at`.
    Forwarded {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// Inodes that the receiver has forwarding records of.
        inos: Vec<Ino>,
        /// The shard that has them now.
        now_at: ShardId,
    },
    /// These inodes died: drop their forwarding records.
    ForgetForwarding {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// Numbers, which are never given out again.
        inos: Vec<Ino>,
    },
    /// The records are gone.
    ForgetForwardingDone {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// Numbers, which are never given out again.
        inos: Vec<Ino>,
    },
    /// For a data object on the receiving server, on behalf of a shard of the sender.
    Data {
        /// Told back in the answer, so that the sender knows which request it is to.
        ticket: u64,
        /// Carried out as a client's would be.
        request: DataRequest,
    },
    /// The answer to `Data`.
    DataDone {
        /// That of the request.
        ticket: u64,
        /// Without an answer, as after a restart, the sender asks again.
        reply: DataReply,
    },
    /// Partition `child` is nearly empty: would the one that it was split from take it back? If this is
    /// lost, both stay as they are until one of them shrinks again or its server restarts; the same of
    /// `MergeGo`.
    MergeAsk {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory of both partitions.
        dir: Ino,
        /// The one to be merged.
        child: PartitionIndex,
    },
    /// It takes it back if it has `room` entries at most. `map` is all that the sender knows, without
    /// which the receiver must not merge.
    MergeGo {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory of both partitions.
        dir: Ino,
        /// The one to be merged.
        child: PartitionIndex,
        /// Entries.
        room: u64,
        /// With the partition that `child` goes back to.
        map: DirMap,
    },
    /// A partition of the directory wants to split and its child has no slot: the home is to make the array longer.
    SlotsAsk {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory.
        dir: Ino,
    },
    /// The directory's map as its home has it.
    SlotsTold {
        /// The sending shard.
        from: ShardId,
        /// The shard that it is for.
        to: ShardId,
        /// The directory.
        dir: Ino,
        /// Of which the receiver merges what it lacks.
        map: DirMap,
    },
    /// Load of the sender, for the policies that go by it; `wanted`: what has the receiver? It may be lost: a
    /// server that wants it asks again and again.
    Load {
        /// The load as the policies count it, at the time of sending.
        load: ServerLoad,
        /// Whether the sender wants the receiver's load in return.
        wanted: bool,
    },
    /// A step that is asked for next is part of a trace. Nothing goes by it, and it may be lost.
    Trace {
        /// The operation.
        tx: TxId,
        /// The step among those of the operation.
        number: StepNumber,
        /// The sender's span of the step.
        context: TraceContext,
    },
}
