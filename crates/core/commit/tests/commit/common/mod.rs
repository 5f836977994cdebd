//! One operation, numbered 7 by its coordinator `HOME`, and short names for what is said about it.

use pandofs_api::{
    Age, Ask, CommitMessage, FileBody, InodeReply, Refused, Step, StepNumber, StepResult, step,
};
use pandofs_commit::{Coordination, Participation, ParticipationState, StepState};
use pandofs_types::{Attr, CommitProtocol, FileKind, FsError, Ino, ShardId, Time, TxId};

pub(crate) const HOME: ShardId = ShardId(0);
pub(crate) const A: ShardId = ShardId(1);
pub(crate) const B: ShardId = ShardId(2);
pub(crate) const C: ShardId = ShardId(3);

pub(crate) const TX: TxId = TxId {
    coordinator: HOME,
    sequence: 7,
};
pub(crate) const AGE: Age = Age {
    time: Time(1_000),
    tx: TX,
};

/// A step told from others by its inode.
pub(crate) fn step(serial: u64) -> Step {
    Step::Touch(step::Touch {
        ino: Ino(serial),
        must_own: None,
        time: Time(1_000),
    })
}

/// A result told from others by its inode.
pub(crate) fn result(serial: u64) -> StepResult {
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

pub(crate) fn nothing() -> StepResult {
    StepResult::default()
}

pub(crate) fn not_found() -> Refused {
    Refused::Fs(FsError::NotFound)
}

/// An operation whose step `n` is `step(n)` on `shards[n]`; the coordinator's own give `result(n)`.
pub(crate) fn operation(shards: &[ShardId]) -> Coordination {
    operation_by(shards, CommitProtocol::S2pcMp)
}

/// The same, decided by another protocol.
pub(crate) fn operation_by(shards: &[ShardId], protocol: CommitProtocol) -> Coordination {
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
pub(crate) fn started(shards: &[ShardId]) -> Coordination {
    let mut coordination = operation(shards);
    coordination.start();
    coordination
}

pub(crate) fn states(coordination: &Coordination) -> Vec<StepState> {
    coordination.steps.iter().map(|entry| entry.state).collect()
}

pub(crate) fn participation(state: ParticipationState) -> Participation {
    Participation {
        tx: TX,
        number: StepNumber(1),
        age: AGE,
        state,
    }
}

/// `Do`, to prepare.
pub(crate) fn prepare(number: u16) -> CommitMessage {
    prepare_step(number, step(u64::from(number)))
}

pub(crate) fn prepare_step(number: u16, step: Step) -> CommitMessage {
    CommitMessage::Do {
        tx: TX,
        number: StepNumber(number),
        step,
        ask: Ask::Prepare,
        age: AGE,
    }
}

/// `Do`, to decide.
pub(crate) fn decide(number: u16) -> CommitMessage {
    decide_step(number, step(u64::from(number)))
}

pub(crate) fn decide_step(number: u16, step: Step) -> CommitMessage {
    CommitMessage::Do {
        tx: TX,
        number: StepNumber(number),
        step,
        ask: Ask::Decide,
        age: AGE,
    }
}

/// `Prepared` with `result(number)` and nothing that follows.
pub(crate) fn prepared(number: u16) -> CommitMessage {
    prepared_with(number, vec![])
}

pub(crate) fn prepared_with(number: u16, follow: Vec<(ShardId, Step)>) -> CommitMessage {
    let result = result(u64::from(number));
    CommitMessage::Prepared {
        tx: TX,
        number: StepNumber(number),
        result,
        follow,
    }
}

/// `Committed` with `result(number)`.
pub(crate) fn committed(number: u16) -> CommitMessage {
    let result = result(u64::from(number));
    CommitMessage::Committed {
        tx: TX,
        number: StepNumber(number),
        result,
    }
}

pub(crate) fn refused(number: u16, why: Refused) -> CommitMessage {
    CommitMessage::Refused {
        tx: TX,
        number: StepNumber(number),
        why,
    }
}

pub(crate) fn ack(number: u16) -> CommitMessage {
    CommitMessage::Ack {
        tx: TX,
        number: StepNumber(number),
    }
}

pub(crate) fn outcome(number: u16, commit: bool) -> CommitMessage {
    CommitMessage::Outcome {
        tx: TX,
        number: StepNumber(number),
        commit,
    }
}

pub(crate) fn finished(number: u16) -> CommitMessage {
    CommitMessage::Finished {
        tx: TX,
        number: StepNumber(number),
    }
}

pub(crate) fn inquire(number: u16) -> CommitMessage {
    CommitMessage::Inquire {
        tx: TX,
        number: StepNumber(number),
    }
}

pub(crate) fn inquire_outcome(number: u16) -> CommitMessage {
    CommitMessage::InquireOutcome {
        tx: TX,
        number: StepNumber(number),
    }
}
