//! The server's wall clock: its one use of it.

use pandofs_types::Time;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, which here never goes back: a record must not be older than the one before it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Time,
}

impl Clock {
    pub(crate) fn now(&mut self) -> Time {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // Nanoseconds fit until 2262.
        let read = Time(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX));
        self.advance(read)
    }

    fn advance(&mut self, read: Time) -> Time {
        self.last = self.last.max(read);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let mut clock = Clock::default();
        assert_eq!(clock.advance(Time(5)), Time(5));
        assert_eq!(clock.advance(Time(3)), Time(5));
        assert_eq!(clock.advance(Time(6)), Time(6));
        assert!(clock.now() > Time(6));
    }
}
