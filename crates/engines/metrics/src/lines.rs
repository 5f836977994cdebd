//! Limit to the lines of a log: of many alike only some are said, and how many were not.

use std::time::{Duration, Instant};

/// Lines of one kind that were said of late.
#[derive(Clone, Copy, Debug)]
pub struct LineLimit {
    /// So many are said in each period.
    most: u32,
    period: Duration,
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl LineLimit {
    /// At most so many in each period, which begins with its first line.
    pub fn new(most: u32, period: Duration) -> LineLimit {
        LineLimit {
            most,
            period,
            since: None,
            said: 0,
            left_out: 0,
        }
    }

    /// Whether a line may be said now.
    pub fn may_say(&mut self, now: Instant) -> bool {
        self.begin_if_over(now);
        if self.said >= self.most {
            self.left_out += 1;
            return false;
        }
        self.since.get_or_insert(now);
        self.said += 1;
        true
    }

    /// Lines that were left out in a period that is over, if that was not told yet.
    pub fn take_left_out(&mut self, now: Instant) -> Option<u64> {
        self.begin_if_over(now);
        if self.since.is_some() || self.left_out == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }

    fn begin_if_over(&mut self, now: Instant) {
        let is_over = |since| now.saturating_duration_since(since) >= self.period;
        if self.since.is_some_and(is_over) {
            self.since = None;
            self.said = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_said_in_a_period_and_the_rest_is_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut lines = LineLimit::new(2, Duration::from_secs(10));
        assert_eq!(lines.take_left_out(at(0)), None);
        let said: Vec<bool> = [0, 1, 2, 9].map(|when| lines.may_say(at(when))).into();
        assert_eq!(said, [true, true, false, false]);
        assert_eq!(lines.take_left_out(at(9)), None, "the period is not over");
        assert_eq!(lines.take_left_out(at(10)), Some(2));
        assert_eq!(lines.take_left_out(at(10)), None);
        assert!(lines.may_say(at(11)) && lines.may_say(at(20)) && !lines.may_say(at(20)));
        assert!(lines.may_say(at(21)));
        // In the new period it is told of the one before once that is over.
        assert_eq!(lines.take_left_out(at(21)), None);
        assert_eq!(lines.take_left_out(at(31)), Some(1));
    }
}
