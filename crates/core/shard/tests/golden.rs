//! Records of the log and stored operations, pinned byte by byte; `docs/data-layout.md` describes them.

use pandofs_api::{Ask, CommitMessage, Refused, Step, StepNumber, StepResult, step};
use pandofs_commit::{
    Coordination, Decision, Participation, ParticipationState, StepEntry, StepState,
};
use pandofs_formats::samples::{self, DIR, FILE, TIME};
use pandofs_formats::{check, variants};
use pandofs_namespace::keys::FORMAT_VERSION;
use pandofs_namespace::records::{ReclaimRecord, decode, encode};
use pandofs_namespace::{Admission, Choices, PlanAnswer};
use pandofs_placement::PartitionIndex;
use pandofs_shard::{Coordinated, LOG_FORMAT_VERSION, Origin, Record};
use pandofs_types::{CommitProtocol, SessionId, ShardId};

const LOG_RULE: &str = "\
Records of the log, in the version LOG_FORMAT_VERSION of crates/core/shard/src/record.rs.
A log that is there keeps the bytes it has: any change here needs a new LOG_FORMAT_VERSION.";

const STORE_RULE: &str = "\
Distributed operations as they are stored, in the format FORMAT_VERSION of crates/core/namespace/src/keys.rs.
A store that is there keeps the bytes it has: any change here needs a new FORMAT_VERSION.";

fn path(file: &str) -> String {
    format!("{}/tests/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"))
}

variants!(record_of, RECORDS, Record:
    Request, Commit, Recover, SplitBegin, SplitHand, SplitAbandon, SplitStage, SplitDrop, LearnMap,
    Forwarded, ForgetForwarding, Reclaim, Reclaimed, ExpireSession, LockHolder, MergeBegin,
    ForgetParts, Leaseholder, SkipSerials, Grantholder);
variants!(step_state_of, STEP_STATES, StepState:
    Own, Waiting, Asked, Prepared, Deciding, Settled, PreCommitting, PreCommitted);
variants!(decision_of, DECISIONS, Decision: Open, Committed, Aborted);
variants!(answer_of, ANSWERS, PlanAnswer: Made, Removed, Renamed, Inode, Nobody, Exchanged, Done);
variants!(state_of, STATES, ParticipationState: Prepared, Committed, Refused, Ended);

fn choices() -> Choices {
    Choices {
        time: TIME,
        random: u64::MAX,
        closed: vec![FILE],
        admission: Admission::Busy,
        slots: vec![ShardId(2), ShardId(300)],
        placing: Some(samples::placing()),
        alone: true,
        ino: Some(FILE),
    }
}

/// Every record; requests and messages, which have variants of their own, are further below.
fn records() -> Vec<(&'static str, Record)> {
    let split = samples::split_id();
    vec![
        ("Recover", Record::Recover { tx: samples::tx() }),
        (
            "SplitBegin",
            Record::SplitBegin {
                dir: DIR,
                index: PartitionIndex(1),
                slots: vec![ShardId(2), ShardId(3)],
            },
        ),
        (
            "SplitHand",
            Record::SplitHand {
                dir: DIR,
                split,
                chunks: 4,
                choices: choices(),
            },
        ),
        ("SplitAbandon", Record::SplitAbandon { dir: DIR, split }),
        (
            "SplitStage",
            Record::SplitStage {
                chunk: Box::new(samples::split_chunk()),
            },
        ),
        ("SplitDrop", Record::SplitDrop { split }),
        (
            "LearnMap",
            Record::LearnMap {
                dir: DIR,
                map: samples::split_map(),
            },
        ),
        (
            "Forwarded",
            Record::Forwarded {
                inos: vec![FILE],
                now_at: ShardId(300),
            },
        ),
        (
            "ForgetForwarding",
            Record::ForgetForwarding { inos: vec![FILE] },
        ),
        ("Reclaim", Record::Reclaim { ino: FILE }),
        (
            "Reclaimed",
            Record::Reclaimed {
                ino: FILE,
                done: ReclaimRecord::Truncate {
                    layout: samples::layout(),
                    size: 70_000,
                    truncations: 301,
                },
            },
        ),
        (
            "ExpireSession",
            Record::ExpireSession {
                session: SessionId(0x0123_4567_89ab_cdef),
            },
        ),
        (
            "LockHolder",
            Record::LockHolder {
                session: SessionId(0x0123_4567_89ab_cdef),
                has: true,
            },
        ),
        (
            "MergeBegin",
            Record::MergeBegin {
                dir: DIR,
                child: PartitionIndex(2),
                map: samples::split_map(),
            },
        ),
        ("ForgetParts", Record::ForgetParts { dir: DIR }),
        (
            "Leaseholder",
            Record::Leaseholder {
                session: SessionId(0x0123_4567_89ab_cdef),
                has: true,
            },
        ),
        ("SkipSerials", Record::SkipSerials { next: 1 << 24 | 7 }),
        (
            "Grantholder",
            Record::Grantholder {
                session: SessionId(0x0123_4567_89ab_cdef),
                incarnation: Some(u64::MAX),
            },
        ),
    ]
}

