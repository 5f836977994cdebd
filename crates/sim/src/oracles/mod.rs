//! What must hold of a run, beside what `fsck`'s oracles say of what is stored (`pandofs_check`): one oracle, one file.

mod linearizable;
mod survives;

use crate::client::Client;
use crate::history::History;
use crate::server::Server;
use pandofs_check::ClusterDump;
use std::fmt;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The oracle that found it.
    pub oracle: String,
    pub what: String,
}

impl Finding {
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
pub struct Moments {}

impl Moments {
    /// All servers run; this is what they have stored now.
    pub fn look(
        &mut self,
        _dump: &ClusterDump,
        _servers: &[Server],
        _history: &History,
    ) -> Result<(), Finding> {
        Ok(())
    }

    /// A server came back without what it had not forced.
    pub fn forget(&mut self) {}

    /// After each batch of a server.
    pub fn locks(&self, _server: &Server) -> Result<(), Finding> {
        Ok(())
    }

    /// A server has started.
    pub fn survived(&self, server: &Server) -> Result<(), Finding> {
        survives::check(server)
    }

    /// Everything is at rest.
    pub fn end(
        &mut self,
        dump: &ClusterDump,
        _clients: &[Client],
        history: &mut History,
    ) -> Result<(), Finding> {
        linearizable::check(dump, history)
    }
}
