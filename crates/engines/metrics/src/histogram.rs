//! Histogram of times that threads fill and read without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Upper bounds, in nanoseconds, from what memory answers (10 µs) to what somebody waits for (10 s), each about two and
/// a half times the one before.
const BOUNDS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];
const NANOSECONDS: f64 = 1e9;

/// Times of something that happens again and again.
#[derive(Debug, Default)]
pub struct Histogram {
    /// How many were up to each bound and over the one before; the last: over all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Adds a time.
    pub fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|&bound| bound < nanoseconds);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        // Full after five centuries of waiting.
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds the time that has passed since then.
    pub fn add_since(&self, begun: Instant) {
        self.add(begun.elapsed());
    }

    /// How many times were added.
    pub fn count(&self) -> u64 {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Its present counts. While others fill it the sum may be of some more or some fewer than the counts.
    pub fn snapshot(&self) -> Snapshot {
        let counts = self.counts.iter();
        Snapshot {
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
        }
    }
}

/// Content of a [`Histogram`] at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    counts: Vec<u64>,
    nanoseconds: u64,
}

impl Snapshot {
    /// How many times were added.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all times in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / NANOSECONDS
    }

    /// Upper bounds in seconds, and how many were up to each and over the one before.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().map(|&bound| bound as f64 / NANOSECONDS);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self.counts.iter().copied().chain(std::iter::repeat(0));
        bounds.zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for nanoseconds in [0, 10_000, 10_001, 25_000, 10_000_000_000, 10_000_000_001] {
            histogram.add(Duration::from_nanos(nanoseconds));
        }
        let buckets = histogram.snapshot().buckets();
        assert_eq!(buckets.len(), BOUNDS.len() + 1);
        assert_eq!(buckets[0], (0.000_01, 2));
        assert_eq!(buckets[1], (0.000_025, 2));
        assert_eq!(buckets[18], (10.0, 1));
        assert_eq!(buckets[19], (f64::INFINITY, 1));
        assert_eq!(histogram.snapshot().count(), 6);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.snapshot().seconds(), 20.000_045_002);
    }

    #[test]
    fn bounds_grow() {
        assert!(BOUNDS.is_sorted());
        assert_eq!(Snapshot::default().buckets().len(), BOUNDS.len() + 1);
    }

    #[test]
    fn no_time_is_lost_that_several_threads_add() {
        const TIMES: u64 = 10_000;
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let histogram = &histogram;
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        histogram.add(Duration::from_micros(thread));
                    }
                });
            }
        });
        let all = histogram.snapshot();
        assert_eq!(all.count(), 4 * TIMES);
        assert_eq!(all.nanoseconds, 10 * 1_000 * TIMES);
    }
}
