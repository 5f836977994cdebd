//! Oracles of a run, one a file, beside those of `fsck` (`pandofs_check`).

mod attributes;
mod contents;
pub(crate) mod early;
mod file_locks;
mod linearizable;
mod locks;
pub(crate) mod maps;
mod numbers;
mod opens;
mod preserved;
mod replayed;
mod rights;
mod survives;
mod xattr_values;

use crate::client::Client;
use crate::history::History;
use crate::scenario::Shape;
use crate::server::Server;
use numbers::Numbers;
use pandofs_api::Reply;
use pandofs_check::{ClusterDump, Tables};
use preserved::Preserved;
use std::fmt;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The oracle that found it.
    pub oracle: String,
    /// With the moment, and the names and numbers that it is about.
    pub what: String,
}

impl Finding {
    /// The oracle that finds it looks at nothing after it.
    pub fn new(oracle: &str, what: String) -> Finding {
        Finding {
            oracle: oracle.to_owned(),
            what,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}

/// The oracles that look at a run from time to time.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    preserved: Preserved,
    numbers: Numbers,
    /// If a server joined.
    placed: Option<maps::Before>,
}

impl Moments {
    /// All servers run; this is what they have stored now.
    pub(crate) fn look(
        &mut self,
        dump: &ClusterDump,
        servers: &[Server],
        clients: &[Client],
        history: &History,
    ) -> Result<(), Finding> {
        let tables = Tables::decode(dump, &mut Vec::new());
        opens::check(&tables, clients, history)?;
        if let Some(problem) = pandofs_check::check_moment(&tables).first() {
            return Err(Finding::new(problem.oracle, problem.to_string()));
        }
        self.preserved.look(&tables, servers, history)
    }

    /// A server came back without what it had not synced.
    pub(crate) fn forget(&mut self) {
        self.preserved.forget();
    }

    /// After each batch of a server.
    pub(crate) fn locks(&self, server: &Server) -> Result<(), Finding> {
        locks::check(server)
    }

    /// After each answer to a client.
    pub(crate) fn file_locks(&self, clients: &[&Client]) -> Result<(), Finding> {
        file_locks::check(clients)
    }

    /// A client was told this.
    pub(crate) fn told(&mut self, reply: &Reply) -> Result<(), Finding> {
        self.numbers.told(reply)
    }

    /// A server has started.
    pub(crate) fn survived(&self, server: &Server) -> Result<(), Finding> {
        survives::check(server)
    }

    /// Servers have joined, and all servers have come to go by the newest map.
    pub(crate) fn all_go_by_newest(&mut self, dump: &ClusterDump) {
        self.placed = Some(maps::Before::of(dump));
    }

    /// Everything is at rest. Returns the number of directories that were made on servers that had joined.
    pub(crate) fn placed(&self, dump: &ClusterDump, shape: &Shape) -> Result<u64, Finding> {
        let placed = self.placed.as_ref();
        placed.map_or(Ok(0), |before| before.check(dump, shape))
    }

    /// Everything is at rest, and `fsck` finds nothing.
    pub(crate) fn end(
        &mut self,
        dump: &ClusterDump,
        servers: &[Server],
        clients: &[Client],
        history: &mut History,
    ) -> Result<(), Finding> {
        let tables = Tables::decode(dump, &mut Vec::new());
        self.preserved.look(&tables, servers, history)?;
        for (_, dir) in tables.parts.keys() {
            for client in clients {
                let map = client.map_of(*dir);
                pandofs_check::probes(&tables, *dir, &map, usize::MAX)
                    .map_err(|text| Finding::new("routes", format!("directory {dir}: {text}")))?;
            }
        }
        linearizable::check(&tables, history)?;
        attributes::check(history)?;
        rights::check(history)?;
        xattr_values::check(history)?;
        contents::check(&history.contents)?;
        replayed::check(servers)
    }
}
