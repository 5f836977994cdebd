//! Mkdir.

use super::{Change, Operation};
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Answers `Entry`. The new directory inherits the parent's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mkdir {
    /// The parent.
    pub dir: Ino,
    /// The name to make; no entry may have it.
    pub name: Name,
    /// Permission bits, 0o7777 at most, before `umask` and inheritance.
    pub mode: u16,
    /// As in `Create`.
    pub umask: u16,
}

impl Operation for Mkdir {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn answers_name(&self) -> Option<(Ino, &Name)> {
        Some((self.dir, &self.name))
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Name(self.dir, &self.name)]
    }
}
