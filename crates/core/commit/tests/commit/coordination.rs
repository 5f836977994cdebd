//! The coordinator, one event after the other: what each leads to, whole.

use crate::common::*;
use pandofs_api::{Refused, StepNumber};
use pandofs_commit::{Coordination, Decision, Progress, StepState};
use pandofs_types::limits::MAX_PARTICIPANTS;
use pandofs_types::{FsError, ShardId};

#[test]
fn two_shards_commit() {
    let mut it = operation(&[HOME, A]);
    assert_eq!(
        it.start(),
        Progress {
            send: vec![(A, decide(1))],
            ..Progress::default()
        }
    );
    assert_eq!(states(&it), [StepState::Own, StepState::Deciding]);
    assert_eq!(
        it.receive(A, committed(1)),
        Progress {
            send: vec![(A, ack(1))],
            committed: true,
            ended: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.decision, Decision::Committed);
    assert_eq!(it.results(), [result(0), result(1)]);
    assert_eq!(it.resend(false), []);
}

#[test]
fn two_shards_refuse() {
    let mut it = started(&[HOME, A]);
    assert_eq!(
        it.receive(A, refused(1, not_found())),
        Progress {
            send: vec![(A, ack(1))],
            aborted: Some(not_found()),
            ended: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.decision, Decision::Aborted(not_found()));
    assert_eq!(it.resend(false), []);
}

/// All steps are elsewhere: nothing is different but that there is nothing to execute here.
#[test]
fn a_coordinator_without_a_step_of_its_own() {
    let mut it = operation(&[A, B]);
    assert_eq!(
        it.start(),
        Progress {
            send: vec![(A, prepare(0))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, prepared(0)),
        Progress {
            send: vec![(B, decide(1))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(B, committed(1)),
        Progress {
            send: vec![(A, outcome(0, true)), (B, ack(1))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, finished(0)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

/// Three shards besides the coordinator's: two prepare side by side, the last decides.
#[test]
fn all_are_prepared_before_the_last_decides() {
    let mut it = operation(&[HOME, A, B, C]);
    assert_eq!(
        it.start(),
        Progress {
            send: vec![(A, prepare(1)), (B, prepare(2))],
            ..Progress::default()
        }
    );
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Asked,
            StepState::Asked,
            StepState::Waiting
        ]
    );
    assert_eq!(it.receive(B, prepared(2)), Progress::default());
    assert_eq!(
        it.receive(A, prepared(1)),
        Progress {
            send: vec![(C, decide(3))],
            ..Progress::default()
        }
    );
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Prepared,
            StepState::Deciding
        ]
    );
    assert_eq!(
        it.receive(C, committed(3)),
        Progress {
            send: vec![(A, outcome(1, true)), (B, outcome(2, true)), (C, ack(3))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.results(), [result(0), result(1), result(2), result(3)]);
    assert_eq!(it.receive(A, finished(1)), Progress::default());
    assert_eq!(
        it.receive(B, finished(2)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

#[test]
fn the_decider_refuses_and_the_prepared_are_told() {
    let mut it = started(&[HOME, A, B]);
    it.receive(A, prepared(1));
    assert_eq!(
        it.receive(B, refused(2, Refused::Busy)),
        Progress {
            send: vec![(A, outcome(1, false)), (B, ack(2))],
            aborted: Some(Refused::Busy),
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

/// The one that was to decide is never asked, the one that was asked hears the outcome whether it is
/// prepared already or not.
#[test]
fn a_refusal_while_others_are_asked() {
    let mut it = started(&[HOME, A, B, C]);
    assert_eq!(
        it.receive(B, refused(2, not_found())),
        Progress {
            send: vec![(A, outcome(1, false)), (B, ack(2))],
            aborted: Some(not_found()),
            ..Progress::default()
        }
    );
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Asked,
            StepState::Settled,
            StepState::Settled
        ]
    );
    assert_eq!(it.resend(false), [(A, outcome(1, false))]);
    // A message that crosses the outcome on the way changes nothing.
    assert_eq!(it.receive(A, prepared(1)), Progress::default());
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

#[test]
fn a_second_refusal_settles_its_step_and_the_first_reason_stands() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(B, refused(2, not_found()));
    assert_eq!(
        it.receive(A, refused(1, Refused::Busy)),
        Progress {
            send: vec![(A, ack(1))],
            ended: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.decision, Decision::Aborted(not_found()));
}

/// A shard that takes part twice has two steps that are settled each by itself.
#[test]
fn two_steps_on_one_shard() {
    let mut it = operation(&[HOME, A, A]);
    assert_eq!(
        it.start(),
        Progress {
            send: vec![(A, prepare(1))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, prepared(1)),
        Progress {
            send: vec![(A, decide(2))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, committed(2)),
        Progress {
            send: vec![(A, outcome(1, true)), (A, ack(2))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

/// The decider finds that another shard is needed: it is prepared only, and the new one decides.
#[test]
fn the_decider_finds_one_more_shard() {
    let mut it = started(&[HOME, A]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(B, step(20))])),
        Progress {
            send: vec![(B, decide_step(2, step(20)))],
            ..Progress::default()
        }
    );
    assert_eq!(
        states(&it),
        [StepState::Own, StepState::Prepared, StepState::Deciding]
    );
    assert_eq!(
        it.receive(B, committed(2)),
        Progress {
            send: vec![(A, outcome(1, true)), (B, ack(2))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.results(), [result(0), result(1), result(2)]);
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

#[test]
fn the_decider_finds_two_more_shards() {
    let mut it = started(&[HOME, A]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(B, step(20)), (C, step(30))])),
        Progress {
            send: vec![(B, prepare_step(2, step(20)))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(B, prepared(2)),
        Progress {
            send: vec![(C, decide_step(3, step(30)))],
            ..Progress::default()
        }
    );
}

/// The step that waits to decide is asked to prepare instead when a further one is found in time.
#[test]
fn a_prepared_shard_finds_one_more_while_the_last_waits() {
    let mut it = started(&[HOME, A, B]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(C, step(30))])),
        Progress {
            send: vec![(B, prepare(2))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(B, prepared(2)),
        Progress {
            send: vec![(C, decide_step(3, step(30)))],
            ..Progress::default()
        }
    );
}

#[test]
fn a_step_that_is_there_is_not_added_again() {
    let mut it = started(&[HOME, A, B]);
    let follow = vec![(B, step(2)), (A, step(2)), (A, step(2))];
    // Step 2 of B is the operation's already; the same step on A is another one, once.
    assert_eq!(
        it.receive(A, prepared_with(1, follow)),
        Progress {
            send: vec![(B, prepare(2))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(B, prepared(2)),
        Progress {
            send: vec![(A, decide_step(3, step(2)))],
            ..Progress::default()
        }
    );
    assert_eq!(it.steps.len(), 4);
}

/// The decider answers that it only prepared, but for steps that are prepared by now: nobody is left
/// to decide but the coordinator.
#[test]
fn the_coordinator_decides_when_nobody_is_left_to() {
    let mut it = started(&[HOME, A, B]);
    it.receive(A, prepared(1));
    assert_eq!(
        it.receive(B, prepared_with(2, vec![(A, step(1))])),
        Progress {
            send: vec![(A, outcome(1, true)), (B, outcome(2, true))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(it.receive(B, finished(2)), Progress::default());
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

/// Own steps found on the way are prepared before anybody else is asked.
#[test]
fn own_steps_are_found_and_prepared() {
    let mut it = started(&[HOME, A]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(HOME, step(20)), (B, step(30))])),
        Progress {
            prepare: vec![StepNumber(2)],
            ..Progress::default()
        }
    );
    assert_eq!(
        states(&it),
        [
            StepState::Own,
            StepState::Prepared,
            StepState::Own,
            StepState::Waiting
        ]
    );
    // It leads to a further own step and a further shard.
    assert_eq!(
        it.own_prepared(
            StepNumber(2),
            result(20),
            vec![(HOME, step(40)), (C, step(50))]
        ),
        Progress {
            prepare: vec![StepNumber(4)],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.own_prepared(StepNumber(4), result(40), vec![]),
        Progress::default()
    );
    assert_eq!(
        it.go_on(),
        Progress {
            send: vec![(B, prepare_step(3, step(30)))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(B, prepared(3)),
        Progress {
            send: vec![(C, decide_step(5, step(50)))],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(C, committed(5)),
        Progress {
            send: vec![(A, outcome(1, true)), (B, outcome(3, true)), (C, ack(5))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(
        it.results(),
        [
            result(0),
            result(1),
            result(20),
            result(3),
            result(40),
            result(5)
        ]
    );
}

/// Only own steps were missing: with them everybody is prepared.
#[test]
fn the_coordinator_decides_after_the_last_own_step() {
    let mut it = started(&[HOME, A]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(HOME, step(20))])),
        Progress {
            prepare: vec![StepNumber(2)],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.own_prepared(StepNumber(2), result(20), vec![]),
        Progress::default()
    );
    assert_eq!(
        it.go_on(),
        Progress {
            send: vec![(A, outcome(1, true))],
            committed: true,
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

/// Others are still being prepared: the own step is done, and they are waited for.
#[test]
fn an_own_step_is_found_while_others_are_asked() {
    let mut it = started(&[HOME, A, B, C]);
    assert_eq!(
        it.receive(A, prepared_with(1, vec![(HOME, step(20))])),
        Progress {
            prepare: vec![StepNumber(4)],
            ..Progress::default()
        }
    );
    assert_eq!(
        it.own_prepared(StepNumber(4), nothing(), vec![]),
        Progress::default()
    );
    assert_eq!(it.go_on(), Progress::default());
    assert_eq!(
        it.receive(B, prepared(2)),
        Progress {
            send: vec![(C, decide(3))],
            ..Progress::default()
        }
    );
}

#[test]
fn an_own_step_that_cannot_be_prepared_aborts() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(
        A,
        prepared_with(1, vec![(HOME, step(20)), (HOME, step(21))]),
    );
    assert_eq!(
        it.own_refused(Refused::Busy),
        Progress {
            send: vec![(A, outcome(1, false)), (B, outcome(2, false))],
            aborted: Some(Refused::Busy),
            ..Progress::default()
        }
    );
    assert_eq!(it.go_on(), Progress::default());
    assert_eq!(it.receive(A, finished(1)), Progress::default());
    assert_eq!(
        it.receive(B, refused(2, not_found())),
        Progress {
            send: vec![(B, ack(2))],
            ended: true,
            ..Progress::default()
        }
    );
}

#[test]
fn an_operation_that_grows_too_large_is_aborted() {
    let mut it = started(&[HOME, A]);
    let fit = MAX_PARTICIPANTS - 2;
    let mut follow: Vec<_> = (0..fit as u64).map(|n| (HOME, step(100 + n))).collect();
    follow.push((B, step(2)));
    assert_eq!(
        it.receive(A, prepared_with(1, follow)),
        Progress {
            send: vec![(A, outcome(1, false))],
            aborted: Some(Refused::Fs(FsError::Invalid)),
            ..Progress::default()
        }
    );
    assert_eq!(
        it.receive(A, finished(1)),
        Progress {
            ended: true,
            ..Progress::default()
        }
    );
}

#[test]
fn an_own_step_that_leads_to_too_many_aborts() {
    let mut it = started(&[HOME, A]);
    let fit = MAX_PARTICIPANTS - 2;
    let follow: Vec<_> = (0..fit as u64).map(|n| (HOME, step(100 + n))).collect();
    assert_eq!(it.receive(A, prepared_with(1, follow)).prepare.len(), fit);
    assert_eq!(
        it.own_prepared(StepNumber(2), nothing(), vec![(B, step(2))]),
        Progress {
            send: vec![(A, outcome(1, false))],
            aborted: Some(Refused::Fs(FsError::Invalid)),
            ..Progress::default()
        }
    );
    assert_eq!(it.go_on(), Progress::default());
}

/// The own step that A found is still open when B's answer is let in, and C is asked to decide.
#[test]
#[should_panic(expected = "aborted while a participant decides")]
fn an_operation_is_not_aborted_while_a_participant_decides() {
    let mut it = started(&[HOME, A, B, C]);
    it.receive(A, prepared_with(1, vec![(HOME, step(20))]));
    it.receive(B, prepared(2));
    it.own_refused(Refused::Busy);
}

#[test]
#[should_panic(expected = "decided already")]
fn nothing_is_prepared_for_an_aborted_operation() {
    let mut it = started(&[HOME, A]);
    it.receive(
        A,
        prepared_with(1, vec![(HOME, step(20)), (HOME, step(21))]),
    );
    it.own_refused(Refused::Busy);
    it.own_prepared(StepNumber(3), nothing(), vec![(B, step(30))]);
}

#[test]
#[should_panic(expected = "an ordinary operation")]
fn an_operation_on_one_shard_is_not_distributed() {
    operation(&[HOME, HOME]);
}

#[test]
#[should_panic(expected = "are too many")]
fn an_operation_starts_with_a_bounded_number_of_steps() {
    operation(&vec![A; MAX_PARTICIPANTS + 1]);
}

/// Another shard's word on a step counts for nothing, nor does one on a step that is not there.
#[test]
fn only_the_step_s_own_shard_is_believed() {
    let strangers: [(ShardId, u16); 3] = [(B, 1), (A, 0), (A, 2)];
    for (from, number) in strangers {
        for message in [
            prepared(number),
            committed(number),
            refused(number, not_found()),
            finished(number),
            inquire_outcome(number),
        ] {
            let mut it: Coordination = started(&[HOME, A]);
            let before = it.clone();
            assert_eq!(
                it.receive(from, message.clone()),
                Progress::default(),
                "{message:?}"
            );
            assert_eq!(it, before, "{message:?}");
        }
    }
}
