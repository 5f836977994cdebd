//! Closes, and opens that a restarted server is told of again.

use super::Operation;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// The session has closed these, once for each time it stands here. Answers `Done`, or `NotClosed` with
/// those that another shard is to be told of. Inodes that are not known are skipped. Not recorded in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Files, one that was closed twice also twice.
    pub inos: Vec<Ino>,
}

impl Operation for Release {
    fn needs_map(&self) -> bool {
        false
    }
}

/// After the server restarted: the session still has these open, this many times each. Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopen {
    /// Inode and number of opens.
    pub opens: Vec<(Ino, u32)>,
}

impl Operation for Reopen {
    fn is_remembered(&self) -> bool {
        true
    }

    fn needs_map(&self) -> bool {
        false
    }
}
