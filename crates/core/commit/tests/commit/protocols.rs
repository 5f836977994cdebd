//! Two-phase and three-phase commit, message by message, beside which S2PC-MP needs fewer.

use crate::common::*;
use pandofs_api::{Ask, CommitMessage, StepNumber};
use pandofs_commit::{Coordination, Decision, ParticipationState, Progress, StepState};
use pandofs_types::CommitProtocol::{ThreePhase, TwoPhase};
use pandofs_types::{CommitProtocol, ShardId};

const ONE: StepNumber = StepNumber(1);

fn sent(messages: &[(ShardId, CommitMessage)]) -> Progress {
    Progress {
        send: messages.to_vec(),
        ..Progress::default()
    }
}

fn ask(number: u16, ask: Ask) -> CommitMessage {
    CommitMessage::Do {
        tx: TX,
        number: StepNumber(number),
        step: step(u64::from(number)),
        ask,
        age: AGE,
    }
}

fn vote(number: u16) -> CommitMessage {
    CommitMessage::Vote {
        tx: TX,
        number: StepNumber(number),
    }
}

fn pre_commit(number: u16) -> CommitMessage {
    CommitMessage::PreCommit {
        tx: TX,
        number: StepNumber(number),
    }
}

fn pre_committed(number: u16) -> CommitMessage {
    CommitMessage::PreCommitted {
        tx: TX,
        number: StepNumber(number),
    }
}

fn outcome(number: u16, commit: bool) -> CommitMessage {
    CommitMessage::Outcome {
        tx: TX,
        number: StepNumber(number),
        commit,
    }
}

fn prepared(number: u16) -> CommitMessage {
    CommitMessage::Prepared {
        tx: TX,
        number: StepNumber(number),
        result: result(u64::from(number)),
        follow: Vec::new(),
    }
}

fn begun(protocol: CommitProtocol, shards: &[ShardId]) -> (Coordination, Progress) {
    let mut it = operation_by(shards, protocol);
    let progress = it.start();
    (it, progress)
}

#[test]
fn two_phase_commit_takes_five_messages() {
    let (mut it, progress) = begun(TwoPhase, &[HOME, A]);
    let asked = [(A, ask(1, Ask::PrepareSilently)), (A, vote(1))];
    assert_eq!(progress, sent(&asked));
    assert_eq!(it.resend(false), asked);
    let progress = it.receive(A, prepared(1));
    let committed = Progress {
        committed: true,
        ..sent(&[(A, outcome(1, true))])
    };
    assert_eq!(progress, committed);
    assert_eq!(it.resend(false), [(A, outcome(1, true))]);
    let ended = Progress {
        ended: true,
        ..Progress::default()
    };
    assert_eq!(it.receive(A, finished(1)), ended);
}

#[test]
fn three_phase_commit_takes_six() {
    let (mut it, progress) = begun(ThreePhase, &[HOME, A]);
    let asked = [(A, ask(1, Ask::Prepare))];
    assert_eq!(progress, sent(&asked));
    assert_eq!(it.receive(A, prepared(1)), sent(&[(A, pre_commit(1))]));
    assert_eq!(it.decision, Decision::Open);
    assert_eq!(it.resend(false), [(A, pre_commit(1))]);
    let committed = Progress {
        committed: true,
        ..sent(&[(A, outcome(1, true))])
    };
    assert_eq!(it.receive(A, pre_committed(1)), committed);
    assert_eq!(it.resend(false), [(A, outcome(1, true))]);
    // Once more, and nothing comes of it.
    assert_eq!(it.receive(A, pre_committed(1)), Progress::default());
    assert!(it.receive(A, finished(1)).ended);
}

#[test]
fn nobody_is_told_before_all_are_prepared() {
    for protocol in [TwoPhase, ThreePhase] {
        let (mut it, progress) = begun(protocol, &[HOME, A, B]);
        let to: Vec<ShardId> = progress.send.iter().map(|(to, _)| *to).collect();
        assert!(to.contains(&A) && to.contains(&B), "{protocol:?}");
        assert_eq!(it.receive(A, prepared(1)), Progress::default());
        let progress = it.receive(B, prepared(2));
        assert_eq!(progress.committed, protocol == TwoPhase);
        assert_eq!(progress.send.len(), 2);
        if protocol == ThreePhase {
            assert_eq!(states(&it)[1..], [StepState::PreCommitting; 2]);
            assert_eq!(it.receive(B, pre_committed(2)), Progress::default());
            assert!(it.receive(A, pre_committed(1)).committed);
        }
    }
}

#[test]
fn a_refusal_aborts_and_the_prepared_are_told() {
    for protocol in [TwoPhase, ThreePhase] {
        let (mut it, _) = begun(protocol, &[HOME, A, B]);
        it.receive(A, prepared(1));
        let progress = it.receive(B, refused(2, not_found()));
        assert_eq!(progress.aborted, Some(not_found()), "{protocol:?}");
        assert!(progress.send.contains(&(A, outcome(1, false))));
        assert!(it.receive(A, finished(1)).ended);
    }
}

#[test]
fn a_coordinator_that_restarts_before_it_decided_aborts() {
    let (mut two, _) = begun(TwoPhase, &[HOME, A]);
    let (mut three, _) = begun(ThreePhase, &[HOME, A]);
    // Also when the participant knows that all are prepared: it waits for what it is told.
    three.receive(A, prepared(1));
    for it in [&mut two, &mut three] {
        let progress = it.recover();
        assert!(progress.aborted.is_some());
        assert_eq!(progress.send, [(A, outcome(1, false))]);
    }
}

#[test]
fn a_participant_says_how_far_it_is() {
    let mut it = participation(ParticipationState::Prepared {
        step: step(1),
        result: result(1),
        follow: Vec::new(),
        pre_committed: false,
    });
    assert_eq!(it.answer(), Some(prepared(1)));
    assert!(it.pre_commit());
    assert!(!it.pre_commit());
    assert_eq!(it.answer(), Some(pre_committed(1)));
    // It does not go on by itself.
    let inquiry = CommitMessage::InquireOutcome {
        tx: TX,
        number: ONE,
    };
    assert_eq!(it.resend(), Some(inquiry));
    assert_eq!(it.settle(), Some((step(1), result(1))));
    assert!(!it.pre_commit());
    assert_eq!(it.answer(), None);
}
