//! The time after a start in which clients that knew the process before it tell again what they have open and locked.

use pandofs_types::Steady;
use pandofs_types::limits::TICK_INTERVAL;
use std::time::Duration;

/// How much is left of it. Counted by ticks: a server that stood still, or whose clock was set, has
/// not given anybody the time to come.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    left: Duration,
    last: Steady,
}

impl Grace {
    pub(crate) fn new(length: Duration, now: Steady) -> Grace {
        Grace {
            left: length,
            last: now,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    pub(crate) fn tick(&mut self, now: Steady) {
        let passed = now.since(self.last);
        self.last = now;
        self.left = self.left.saturating_sub(passed.min(10 * TICK_INTERVAL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::limits::SESSION_TIMEOUT;

    #[test]
    fn it_ends_by_ticks_and_by_no_clock() {
        let mut now = Steady(1_000);
        let mut grace = Grace::new(SESSION_TIMEOUT, now);
        let most = 10 * TICK_INTERVAL;
        let steps = SESSION_TIMEOUT.as_nanos() / most.as_nanos();
        for step in 0..steps {
            assert!(!grace.is_over(), "after {step} of {steps}");
            // Whether it stood still for an hour or its clock was set: a tick is a tick.
            now.0 += [1, 3_600_000_000_000][usize::from(step % 2 == 0)].max(most.as_nanos() as i64);
            grace.tick(now);
        }
        assert!(grace.is_over());

        let mut grace = Grace::new(SESSION_TIMEOUT, now);
        for _ in 0..2 * steps {
            now.0 -= 3_600_000_000_000;
            grace.tick(now);
        }
        assert!(!grace.is_over(), "set back, and no time has passed");
    }
}
