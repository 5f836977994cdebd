//! Report of what was written to a file's data objects.

use super::{Change, Operation};
use pandofs_types::{Ino, Time};
use serde::{Deserialize, Serialize};

/// Data objects were written from byte `start` of the file on, and up to `end` (0: nothing grew).
/// `sparse`: that may have left holes, or space beyond the file's end. `truncations`: the data objects had followed so
/// many [truncations](crate::InodeReply::truncations) then. If there was another since, it took away what was written, and nothing is
/// changed. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WroteData {
    /// A striped file.
    pub ino: Ino,
    /// Offset in the file, bytes.
    pub start: u64,
    /// Offset in the file, bytes.
    pub end: u64,
    /// Time of the last of the writes, by the client's clock.
    pub mtime: Time,
    /// Whether space is to be asked of the data objects from now on.
    pub sparse: bool,
    /// The count that the writes went by.
    pub truncations: u32,
}

impl Operation for WroteData {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Inode(self.ino)]
    }
}
