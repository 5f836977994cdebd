//! Setattr.

use super::{Change, Operation};
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Changes what is `Some`. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttr {
    /// The inode; a directory at its home.
    pub ino: Ino,
    /// The attributes to change, and their values.
    pub set: pandofs_types::SetAttr,
}

impl Operation for SetAttr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Dir(self.ino)]
    }

    // A time that is set would be overtaken by one that an operation under way brings.
    fn lists(&self) -> Option<(Ino, Position)> {
        self.set.mtime.map(|_| (self.ino, Position::FIRST))
    }

    fn changes_objects(&self) -> Option<Ino> {
        self.set.size.map(|_| self.ino)
    }
}
