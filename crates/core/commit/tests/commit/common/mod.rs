//! One operation, numbered 7 by its coordinator `HOME`, and short names for what is said about it.

use pandofs_api::{
    Age, Ask, CommitMessage, FileBody, InodeReply, Refused, Step, StepNumber, StepResult, step,
};
use pandofs_commit::{Coordination, Participation, ParticipationState, StepState};
use pandofs_types::{Attr, CommitProtocol, FileKind, FsError, Ino, ShardId, Time, TxId};

pub const HOME: ShardId = ShardId(0);
pub const A: ShardId = ShardId(1);
pub const B: ShardId = ShardId(2);
pub const C: ShardId = ShardId(3);

pub const TX: TxId = TxId {
    coordinator: HOME,
    sequence: 7,
};
pub const AGE: Age = Age {
    time: Time(1_000),
    tx: TX,
};

/// A step told from others by its inode.
pub fn step(serial: u64) -> Step {
    Step::Touch(step::Touch {
        ino: Ino(serial),
        must_own: None,
        time: Time(1_000),
    })
}

/// A result told from others by its inode.
pub fn result(serial: u64) -> StepResult {
    let attr = Attr {
        ino: Ino(serial),
        kind: FileKind::File,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: Time(0),
        mtime: Time(0),
        ctime: Time(0),
        btime: Time(0),
        has_xattrs: false,
    };
    StepResult {
        inode: Some(Box::new(InodeReply {
            attr,
            body: FileBody::None,
            dir: None,
            truncations: 0,
        })),
        entry: None,
    }
}

pub fn nothing() -> StepResult {
    StepResult::default()
}

pub fn not_found() -> Refused {
    Refused::Fs(FsError::NotFound)
}

/// An operation whose step `n` is `step(n)` on `shards[n]`; the coordinator's own give `result(n)`.
pub fn operation(shards: &[ShardId]) -> Coordination {
    operation_by(shards, CommitProtocol::S2pcMp)
}

/// The same, decided by another protocol.
pub fn operation_by(shards: &[ShardId], protocol: CommitProtocol) -> Coordination {
    let steps = (0..)
        .zip(shards)
        .map(|(n, &shard)| {
            (
                shard,
                step(n),
                if shard == HOME { result(n) } else { nothing() },
            )
        })
        .collect();
    Coordination::new(TX, AGE, HOME, steps, protocol)
}

/// The same after its first messages.
pub fn started(shards: &[ShardId]) -> Coordination {
    let mut coordination = operation(shards);
    coordination.start();
    coordination
}

pub fn states(coordination: &Coordination) -> Vec<StepState> {
    coordination.steps.iter().map(|entry| entry.state).collect()
}

pub fn participation(state: ParticipationState) -> Participation {
    Participation {
        tx: TX,
        number: StepNumber(1),
        age: AGE,
        state,
    }
}

/// `Do`, to prepare.
pub fn prepare(number: u16) -> CommitMessage {
    prepare_step(number, step(u64::from(number)))
}

pub fn prepare_step(number: u16, step: Step) -> CommitMessage {
    CommitMessage::Do {
        tx: TX,
        number: StepNumber(number),
        step,
        ask: Ask::Prepare,
        age: AGE,
    }
}

/// `Do`, to decide.
pub fn decide(number: u16) -> CommitMessage {
    decide_step(number, step(u64::from(number)))
}

pub fn decide_step(number: u16, step: Step) -> CommitMessage {
    CommitMessage::Do {
        tx: TX,
        number: StepNumber(number),
        step,
        ask: Ask::Decide,
        age: AGE,
    }
}

/// `Prepared` with `result(number)` and nothing that follows.
pub fn prepared(number: u16) -> CommitMessage {
    prepared_with(number, vec![])
}

pub fn prepared_with(number: u16, follow: Vec<(ShardId, Step)>) -> CommitMessage {
    let result = result(u64::from(number));
    CommitMessage::Prepared {
        tx: TX,
        number: StepNumber(number),
        result,
        follow,
    }
}

/// `Committed` with `result(number)`.
pub fn committed(number: u16) -> CommitMessage {
    let result = result(u64::from(number));
    CommitMessage::Committed {
        tx: TX,
        number: StepNumber(number),
        result,
    }
}

pub fn refused(number: u16, why: Refused) -> CommitMessage {
    CommitMessage::Refused {
        tx: TX,
        number: StepNumber(number),
        why,
    }
}

pub fn ack(number: u16) -> CommitMessage {
    CommitMessage::Ack {
        tx: TX,
        number: StepNumber(number),
    }
}

pub fn outcome(number: u16, commit: bool) -> CommitMessage {
    CommitMessage::Outcome {
        tx: TX,
        number: StepNumber(number),
        commit,
    }
}

pub fn finished(number: u16) -> CommitMessage {
    CommitMessage::Finished {
        tx: TX,
        number: StepNumber(number),
    }
}

pub fn inquire(number: u16) -> CommitMessage {
    CommitMessage::Inquire {
        tx: TX,
        number: StepNumber(number),
    }
}

pub fn inquire_outcome(number: u16) -> CommitMessage {
    CommitMessage::InquireOutcome {
        tx: TX,
        number: StepNumber(number),
    }
}
