//! Lookup: what a name leads to.

use super::Operation;
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Answers [`crate::Reply::Entry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Together they say which partition, and so which shard, is asked.
    pub dir: Ino,
    /// Together they say which partition, and so which shard, is asked.
    pub name: Name,
}

impl Operation for Lookup {
    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn answers_name(&self) -> Option<(Ino, &Name)> {
        Some((self.dir, &self.name))
    }
}
