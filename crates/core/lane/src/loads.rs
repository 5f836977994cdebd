//! Loads of the servers, as far as they have reported them.

use pandofs_placement::{RecentRequests, ServerLoad};
use pandofs_types::ServerId;
use std::collections::BTreeMap;

/// Loads of one server and the others.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    reports: BTreeMap<ServerId, ServerLoad>,
    requests: RecentRequests,
}

impl Loads {
    /// Takes a server's report.
    pub(crate) fn report(&mut self, server: ServerId, load: ServerLoad) {
        self.reports.insert(server, load);
    }

    /// Last report of each server.
    pub(crate) fn all(&self) -> BTreeMap<ServerId, ServerLoad> {
        self.reports.clone()
    }

    /// Counts this server's own requests; `ever`: since its start.
    pub(crate) fn count(&mut self, ever: u64) {
        self.requests.count(ever);
    }

    /// This server's requests of late, about.
    pub(crate) fn of_late(&self) -> u64 {
        self.requests.of_late()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_last_report() {
        let mut loads = Loads::default();
        let load = |objects| ServerLoad {
            objects,
            requests: 2,
        };
        loads.report(ServerId(3), load(7));
        loads.report(ServerId(3), load(8));
        loads.report(ServerId(1), load(9));
        let all: Vec<_> = loads.all().into_iter().collect();
        assert_eq!(all, [(ServerId(1), load(9)), (ServerId(3), load(8))]);
    }

    #[test]
    fn a_server_counts_its_own_requests() {
        let mut loads = Loads::default();
        assert_eq!(loads.of_late(), 0);
        loads.count(5);
        assert_eq!(loads.of_late(), 5);
        loads.count(12);
        assert!((7..12).contains(&loads.of_late()), "old ones count less");
    }
}
