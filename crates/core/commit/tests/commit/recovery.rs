//! The coordinator after a restart, and what it sends again, in every state it can be found in
//! (Xiong et al., section 4.4.1).

use crate::common::*;
use pandofs_api::{CommitMessage, Refused, StepNumber};
use pandofs_commit::{Coordination, Decision, Progress, StepState};
use pandofs_types::ShardId;

/// Recovery of an operation that a restarted coordinator finds.
fn restart(mut it: Coordination) -> (Progress, Vec<(ShardId, CommitMessage)>, Coordination) {
    let progress = it.recover();
    let send = it.resend(true);
    (progress, send, it)
}

fn aborts(send: Vec<(ShardId, CommitMessage)>) -> Progress {
    let ended = send.is_empty();
    Progress {
        send,
        aborted: Some(Refused::Unknown),
        ended,
        ..Progress::default()
    }
}

/// Nobody was asked anything: the participants never hear of the operation.
#[test]
fn before_anybody_was_asked() {
    let (progress, send, it) = restart(operation(&[HOME, A, B]));
    assert_eq!(progress, aborts(vec![]));
    assert_eq!(send, []);
    assert_eq!(it.decision, Decision::Aborted(Refused::Unknown));
}

#[test]
fn while_shards_are_asked() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared(1));
    assert_eq!(it.resend(false), [(B, prepare(2))]);
    let told = vec![(A, outcome(1, false)), (B, outcome(2, false))];
    let (progress, send, it) = restart(it);
    assert_eq!(progress, aborts(told.clone()));
    assert_eq!(send, told);
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Asked,
            StepState::Settled
        ]
    );
}

/// It may be decided: the decider is asked what it did, and until then nothing is known.
#[test]
fn while_the_only_participant_decides() {
    let it = started(&[HOME, A]);
    assert_eq!(it.resend(false), [(A, decide(1))]);
    let (progress, send, after) = restart(it.clone());
    assert_eq!(progress, Progress::default());
    assert_eq!(send, [(A, inquire(1))]);
    assert_eq!(after, it);

    // It had decided.
    assert_eq!(
        after.clone().receive(A, committed(1)),
        Progress {
            send: vec![(A, ack(1))],
            committed: true,
            ended: true,
            ..Progress::default()
        }
    );
    // It had not heard of it, and now will not.
    assert_eq!(
        after.clone().receive(A, refused(1, Refused::Unknown)),
        Progress {
            send: vec![(A, ack(1))],
            aborted: Some(Refused::Unknown),
            ended: true,
            ..Progress::default()
        }
    );
    // It had found that another shard is needed: the operation goes on.
    assert_eq!(
        after
            .clone()
            .receive(A, prepared_with(1, vec![(B, step(20))])),
        Progress {
            send: vec![(B, decide_step(2, step(20)))],
            ..Progress::default()
        }
    );
}

/// The prepared ones hear nothing before the decider has answered.
#[test]
fn while_the_last_of_several_decides() {
    let mut it = started(&[HOME, A, B]);
    it.receive(A, prepared(1));
    assert_eq!(it.resend(false), [(B, decide(2))]);
    let (progress, send, mut it) = restart(it);
    assert_eq!(progress, Progress::default());
    assert_eq!(send, [(B, inquire(2))]);
    assert_eq!(
        it.receive(B, refused(2, Refused::Unknown)),
        Progress {
            send: vec![(A, outcome(1, false)), (B, ack(2))],
            aborted: Some(Refused::Unknown),
            ..Progress::default()
        }
    );
}

/// The former decider left the decision to the coordinator, which has asked others to prepare since:
/// nobody can have decided.
#[test]
fn after_the_decider_found_more_shards() {
    let mut it = started(&[HOME, A]);
    it.receive(A, prepared_with(1, vec![(B, step(20)), (C, step(30))]));
    assert_eq!(it.resend(false), [(B, prepare_step(2, step(20)))]);
    let told = vec![(A, outcome(1, false)), (B, outcome(2, false))];
    let (progress, send, _) = restart(it);
    assert_eq!(progress, aborts(told.clone()));
    assert_eq!(send, told);
}

/// An own step was found and another shard waits to be asked.
#[test]
fn when_an_own_step_was_found() {
    let mut it = started(&[HOME, A]);
    let progress = it.receive(A, prepared_with(1, vec![(HOME, step(20)), (B, step(30))]));
    assert_eq!(progress.prepare, [StepNumber(2)]);
    assert_eq!(it.resend(false), []);
    let told = vec![(A, outcome(1, false))];
    let (progress, send, _) = restart(it);
    assert_eq!(progress, aborts(told.clone()));
    assert_eq!(send, told);
}

#[test]
fn after_the_commit() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared(1));
    it.receive(B, prepared(2));
    it.receive(C, committed(3));
    it.receive(A, finished(1));
    let told = [(B, outcome(2, true))];
    assert_eq!(it.resend(false), told);
    let (progress, send, after) = restart(it.clone());
    assert_eq!(progress, Progress::default());
    assert_eq!(send, told);
    assert_eq!(after, it);
}

#[test]
fn after_the_abort() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared(1));
    it.receive(B, refused(2, not_found()));
    let told = [(A, outcome(1, false))];
    assert_eq!(it.resend(false), told);
    let (progress, send, after) = restart(it.clone());
    assert_eq!(progress, Progress::default());
    assert_eq!(send, told);
    assert_eq!(after, it);
}

/// It stops again before the outcome is told: the second restart finds the first one's decision.
#[test]
fn twice() {
    let (_, first, it) = restart(started(&[HOME, A, B]));
    assert_eq!(first, [(A, outcome(1, false))]);
    let (progress, second, after) = restart(it.clone());
    assert_eq!(progress, Progress::default());
    assert_eq!(second, first);
    assert_eq!(after, it);
}
