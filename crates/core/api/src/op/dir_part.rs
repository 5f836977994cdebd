//! One shard's part of a directory's attributes.

use super::Operation;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// This shard's part of the directory's attributes. Answers `Part`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirPart {
    /// The directory, of which this shard has a partition or is the home.
    pub dir: Ino,
}

impl Operation for DirPart {
    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn lists(&self) -> Option<(Ino, Position)> {
        Some((self.dir, Position::FIRST))
    }
}
