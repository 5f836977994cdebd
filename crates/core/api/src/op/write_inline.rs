//! Write to a file that is kept inline.

use super::{Change, Operation};
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Writes to a file kept inline; `Refusal::NotInline` if it is not (any more) or the write would
/// end past the limit. Answers `Inode` (with an empty body).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteInline {
    /// A file kept inline.
    pub ino: Ino,
    /// Bytes; past the size a hole of zeros is left.
    pub offset: u64,
    /// The bytes to write.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

impl Operation for WriteInline {
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
