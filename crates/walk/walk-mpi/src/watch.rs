//! Watch for processes that are silent for too long. Time comes in from outside.

use std::time::Duration;

/// State of the processes that one process watches.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: Duration,
    /// When it looked last.
    looked: Duration,
    /// By rank, the time of its last message; nothing of those that are not watched.
    heard: Vec<Option<Duration>>,
}

impl Watch {
    /// Of so many ranks these are watched. Begins at time 0.
    pub(crate) fn new(ranks: u32, watched: impl Fn(u32) -> bool, limit: Duration) -> Watch {
        Watch {
            limit,
            looked: Duration::ZERO,
            heard: (0..ranks)
                .map(|rank| watched(rank).then_some(Duration::ZERO))
                .collect(),
        }
    }

    /// Something has come from this rank.
    pub(crate) fn heard(&mut self, rank: u32, now: Duration) {
        if let Some(Some(heard)) = self.heard.get_mut(rank as usize) {
            *heard = now;
        }
    }

    /// It has come to its end, and nothing more will come.
    pub(crate) fn ended(&mut self, rank: u32) {
        if let Some(heard) = self.heard.get_mut(rank as usize) {
            *heard = None;
        }
    }

    /// Returns whether all have.
    pub(crate) fn have_all_ended(&self) -> bool {
        self.heard.iter().all(Option::is_none)
    }

    /// The first one that was silent for longer than the limit. To be asked when all that has come
    /// was taken up.
    pub(crate) fn missed(&mut self, now: Duration) -> Option<u32> {
        let away = now.saturating_sub(self.looked);
        self.looked = now;
        if away > self.limit / 2 {
            // It was this process that did not run: it was stopped, or its machine was. Messages
            // that others sent may come yet.
            self.heard.iter_mut().flatten().for_each(|it| *it = now);
            return None;
        }
        let is_silent = |heard: &Option<Duration>| {
            heard.is_some_and(|heard| now.saturating_sub(heard) > self.limit)
        };
        self.heard.iter().position(is_silent).map(|it| it as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn who_is_silent_for_too_long_is_missed() {
        let mut watch = Watch::new(4, |rank| rank != 0, seconds(10));
        for now in 1..=10 {
            assert_eq!(watch.missed(seconds(now)), None);
            watch.heard(1, seconds(now));
            watch.heard(3, seconds(now));
        }
        assert_eq!(watch.missed(seconds(11)), Some(2));
        watch.heard(2, seconds(11));
        assert_eq!(watch.missed(seconds(12)), None, "it was only late");
    }

    #[test]
    fn who_has_ended_is_not_missed() {
        let mut watch = Watch::new(3, |rank| rank != 0, seconds(2));
        watch.ended(1);
        assert!(!watch.have_all_ended());
        assert_eq!(watch.missed(seconds(1)), None);
        assert_eq!(watch.missed(seconds(2)), None);
        assert_eq!(watch.missed(seconds(3)), Some(2));
        watch.ended(2);
        assert!(watch.have_all_ended());
        assert_eq!(watch.missed(seconds(4)), None);
    }

    #[test]
    fn who_was_stopped_itself_misses_nobody() {
        let mut watch = Watch::new(2, |rank| rank == 0, seconds(10));
        assert_eq!(watch.missed(seconds(5)), None);
        assert_eq!(watch.missed(seconds(1_000)), None);
        for now in 1_001..=1_010 {
            assert_eq!(watch.missed(seconds(now)), None);
        }
        assert_eq!(watch.missed(seconds(1_011)), Some(0));
    }
}