fn request_records() -> Vec<(&'static str, Record)> {
    let mutations = samples::requests()
        .into_iter()
        .filter(|(_, request)| request.is_mutation());
    mutations
        .map(|(name, request)| {
            let record = Record::Request {
                request: Box::new(samples::shard_request(request)),
                choices: Choices::default(),
                age: None,
            };
            (name, record)
        })
        .collect()
}

fn commit(message: CommitMessage) -> Record {
    Record::Commit {
        from: ShardId(3),
        horizon: samples::horizon(),
        message: Box::new(message),
        choices: Choices::default(),
    }
}

fn commit_records() -> Vec<(&'static str, Record)> {
    let messages = samples::commit_messages().into_iter();
    messages
        .map(|(name, message)| (name, commit(message)))
        .collect()
}

/// The messages that carry steps and reasons, once for each of those.
fn step_records() -> Vec<(&'static str, Record)> {
    let (tx, number) = (samples::tx(), StepNumber(1));
    let steps = samples::steps().into_iter().map(|(name, step)| {
        let age = samples::age();
        (
            name,
            CommitMessage::Do {
                tx,
                number,
                step,
                ask: Ask::Prepare,
                age,
            },
        )
    });
    steps
        .map(|(name, message)| (name, commit(message)))
        .collect()
}

fn refusal_records() -> Vec<(&'static str, Record)> {
    let (tx, number) = (samples::tx(), StepNumber(1));
    let refusals = samples::refused().into_iter();
    refusals
        .map(|(name, why)| (name, commit(CommitMessage::Refused { tx, number, why })))
        .collect()
}

