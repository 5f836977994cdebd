//! What the servers have, as far as they have told.

use pandofs_placement::ServerLoad;
use pandofs_types::ServerId;
use std::collections::BTreeMap;

/// Of the requests of late this part is forgotten each time that the new ones are counted: with `LOADS_INTERVAL` half
/// of them in about 20 s.
const FORGOTTEN: u64 = 64;

/// What one server knows of itself and the others.
#[derive(Debug, Default)]
pub struct Loads {
    told: BTreeMap<ServerId, ServerLoad>,
    /// Requests of late, each counted [`FORGOTTEN`] times, so that few are forgotten too.
    recent: u64,
    /// Requests ever, when they were last counted.
    counted: u64,
}

impl Loads {
    /// Takes what a server has told.
    pub fn told(&mut self, server: ServerId, load: ServerLoad) {
        self.told.insert(server, load);
    }

    /// What each server has told last.
    pub fn all(&self) -> BTreeMap<ServerId, ServerLoad> {
        self.told.clone()
    }

    /// Counts this server's own requests; `ever`: since its start.
    pub fn count(&mut self, ever: u64) {
        self.recent -= self.recent.div_ceil(FORGOTTEN);
        self.recent += (ever - self.counted).saturating_mul(FORGOTTEN);
        self.counted = ever;
    }

    /// This server's requests of late, about.
    pub fn of_late(&self) -> u64 {
        self.recent / FORGOTTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_requests_count_less_and_less() {
        let mut loads = Loads::default();
        loads.count(1_000);
        assert_eq!(loads.of_late(), 1_000);
        for _ in 0..44 {
            loads.count(1_000);
        }
        assert!((490..510).contains(&loads.of_late()), "{}", loads.of_late());
        for _ in 0..2_000 {
            loads.count(1_000);
        }
        assert_eq!(loads.of_late(), 0);
        // As many again and again: those of the last 64 times count.
        for times in 1..=1_000 {
            loads.count(1_000 + times * 10);
        }
        assert!(
            (600..=640).contains(&loads.of_late()),
            "{}",
            loads.of_late()
        );
    }

    #[test]
    fn a_server_is_known_by_what_it_told_last() {
        let mut loads = Loads::default();
        let load = |objects| ServerLoad {
            objects,
            requests: 2,
        };
        loads.told(ServerId(3), load(7));
        loads.told(ServerId(3), load(8));
        loads.told(ServerId(1), load(9));
        let all: Vec<_> = loads.all().into_iter().collect();
        assert_eq!(all, [(ServerId(1), load(9)), (ServerId(3), load(8))]);
    }
}
