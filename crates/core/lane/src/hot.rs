//! Hot directories: those that are asked for most of late, counted in a table of fixed size.
//!
//! The table is that of Metwally et al., "Efficient Computation of Frequent and Top-k Elements in Data Streams" (ICDT
//! 2005): a directory that is not in it takes the place of the one with the smallest count, which it takes over as the
//! most that it may be wrong by. All counts are halved again and again, so that they are of late.

use pandofs_api::HotDir;
use pandofs_types::limits::MAX_HOT_DIRS;
use pandofs_types::{Ino, Steady};
use std::time::Duration;

/// From one halving of the counts to the next.
const PERIOD: Duration = Duration::from_secs(2);

/// Counts of one server.
#[derive(Debug, Default)]
pub(crate) struct HotDirs {
    counts: Vec<Count>,
    /// When they were halved last.
    since: Steady,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    dir: Ino,
    count: u64,
    /// Of these, so many may be of others.
    doubtful: u64,
}

impl HotDirs {
    /// A directory was asked for so many times.
    pub(crate) fn count(&mut self, dir: Ino, times: u64) {
        let mut least = 0;
        for at in 0..self.counts.len() {
            if self.counts[at].dir == dir {
                self.counts[at].count += times;
                return;
            }
            if self.counts[at].count < self.counts[least].count {
                least = at;
            }
        }
        let new = |doubtful: u64| Count {
            dir,
            count: doubtful + times,
            doubtful,
        };
        if self.counts.len() < MAX_HOT_DIRS {
            self.counts.push(new(0));
        } else {
            self.counts[least] = new(self.counts[least].count);
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Steady) {
        let passed = now.since(self.since);
        let halvings = passed.as_nanos() / PERIOD.as_nanos();
        if halvings == 0 {
            return;
        }
        // A server that stood still for so long has nothing of late.
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        for count in &mut self.counts {
            count.count = count.count.checked_shr(halvings).unwrap_or(0);
            count.doubtful = count.doubtful.checked_shr(halvings).unwrap_or(0);
        }
        self.counts.retain(|count| count.count > 0);
        self.since = self.since.after(PERIOD.saturating_mul(halvings));
    }

    /// The directories that are surely asked for, the hottest first.
    pub(crate) fn hottest(&self, now: Steady) -> Vec<HotDir> {
        // Where n come in each period, n are left after a halving.
        let weight = (PERIOD + now.since(self.since).min(PERIOD)).as_millis() as u64;
        let rate = |count: &Count| HotDir {
            dir: count.dir,
            per_second: (count.count - count.doubtful) * 1_000 / weight,
        };
        let mut hot: Vec<HotDir> = self.counts.iter().map(rate).collect();
        hot.retain(|hot| hot.per_second > 0);
        hot.sort_by_key(|hot| (std::cmp::Reverse(hot.per_second), hot.dir));
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Steady {
        Steady(0).after(Duration::from_millis(milliseconds))
    }

    /// Asks for each of these so many times in each tenth of a second.
    fn asked(hot: &mut HotDirs, from: u64, until: u64, dirs: &[(u64, u64)]) {
        for tenth in from / 100..until / 100 {
            hot.tick(at(tenth * 100));
            for &(dir, times) in dirs {
                hot.count(Ino(dir), times);
            }
        }
        hot.tick(at(until));
    }

    fn rates(hot: &HotDirs, now: u64) -> Vec<(u64, u64)> {
        let hottest = hot.hottest(at(now)).into_iter();
        hottest.map(|hot| (hot.dir.0, hot.per_second)).collect()
    }

    #[test]
    fn rates_are_those_at_which_directories_are_asked_for() {
        let mut hot = HotDirs::default();
        asked(&mut hot, 0, 40_000, &[(1, 10), (2, 200)]);
        let found = rates(&hot, 40_000);
        assert_eq!(found[0].0, 2);
        assert!((1_990..=2_000).contains(&found[0].1), "{found:?}");
        assert!((90..=100).contains(&found[1].1), "{found:?}");
        // Not only just after a halving.
        asked(&mut hot, 40_000, 41_000, &[(1, 10), (2, 200)]);
        let found = rates(&hot, 41_000);
        assert!((1_950..=2_050).contains(&found[0].1), "{found:?}");
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let mut hot = HotDirs::default();
        asked(&mut hot, 0, 20_000, &[(1, 100)]);
        hot.tick(at(30_000));
        let left = rates(&hot, 30_000)[0].1;
        assert!((20..40).contains(&left), "{left}");
        hot.tick(at(300_000));
        assert_eq!(rates(&hot, 300_000), []);
        assert!(hot.counts.is_empty());
    }

    #[test]
    fn a_hot_directory_is_found_among_many_others_and_none_is_told_more_than_it_has() {
        let mut hot = HotDirs::default();
        let mut counted = vec![0; 1_000];
        for number in 0..100_000_u64 {
            let dir = match number % 4 {
                0 => 5,
                _ => 10 + number * 7 % 990,
            };
            counted[dir as usize] += 1;
            hot.count(Ino(dir), 1);
        }
        assert_eq!(hot.counts.len(), MAX_HOT_DIRS);
        let found = rates(&hot, 0);
        assert_eq!(found[0].0, 5);
        for (dir, rate) in found {
            let true_rate = counted[dir as usize] / PERIOD.as_secs();
            assert!(rate <= true_rate, "{dir}: {rate} of {true_rate}");
        }
    }

    #[test]
    fn a_count_that_is_as_large_as_can_be_wraps_nowhere() {
        let mut hot = HotDirs::default();
        hot.count(Ino(1), 1 << 50);
        assert_eq!(rates(&hot, 0), [(1, 1 << 49)]);
    }

    #[test]
    fn of_a_full_table_the_first_of_the_coldest_gives_way() {
        let mut hot = HotDirs::default();
        let most = MAX_HOT_DIRS as u64;
        for dir in 1..=most {
            hot.count(Ino(dir), 3);
        }
        for dir in [1, 3] {
            hot.count(Ino(dir), 1);
        }
        hot.count(Ino(99), 2);
        let known = |of: &HotDirs| -> Vec<(u64, u64, u64)> {
            let counts = of.counts.iter().take(4);
            counts
                .map(|count| (count.dir.0, count.count, count.doubtful))
                .collect()
        };
        assert_eq!(known(&hot), [(1, 4, 0), (99, 5, 3), (3, 4, 0), (4, 3, 0)]);
        assert_eq!(hot.counts.len(), MAX_HOT_DIRS);
    }

    #[test]
    fn those_that_are_asked_for_equally_are_told_in_order_and_rare_ones_not_at_all() {
        let mut hot = HotDirs::default();
        for (dir, times) in [(4, 2), (3, 8), (2, 1), (1, 8)] {
            hot.count(Ino(dir), times);
        }
        assert_eq!(rates(&hot, 0), [(1, 4), (3, 4), (4, 1)]);
        // In the middle of a period, and where no tick came at its end.
        assert_eq!(rates(&hot, 2_000), [(1, 2), (3, 2)]);
        assert_eq!(rates(&hot, 9_000), [(1, 2), (3, 2)]);
        hot.tick(at(1_999));
        assert_eq!(rates(&hot, 1_999).len(), 2);
        hot.tick(at(5_000));
        let counts: Vec<_> = hot.counts.iter().map(|count| count.count).collect();
        assert_eq!((counts, hot.since), (vec![2, 2], at(4_000)));
    }
}