/// Of a request that had to start again, with every choice made.
fn started_again() -> Record {
    match request_records().swap_remove(0).1 {
        Record::Request { request, .. } => Record::Request {
            request,
            choices: choices(),
            age: Some(samples::age()),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_of_the_log_are_pinned() {
    let mut all: Vec<(String, Record)> = Vec::new();
    let mut add = |what: &str, records: Vec<(&str, Record)>| {
        all.extend(
            records
                .into_iter()
                .map(|(name, record)| (format!("{what}{name}"), record)),
        );
    };
    add("", records());
    add("Request, ", request_records());
    add("Request ", vec![("that starts again", started_again())]);
    add("Commit, ", commit_records());
    add("Commit, Do ", step_records());
    add("Commit, Refused ", refusal_records());
    check(
        &path(&format!("log-{LOG_FORMAT_VERSION}")),
        LOG_RULE,
        |golden| {
            for (name, record) in &all {
                golden.value(name, record, Record::encode, Record::decode);
                assert_eq!(record.encode()[0], LOG_FORMAT_VERSION);
            }
            golden.complete(
                "Record",
                RECORDS,
                all.iter().map(|(_, record)| record_of(record)),
            );
        },
    );
}

fn coordinated(decision: Decision, answer: PlanAnswer) -> Coordinated {
    let states = [
        StepState::Own,
        StepState::Waiting,
        StepState::Asked,
        StepState::Prepared,
        StepState::Deciding,
        StepState::Settled,
        StepState::PreCommitting,
        StepState::PreCommitted,
    ];
    let step = |(at, state): (usize, StepState)| StepEntry {
        shard: ShardId(at as u16 + 2),
        step: Step::DropPart(step::DropPart { dir: DIR }),
        state,
        result: StepResult::default(),
    };
    let steps: Vec<_> = states.into_iter().enumerate().map(step).collect();
    let request = samples::requests().swap_remove(0).1;
    Coordinated {
        coordination: Coordination {
            tx: samples::tx(),
            age: samples::age(),
            protocol: CommitProtocol::ThreePhase,
            steps,
            decision,
        },
        origin: Origin::Client(Box::new(samples::shard_request(request))),
        answer,
    }
}

/// One step in the coordinator's list, so that every step is pinned as it is stored.
fn with_step(step: Step) -> Coordinated {
    let mut coordinated = coordinated(Decision::Open, PlanAnswer::Nobody);
    coordinated.coordination.steps = vec![StepEntry {
        shard: ShardId(3),
        step,
        state: StepState::Deciding,
        result: StepResult {
            inode: Some(Box::new(samples::inode_reply())),
            entry: None,
        },
    }];
    coordinated.origin = Origin::Split {
        dir: DIR,
        split: samples::split_id(),
    };
    coordinated
}

#[test]
fn coordinated_operations_are_pinned() {
    let open = coordinated(
        Decision::Open,
        PlanAnswer::Made {
            shard: ShardId(300),
        },
    );
    let operations = [
        ("open, made", open),
        (
            "committed, removed",
            coordinated(Decision::Committed, PlanAnswer::Removed { ino: FILE }),
        ),
        (
            "aborted, renamed",
            coordinated(
                Decision::Aborted(Refused::Busy),
                PlanAnswer::Renamed { ino: FILE },
            ),
        ),
        (
            "open, attributes",
            coordinated(Decision::Open, PlanAnswer::Inode { ino: DIR }),
        ),
        (
            "open, a split",
            coordinated(Decision::Open, PlanAnswer::Nobody),
        ),
        (
            "committed, exchanged",
            coordinated(Decision::Committed, PlanAnswer::Exchanged { ino: FILE }),
        ),
        ("open, done", coordinated(Decision::Open, PlanAnswer::Done)),
    ];
    check(
        &path(&format!("coordinated-{FORMAT_VERSION}")),
        STORE_RULE,
        |golden| {
            for (name, operation) in &operations {
                golden.value(&format!("Coordinated {name}"), operation, encode, |bytes| {
                    decode("operation", bytes)
                });
            }
            for (name, why) in samples::refused() {
                let operation = coordinated(Decision::Aborted(why), PlanAnswer::Nobody);
                golden.value(
                    &format!("Coordinated aborted, {name}"),
                    &operation,
                    encode,
                    |bytes| decode("operation", bytes),
                );
            }
            for (name, step) in samples::steps() {
                let operation = with_step(step);
                golden.value(
                    &format!("Coordinated with {name}"),
                    &operation,
                    encode,
                    |bytes| decode("operation", bytes),
                );
            }
            let all = || operations.iter().map(|(_, operation)| operation);
            let steps = all().flat_map(|operation| &operation.coordination.steps);
            golden.complete(
                "StepState",
                STEP_STATES,
                steps.map(|step| step_state_of(&step.state)),
            );
            let decisions = all().map(|operation| decision_of(&operation.coordination.decision));
            golden.complete("Decision", DECISIONS, decisions);
            golden.complete(
                "PlanAnswer",
                ANSWERS,
                all().map(|operation| answer_of(&operation.answer)),
            );
        },
    );
}

#[test]
fn participations_are_pinned() {
    let result = StepResult {
        inode: Some(Box::new(samples::inode_reply())),
        entry: None,
    };
    let states = [
        (
            "Prepared",
            ParticipationState::Prepared {
                step: Step::DropPart(step::DropPart { dir: DIR }),
                result: result.clone(),
                follow: vec![(ShardId(300), Step::DropPart(step::DropPart { dir: DIR }))],
                pre_committed: true,
            },
        ),
        ("Committed", ParticipationState::Committed { result }),
        (
            "Refused",
            ParticipationState::Refused {
                why: Refused::Unknown,
            },
        ),
        ("Ended", ParticipationState::Ended),
    ];
    check(
        &path(&format!("participation-{FORMAT_VERSION}")),
        STORE_RULE,
        |golden| {
            golden.complete(
                "ParticipationState",
                STATES,
                states.iter().map(|(_, s)| state_of(s)),
            );
            for (name, state) in states {
                let part = Participation {
                    tx: samples::tx(),
                    number: StepNumber(300),
                    age: samples::age(),
                    state,
                };
                golden.value(&format!("Participation {name}"), &part, encode, |bytes| {
                    decode("participation", bytes)
                });
            }
        },
    );
}
