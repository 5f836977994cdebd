//! The horizon: how a coordinator says what has ended everywhere, and what participants keep of that.
//!
//! One operation that cannot end, because a participant's server is away, is named beside the horizon and does not hold it
//! back: everything that its coordinator begins meanwhile would leave a tombstone at each participant until that server is
//! back.

use pandofs_api::Horizon;
use pandofs_types::limits::MAX_STRAGGLERS;

/// The horizon of a coordinator whose operations in `open`, in order, have not ended; the next one will be `next`.
///
/// An operation is named when `straggles_after` others have begun after it
/// ([`STRAGGLES_AFTER`](pandofs_types::limits::STRAGGLES_AFTER), so that as a rule none is); of those the
/// [`MAX_STRAGGLERS`] oldest are.
pub fn horizon(open: impl Iterator<Item = u64>, next: u64, straggles_after: u64) -> Horizon {
    let recent = next.saturating_sub(straggles_after);
    let mut stragglers = Vec::new();
    for sequence in open {
        if sequence >= recent || stragglers.len() == MAX_STRAGGLERS {
            let passed = sequence;
            return Horizon {
                passed,
                open: stragglers,
            };
        }
        stragglers.push(sequence);
    }
    Horizon {
        passed: next,
        open: stragglers,
    }
}

/// Adds what another message of the coordinator says, perhaps an older one; whether that is anything new.
///
/// An operation that has ended has ended for good: of an operation the word counts that it has.
pub fn learn(known: &mut Horizon, told: &Horizon) -> bool {
    let (newer, older) = match told.passed >= known.passed {
        true => (told, &*known),
        false => (&*known, told),
    };
    let still_open = |sequence: &&u64| !older.has_passed(**sequence);
    let both = Horizon {
        passed: newer.passed,
        open: newer.open.iter().filter(still_open).copied().collect(),
    };
    let is_new = both != *known;
    *known = both;
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::limits::STRAGGLES_AFTER;

    #[test]
    fn what_is_recent_holds_the_horizon_and_is_not_named() {
        let told = horizon([7, 9].into_iter(), 12, STRAGGLES_AFTER);
        assert_eq!((told.passed, told.open.len()), (7, 0));
        let none = horizon([].into_iter(), 12, STRAGGLES_AFTER);
        assert_eq!((none.passed, none.open.len()), (12, 0));
    }

    #[test]
    fn so_many_stragglers_are_named_and_the_next_holds_the_horizon() {
        let next = 10 * STRAGGLES_AFTER;
        let told = horizon([3, 5, next - 1].into_iter(), next, STRAGGLES_AFTER);
        assert_eq!((told.passed, told.open), (next - 1, vec![3, 5]));
        let many = 1..=MAX_STRAGGLERS as u64 + 5;
        let told = horizon(many, next, STRAGGLES_AFTER);
        assert_eq!(told.passed, MAX_STRAGGLERS as u64 + 1);
        assert_eq!(told.open.len(), MAX_STRAGGLERS);
        assert!(!told.has_passed(1) && !told.has_passed(told.passed));
    }

    /// In whichever order messages come the same is known in the end: whatever one of them says has ended.
    #[test]
    fn the_order_of_messages_does_not_matter() {
        let told = [
            (4, vec![1, 2]),
            (9, vec![2, 5]),
            (9, vec![5]),
            (6, vec![2]),
            (12, vec![5, 10]),
        ]
        .map(|(passed, open)| Horizon { passed, open });
        for first in 0..told.len() {
            for second in 0..told.len() {
                let mut known = Horizon::default();
                let mut order: Vec<_> = (0..told.len()).collect();
                order.swap(0, first);
                order.swap(1, second);
                let mut heard: Vec<&Horizon> = Vec::new();
                for at in order {
                    heard.push(&told[at]);
                    learn(&mut known, &told[at]);
                    assert!(!learn(&mut known, &told[at]));
                    for sequence in 0..15 {
                        let ended = heard.iter().any(|told| told.has_passed(sequence));
                        assert_eq!(known.has_passed(sequence), ended, "{sequence}: {heard:?}");
                    }
                }
            }
        }
    }
}
