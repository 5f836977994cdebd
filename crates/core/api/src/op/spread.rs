//! Spread of a directory to servers that joined.

use super::Operation;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// The shard's partitions that are over the threshold split now, if there is a slot for what they give; for
/// [`SPREAD_TERM`] from now those that are to spread to servers that joined split before they are full, and what this
/// shard copies of the directory to others keeps to this rate. 0 for no limit. It is not logged: a shard that was
/// restarted has forgotten it. `Busy` while it has been told so of [`MAX_SPREAD_DIRS`] others. Answers `Done`.
///
/// [`SPREAD_TERM`]: pandofs_types::limits::SPREAD_TERM
/// [`MAX_SPREAD_DIRS`]: pandofs_types::limits::MAX_SPREAD_DIRS
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// A directory of which this shard has partitions.
    pub dir: Ino,
    /// Entries that may be copied in a second; 0 for no limit.
    pub entries_per_second: u32,
}

impl Operation for Spread {}
