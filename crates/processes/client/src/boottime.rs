//! Clock for leases and sessions, which also counts while the machine is suspended.
//!
//! `std::time::Instant` does not, on Linux. (A laptop is suspended for ten minutes with 9 s left of
//! a lease. Afterwards it would use for 9 s what others have changed long ago, and say for half a
//! minute that it has locks which its server has given to others.) A virtual machine that is frozen
//! with its clock notices nothing by any clock of its own; there only servers' answers help.

use rustix::time::{ClockId, clock_gettime};
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

    pub fn now() -> Boottime {
        // The kernel gives no negative time since the start, nor nanoseconds beyond a second.
        let now = clock_gettime(ClockId::Boottime);
        let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        Boottime(Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds))
    }

    /// The time since then; 0 if it is still to come.
    pub fn elapsed(self) -> Duration {
        Boottime::now().saturating_duration_since(self)
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

    /// `/proc/uptime` counts suspended time, too.
    #[test]
    fn it_is_the_time_since_the_machine_was_started() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Boottime::after_start(Duration::from_secs_f64(seconds))
        };
        // It has hundredths of a second.
        let before = uptime();
        let now = Boottime::now() + Duration::from_millis(10);
        assert!(before <= now);
        assert!(now <= uptime() + Duration::from_millis(30));
    }

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
        assert!(Boottime::now().elapsed() < second * 60);
    }
}
