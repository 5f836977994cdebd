//! Loads of the servers, as far as they have reported them.

use pandofs_placement::{RecentRequests, ServerLoad};
use pandofs_types::ServerId;
use std::collections::BTreeMap;

/// Loads of one server and the others.
#[derive(Debug, Default)]
pub struct Loads {
    told: BTreeMap<ServerId, ServerLoad>,
    requests: RecentRequests,
}

impl Loads {
    /// Takes a server's report.
    pub fn told(&mut self, server: ServerId, load: ServerLoad) {
        self.told.insert(server, load);
    }

    /// Last report of each server.
    pub fn all(&self) -> BTreeMap<ServerId, ServerLoad> {
        self.told.clone()
    }

    /// Counts this server's own requests; `ever`: since its start.
    pub fn count(&mut self, ever: u64) {
        self.requests.count(ever);
    }

    /// This server's requests of late, about.
    pub fn of_late(&self) -> u64 {
        self.requests.of_late()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
