//! Messages that come twice, late, or in another order than they were sent: in every state of an
//! operation every message that no longer fits leaves the state as it is, and is answered if its
//! sender still waits for the answer.

use crate::common::*;
use pandofs_api::{CommitMessage, Refused};
use pandofs_commit::{Coordination, Progress, StepState};
use pandofs_types::ShardId;

const D: ShardId = ShardId(4);

/// `receive` of each message changes nothing and sends what stands beside it.
fn assert_absorbs(it: &Coordination, cases: &[(ShardId, CommitMessage, Vec<CommitMessage>)]) {
    for (from, message, answers) in cases {
        let mut after = it.clone();
        let send = answers
            .iter()
            .map(|answer| (*from, answer.clone()))
            .collect();
        assert_eq!(
            after.receive(*from, message.clone()),
            Progress {
                send,
                ..Progress::default()
            },
            "{message:?} from {from}"
        );
        assert_eq!(after, *it, "{message:?} from {from}");
    }
}

/// Messages that coordinators send, not get.
fn assert_absorbs_what_is_for_participants(it: &Coordination) {
    for number in 0..=5 {
        for from in [HOME, A, B, C, D] {
            for message in [
                prepare(number),
                decide(number),
                ack(number),
                outcome(number, true),
                outcome(number, false),
                inquire(number),
            ] {
                assert_absorbs(it, &[(from, message, vec![])]);
            }
        }
    }
}

#[test]
fn while_shards_are_asked() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared(1));
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Asked,
            StepState::Waiting
        ]
    );
    assert_absorbs(
        &it,
        &[
            (A, prepared(1), vec![]),
            (A, prepared_with(1, vec![(D, step(9))]), vec![]),
            (A, committed(1), vec![]),
            (A, refused(1, Refused::Unknown), vec![]),
            (A, finished(1), vec![]),
            // Nothing is decided: it has to ask again.
            (A, inquire_outcome(1), vec![]),
            // B was not asked to decide; an Ack would let it forget.
            (B, committed(2), vec![]),
            (B, finished(2), vec![]),
            (B, inquire_outcome(2), vec![]),
            // C was not asked at all.
            (C, prepared(3), vec![]),
            (C, committed(3), vec![]),
            (C, refused(3, Refused::Busy), vec![]),
            (C, finished(3), vec![]),
            (C, inquire_outcome(3), vec![]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

#[test]
fn while_one_decides() {
    let mut it = started(&[HOME, A, B]);
    it.receive(A, prepared(1));
    assert_eq!(
        states(&it),
        [StepState::Own, StepState::Prepared, StepState::Deciding]
    );
    assert_absorbs(
        &it,
        &[
            (A, prepared(1), vec![]),
            (A, committed(1), vec![]),
            (A, refused(1, Refused::Busy), vec![]),
            (A, finished(1), vec![]),
            (A, inquire_outcome(1), vec![]),
            (B, finished(2), vec![]),
            (B, inquire_outcome(2), vec![]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

/// The former decider is prepared now, and says so again.
#[test]
fn while_a_shard_that_was_found_decides() {
    let mut it = started(&[HOME, A]);
    let found = prepared_with(1, vec![(B, step(20))]);
    it.receive(A, found.clone());
    assert_eq!(
        states(&it),
        [StepState::Own, StepState::Prepared, StepState::Deciding]
    );
    assert_absorbs(
        &it,
        &[
            (A, found, vec![]),
            (A, prepared(1), vec![]),
            (A, committed(1), vec![]),
            (A, refused(1, Refused::Unknown), vec![]),
            (A, inquire_outcome(1), vec![]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

#[test]
fn after_the_commit() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared(1));
    it.receive(B, prepared(2));
    it.receive(C, committed(3));
    it.receive(B, finished(2));
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Settled,
            StepState::Settled
        ]
    );
    assert_absorbs(
        &it,
        &[
            (A, prepared(1), vec![]),
            (A, inquire_outcome(1), vec![outcome(1, true)]),
            (B, prepared(2), vec![]),
            (B, finished(2), vec![]),
            // Asked before it had the outcome.
            (B, inquire_outcome(2), vec![outcome(2, true)]),
            (C, prepared(3), vec![]),
            (C, committed(3), vec![ack(3)]),
            (C, finished(3), vec![]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

#[test]
fn after_the_coordinator_has_committed() {
    let mut it = started(&[HOME, A, B]);
    it.receive(A, prepared(1));
    let found_nothing_new = prepared_with(2, vec![(A, step(1))]);
    it.receive(B, found_nothing_new.clone());
    it.receive(A, finished(1));
    assert_eq!(
        states(&it),
        [StepState::Own, StepState::Settled, StepState::Prepared]
    );
    assert_absorbs(
        &it,
        &[
            (A, prepared(1), vec![]),
            (A, finished(1), vec![]),
            (A, inquire_outcome(1), vec![outcome(1, true)]),
            (B, found_nothing_new, vec![]),
            (B, inquire_outcome(2), vec![outcome(2, true)]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

#[test]
fn after_the_abort() {
    let mut it = started(&[HOME, A, B, C, D]);
    it.receive(A, prepared(1));
    it.receive(C, refused(3, not_found()));
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Asked,
            StepState::Settled,
            StepState::Settled
        ]
    );
    assert_absorbs(
        &it,
        &[
            (A, prepared(1), vec![]),
            (A, inquire_outcome(1), vec![outcome(1, false)]),
            (B, prepared(2), vec![]),
            (
                B,
                prepared_with(2, vec![(D, step(9)), (HOME, step(10))]),
                vec![],
            ),
            (B, inquire_outcome(2), vec![outcome(2, false)]),
            (C, refused(3, not_found()), vec![ack(3)]),
            (C, prepared(3), vec![]),
            (C, finished(3), vec![]),
            // D was to decide and was not asked.
            (D, prepared(4), vec![]),
            (D, finished(4), vec![]),
        ],
    );
    assert_absorbs_what_is_for_participants(&it);
}

/// Its `Outcome` overtook the `Do`: it has the outcome, whatever the `Do` comes to now.
#[test]
fn an_asked_shard_answers_the_outcome_first() {
    let mut it = started(&[HOME, A, B, C, D]);
    it.receive(C, refused(3, not_found()));
    assert_eq!(it.receive(B, finished(2)), Progress::default());
    assert_absorbs(
        &it,
        &[
            (B, prepared(2), vec![]),
            (B, refused(2, Refused::Busy), vec![ack(2)]),
            (B, finished(2), vec![]),
            (B, inquire_outcome(2), vec![outcome(2, false)]),
        ],
    );
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}
