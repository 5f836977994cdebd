//! Slowest operations of late.

use pandofs_api::SeenOperation;
use pandofs_types::limits::MAX_OPERATIONS_TOLD;
use std::time::{Duration, Instant};

/// An operation that ended before the last of these and the one at hand is not of late.
const PERIOD: Duration = Duration::from_secs(5);

/// An operation that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub came: Instant,
    pub took: Duration,
    /// With nothing yet in `ago`.
    pub seen: SeenOperation,
}

/// Those of this period and of the one before, the slowest of each.
#[derive(Debug)]
pub(crate) struct Slowest {
    since: Instant,
    this: Vec<Ended>,
    last: Vec<Ended>,
    /// The longest round of each.
    lag: [Duration; 2],
}

impl Slowest {
    pub(crate) fn new(now: Instant) -> Slowest {
        Slowest {
            since: now,
            this: Vec::new(),
            last: Vec::new(),
            lag: [Duration::ZERO; 2],
        }
    }

    fn turn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        if passed < PERIOD {
            return;
        }
        self.last = std::mem::take(&mut self.this);
        self.lag = [Duration::ZERO, self.lag[0]];
        if passed >= 2 * PERIOD {
            self.last.clear();
            self.lag = [Duration::ZERO; 2];
        }
        self.since = now;
    }

    /// An operation has ended that took so long; it is only looked at if it is one of the slowest.
    pub(crate) fn add(&mut self, now: Instant, took: Duration, ended: impl FnOnce() -> Ended) {
        self.turn(now);
        if self.this.len() >= MAX_OPERATIONS_TOLD {
            let times = self.this.iter().enumerate();
            let Some((least, fastest)) = times.min_by_key(|(_, ended)| ended.took) else {
                return;
            };
            if fastest.took >= took {
                return;
            }
            self.this.swap_remove(least);
        }
        self.this.push(ended());
    }

    /// A round of the server took so long: a request that came at its beginning waited for its end.
    pub(crate) fn round(&mut self, now: Instant, took: Duration) {
        self.turn(now);
        self.lag[0] = self.lag[0].max(took);
    }

    /// The longest round of late.
    pub(crate) fn lag(&self) -> Duration {
        self.lag[0].max(self.lag[1])
    }

    /// The slowest of late, the slowest first.
    pub(crate) fn read(&mut self, now: Instant) -> Vec<SeenOperation> {
        self.turn(now);
        let mut all: Vec<&Ended> = self.this.iter().chain(&self.last).collect();
        all.sort_by_key(|ended| std::cmp::Reverse(ended.took));
        all.truncate(MAX_OPERATIONS_TOLD);
        let told = |ended: &Ended| SeenOperation {
            ago: microseconds(now.saturating_duration_since(ended.came)),
            ..ended.seen.clone()
        };
        all.into_iter().map(told).collect()
    }
}

/// As they are told.
pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::SessionId;

    fn ended(came: Instant, milliseconds: u64) -> Ended {
        let took = Duration::from_millis(milliseconds);
        Ended {
            came,
            took,
            seen: SeenOperation {
                kind: "create".to_owned(),
                dir: None,
                name: None,
                ino: None,
                session: SessionId(1),
                ago: 0,
                took: microseconds(took),
                waits: None,
                parts: Vec::new(),
            },
        }
    }

    fn times(slowest: &mut Slowest, now: Instant) -> Vec<u64> {
        let read = slowest.read(now).into_iter();
        read.map(|seen| seen.took / 1_000).collect()
    }

    #[test]
    fn the_slowest_are_kept_for_a_while() {
        let start = Instant::now();
        let mut slowest = Slowest::new(start);
        for milliseconds in 1..=100 {
            let one = ended(start, milliseconds);
            slowest.add(start, one.took, || one);
        }
        let quick = Duration::from_millis(1);
        slowest.add(start, quick, || panic!("it is none of the slowest"));
        let wanted: Vec<u64> = (1..=100).rev().take(MAX_OPERATIONS_TOLD).collect();
        assert_eq!(times(&mut slowest, start), wanted);
        let later = start + PERIOD;
        let one = ended(later, 200);
        slowest.add(later, one.took, || one);
        let read = slowest.read(later);
        assert_eq!((read[0].took, read[1].took), (200_000, 100_000));
        assert_eq!((read[0].ago, read[1].ago), (0, 5_000_000));
        assert_eq!(times(&mut slowest, later + PERIOD), [200]);
        assert_eq!(times(&mut slowest, later + 2 * PERIOD), [0_u64; 0]);
    }

    #[test]
    fn the_longest_round_is_of_late() {
        let start = Instant::now();
        let mut slowest = Slowest::new(start);
        slowest.round(start, Duration::from_millis(5));
        slowest.round(start, Duration::from_millis(2));
        slowest.round(start + PERIOD, Duration::from_millis(1));
        assert_eq!(slowest.lag(), Duration::from_millis(5));
        slowest.round(start + 2 * PERIOD, Duration::from_millis(1));
        assert_eq!(slowest.lag(), Duration::from_millis(1));
    }
}
