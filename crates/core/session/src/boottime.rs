//! Moments of the clock for leases and sessions, which also counts while the machine is suspended.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, by Linux's `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boottime(Duration);

impl Boottime {
    /// So long after the machine was started.
    pub fn after_start(passed: Duration) -> Boottime {
        Boottime(passed)
    }

    /// The time from `earlier` on; 0 if that is later.
    pub fn saturating_duration_since(self, earlier: Boottime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Boottime {
    type Output = Boottime;

    fn add(self, passed: Duration) -> Boottime {
        Boottime(self.0.saturating_add(passed))
    }
}

impl Sub<Duration> for Boottime {
    type Output = Boottime;

    /// The machine's start if that is before it.
    fn sub(self, passed: Duration) -> Boottime {
        Boottime(self.0.saturating_sub(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_compared_and_moved() {
        let second = Duration::from_secs(1);
        let moment = Boottime::after_start(second * 10);
        assert_eq!((moment + second).saturating_duration_since(moment), second);
        assert_eq!(
            moment.saturating_duration_since(moment + second),
            Duration::ZERO
        );
        assert_eq!(moment + second - second, moment);
        assert_eq!(moment - second * 11, Boottime::after_start(Duration::ZERO));
    }
}
