//! Times of access.

use super::Operation;
use pandofs_types::{AtimeRule, Ino, Time};
use serde::{Deserialize, Serialize};

/// The client has read these at these times, to tell what changes their times of access by `rule`.
/// Inodes that are not here are skipped. Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accessed {
    /// Inodes of the addressed shard, and the times at which they were read last.
    pub inos: Vec<(Ino, Time)>,
    /// The mount's rule: the shard writes a time only where it demands that.
    pub rule: AtimeRule,
}

impl Operation for Accessed {
    // The client learns times of access from the server.
    fn is_mutation(&self) -> bool {
        true
    }
}
