//! Clock for leases and sessions, which also counts while the machine is suspended.
//!
//! `std::time::Instant` does not, on Linux. (A laptop is suspended for ten minutes with 9 s left of
//! a lease. Afterwards it would use for 9 s what others have changed long ago, and say for half a
//! minute that it has locks which its server has given to others.) A virtual machine that is frozen
//! with its clock notices nothing by any clock of its own; there only servers' answers help.

pub use pandofs_session::Boottime;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// This moment.
pub fn now() -> Boottime {
    // The kernel gives no negative time since the start, nor nanoseconds beyond a second.
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Boottime::after_start(Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds))
}

/// The time since then; 0 if it is still to come.
pub fn elapsed(since: Boottime) -> Duration {
    now().saturating_duration_since(since)
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
        let moment = now() + Duration::from_millis(10);
        assert!(before <= moment);
        assert!(moment <= uptime() + Duration::from_millis(30));
        assert!(elapsed(moment) < Duration::from_secs(60));
    }
}
