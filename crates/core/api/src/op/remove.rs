//! Unlink and rmdir.

use super::{Change, Operation};
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Answers `Removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlink {
    /// The directory that the name is in.
    pub dir: Ino,
    /// The name to take away; it leads to no directory.
    pub name: Name,
}

impl Operation for Unlink {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Name(self.dir, &self.name)]
    }

    fn takes_names(&self) -> bool {
        true
    }
}

/// Answers `Removed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rmdir {
    /// The directory that the name is in.
    pub dir: Ino,
    /// The name to take away; it leads to an empty directory.
    pub name: Name,
}

impl Operation for Rmdir {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Name(self.dir, &self.name)]
    }

    fn takes_names(&self) -> bool {
        true
    }
}
