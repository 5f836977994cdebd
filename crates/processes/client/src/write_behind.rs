//! Limit of the writes of one client that are answered before their servers have them.

use crate::limits::{MAX_WRITES_BEHIND, WRITE_THROUGH_AFTER_FAILURE};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct WriteBehindLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// The time of the last one that failed.
    failed: Option<Instant>,
}

impl WriteBehindLimit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, if there may be.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state();
        let has_failed = state
            .failed
            .is_some_and(|failed| failed.elapsed() < WRITE_THROUGH_AFTER_FAILURE);
        let may_be = !has_failed && state.under_way < MAX_WRITES_BEHIND;
        state.under_way += usize::from(may_be);
        may_be
    }

    /// Counts one off, which was done or failed.
    pub(crate) fn end(&self, is_done: bool) {
        let mut state = self.state();
        assert!(state.under_way > 0, "a write ends that did not begin");
        state.under_way -= 1;
        if !is_done {
            state.failed = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_begin_and_none_after_a_failure() {
        let limit = WriteBehindLimit::default();
        for _ in 0..MAX_WRITES_BEHIND {
            assert!(limit.begin());
        }
        assert!(!limit.begin());
        limit.end(true);
        assert!(limit.begin());
        limit.end(false);
        assert!(!limit.begin());
    }
}
