//! Votes of two-phase commit that came before their step was performed. The coordinator sends both at once, so as a rule
//! they come together, and a vote is looked at while the record of its step is still to be applied. Were it
//! forgotten then, each operation would wait until the coordinator asks again.

use pandofs_api::{Horizon, StepNumber};
use pandofs_types::limits::MAX_EARLY_VOTES;
use pandofs_types::{ShardId, TxId};
use std::collections::BTreeSet;

/// May be lost: the coordinator asks again.
#[derive(Debug, Default)]
pub(crate) struct EarlyVotes {
    votes: BTreeSet<(TxId, StepNumber)>,
}

impl EarlyVotes {
    /// Keeps a vote until its step is there. Of more than [`MAX_EARLY_VOTES`] none is kept.
    pub(crate) fn keep(&mut self, tx: TxId, number: StepNumber) {
        if self.votes.len() < MAX_EARLY_VOTES {
            self.votes.insert((tx, number));
        }
    }

    /// Whether the vote for this step has come; it is taken.
    pub(crate) fn take(&mut self, tx: TxId, number: StepNumber) -> bool {
        !self.votes.is_empty() && self.votes.remove(&(tx, number))
    }

    /// Forgets those of operations that have ended.
    pub(crate) fn forget_passed(&mut self, coordinator: ShardId, horizon: &Horizon) {
        self.votes
            .retain(|(tx, _)| tx.coordinator != coordinator || !horizon.has_passed(tx.sequence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(sequence: u64) -> TxId {
        TxId {
            coordinator: ShardId(3),
            sequence,
        }
    }

    #[test]
    fn a_vote_is_kept_once_and_not_for_ever() {
        let mut early = EarlyVotes::default();
        early.keep(tx(5), StepNumber(1));
        assert!(!early.take(tx(5), StepNumber(2)));
        assert!(early.take(tx(5), StepNumber(1)));
        assert!(!early.take(tx(5), StepNumber(1)));
        early.keep(tx(5), StepNumber(1));
        early.keep(tx(6), StepNumber(1));
        let passed = |passed| Horizon {
            passed,
            open: Vec::new(),
        };
        early.forget_passed(ShardId(2), &passed(7));
        early.forget_passed(ShardId(3), &passed(6));
        assert!(!early.take(tx(5), StepNumber(1)));
        assert!(early.take(tx(6), StepNumber(1)));
    }

    #[test]
    fn there_are_never_more_than_the_limit() {
        let mut early = EarlyVotes::default();
        for sequence in 0..=MAX_EARLY_VOTES as u64 {
            early.keep(tx(sequence), StepNumber(1));
        }
        assert!(early.take(tx(0), StepNumber(1)));
        assert!(!early.take(tx(MAX_EARLY_VOTES as u64), StepNumber(1)));
    }
}
