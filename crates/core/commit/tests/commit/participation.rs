//! The participant: each state's answer to each question.

use crate::common::*;
use pandofs_api::Refused;
use pandofs_commit::{Participation, ParticipationState};

fn prepared_state() -> ParticipationState {
    ParticipationState::Prepared {
        step: step(1),
        result: result(1),
        follow: vec![(B, step(20)), (HOME, step(30))],
        pre_committed: false,
    }
}

fn committed_state() -> ParticipationState {
    ParticipationState::Committed { result: result(1) }
}

fn refused_state() -> ParticipationState {
    ParticipationState::Refused {
        why: Refused::Unknown,
    }
}

#[test]
fn a_prepared_one_gives_the_same_answer_until_it_is_told_the_outcome() {
    let mut it = participation(prepared_state());
    let answer = prepared_with(1, vec![(B, step(20)), (HOME, step(30))]);
    assert_eq!(it.answer(), Some(answer.clone()));
    assert_eq!(it.resend(), Some(inquire_outcome(1)));
    // Only one that decided is acknowledged.
    assert!(!it.acknowledge());
    assert_eq!(it, participation(prepared_state()));
    assert_eq!(it.answer(), Some(answer));

    assert_eq!(it.settle(), Some((step(1), result(1))));
    assert_eq!(it, participation(ParticipationState::Ended));
    // Told twice, it performs its step once.
    assert_eq!(it.settle(), None);
    assert_eq!(it, participation(ParticipationState::Ended));
}

#[test]
fn one_that_committed_says_so_until_it_is_acknowledged() {
    let mut it = participation(committed_state());
    assert_eq!(it.answer(), Some(committed(1)));
    assert_eq!(it.resend(), Some(committed(1)));
    // An outcome is for prepared ones: this one has performed its step already.
    assert_eq!(it.settle(), None);
    assert_eq!(it, participation(committed_state()));

    assert!(it.acknowledge());
    assert_eq!(it, participation(ParticipationState::Ended));
    assert!(!it.acknowledge());
}

#[test]
fn one_that_refused_says_so_until_it_is_acknowledged() {
    let mut it = participation(refused_state());
    assert_eq!(it.answer(), Some(refused(1, Refused::Unknown)));
    assert_eq!(it.resend(), Some(refused(1, Refused::Unknown)));
    // The outcome of an operation that another one's refusal aborted too.
    assert_eq!(it.settle(), None);
    assert_eq!(it, participation(refused_state()));

    assert!(it.acknowledge());
    assert_eq!(it, participation(ParticipationState::Ended));
    assert!(!it.acknowledge());
}

#[test]
fn one_that_ended_is_silent() {
    let ended: Participation = participation(ParticipationState::Ended);
    let mut it = ended.clone();
    assert_eq!(it.answer(), None);
    assert_eq!(it.resend(), None);
    assert!(!it.acknowledge());
    assert_eq!(it.settle(), None);
    assert_eq!(it, ended);
}
