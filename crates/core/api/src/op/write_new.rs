//! Contents of a new file.

use super::{Change, Operation};
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Gives an empty file that is kept inline all of its bytes, from the first on. Bytes that do not fit inline the shard
/// writes to the file's first data object, and the file is striped when this is answered. `Refusal::NotInline` if the file
/// is not empty or not inline (any more), or if the bytes are more than a stripe unit. Answers `Inode` (with an empty body).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteNew {
    /// A file.
    pub ino: Ino,
    /// At most [`MAX_NEW_FILE_BYTES`](pandofs_types::limits::MAX_NEW_FILE_BYTES).
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

impl Operation for WriteNew {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Inode(self.ino)]
    }

    fn changes_objects(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
