//! Counts of the servers' work during a measurement.

use crate::admin;
use pandofs_placement::ClusterMap;
use serde::Serialize;

/// Counted from one moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ServersWork {
    /// Of clients, to each server.
    pub requests: Vec<u64>,
    /// Operations that took more than one shard.
    pub distributed: u64,
    /// Between servers.
    pub messages: u64,
}

impl ServersWork {
    /// From the servers' start; `None` while one is away.
    pub(crate) fn so_far(map: &ClusterMap) -> Option<ServersWork> {
        let mut work = ServersWork {
            requests: Vec::new(),
            distributed: 0,
            messages: 0,
        };
        for view in admin::ask_all(map) {
            let status = view.status.ok()?;
            work.requests.push(status.requests);
            work.distributed += status.distributed;
            work.messages += status.peer_messages;
        }
        Some(work)
    }

    /// Since then; `None` if a server was started meanwhile.
    pub(crate) fn since(&self, then: &ServersWork) -> Option<ServersWork> {
        let pairs = self.requests.iter().zip(&then.requests);
        Some(ServersWork {
            requests: pairs
                .map(|(now, then)| now.checked_sub(*then))
                .collect::<Option<_>>()?,
            distributed: self.distributed.checked_sub(then.distributed)?,
            messages: self.messages.checked_sub(then.messages)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_anew_is_not_known() {
        let work = |requests: [u64; 2], distributed, messages| ServersWork {
            requests: requests.to_vec(),
            distributed,
            messages,
        };
        let then = work([10, 20], 3, 9);
        let now = work([15, 20], 4, 12);
        assert_eq!(now.since(&then), Some(work([5, 0], 1, 3)));
        assert_eq!(work([15, 2], 4, 12).since(&then), None);
    }
}
