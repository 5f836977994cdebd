//! Allocation of space in a file that is kept inline (fallocate(2)).

use super::{Change, Operation};
use crate::Allocation;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Does this to `offset .. offset + length` of a file kept inline; `Refusal::NotInline` if it is
/// not (any more), or if the range is to have space and ends past the limit. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocate {
    /// A file kept inline.
    pub ino: Ino,
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Reserve, punch or zero.
    pub allocation: Allocation,
}

impl Operation for Allocate {
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
