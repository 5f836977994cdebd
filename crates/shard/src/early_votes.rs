//! Votes of two-phase commit that came before their step was performed. The coordinator sends both at once, so as a rule
//! they come together, and a vote is looked at while the record of its step is still to be applied. Were it
//! forgotten then, each operation would wait until the coordinator asks again.

use pandofs_api::StepNumber;
use pandofs_types::limits::MAX_EARLY_VOTES;
use pandofs_types::{ShardId, TxId};
use std::collections::BTreeSet;

/// May be lost: the coordinator asks again.
#[derive(Debug, Default)]
pub struct EarlyVotes {
    votes: BTreeSet<(TxId, StepNumber)>,
}

impl EarlyVotes {
    /// Keeps a vote until its step is there. Of more than [`MAX_EARLY_VOTES`] none is kept.
    pub fn keep(&mut self, tx: TxId, number: StepNumber) {
        if self.votes.len() < MAX_EARLY_VOTES {
            self.votes.insert((tx, number));
        }
    }

    /// Whether the vote for this step has come; it is taken.
    pub fn take(&mut self, tx: TxId, number: StepNumber) -> bool {
        !self.votes.is_empty() && self.votes.remove(&(tx, number))
    }

    /// Forgets those of operations that have ended: all of the coordinator below `horizon`.
    pub fn forget_before(&mut self, coordinator: ShardId, horizon: u64) {
        self.votes
            .retain(|(tx, _)| tx.coordinator != coordinator || tx.sequence >= horizon);
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
        early.forget_before(ShardId(2), 7);
        early.forget_before(ShardId(3), 6);
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
