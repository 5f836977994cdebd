//! Count of the requests that a server had of late.

/// Of the requests of late this part is forgotten each time that the new ones are counted: with `LOADS_INTERVAL` half
/// of them in about 20 s.
const FORGOTTEN: u64 = 64;

/// Counts requests so that old ones count less and less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentRequests {
    /// Requests of late, each counted [`FORGOTTEN`] times, so that few are forgotten too.
    recent: u64,
    /// Requests ever, when they were last counted.
    counted: u64,
}

impl RecentRequests {
    /// Takes how many there ever were. To be called once in each `LOADS_INTERVAL`.
    pub fn count(&mut self, ever: u64) {
        self.recent -= self.recent.div_ceil(FORGOTTEN);
        self.recent += (ever - self.counted).saturating_mul(FORGOTTEN);
        self.counted = ever;
    }

    /// Those of late, about.
    pub fn of_late(&self) -> u64 {
        self.recent / FORGOTTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_requests_count_less_and_less() {
        let mut requests = RecentRequests::default();
        requests.count(1_000);
        assert_eq!(requests.of_late(), 1_000);
        for _ in 0..44 {
            requests.count(1_000);
        }
        let half = requests.of_late();
        assert!((490..510).contains(&half), "{half}");
        for _ in 0..2_000 {
            requests.count(1_000);
        }
        assert_eq!(requests.of_late(), 0);
        // As many again and again: those of the last 64 times count.
        for times in 1..=1_000 {
            requests.count(1_000 + times * 10);
        }
        let steady = requests.of_late();
        assert!((600..=640).contains(&steady), "{steady}");
    }
}
