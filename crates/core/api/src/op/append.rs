//! Writes at the end of a file.

use super::{Change, Operation};
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// As `WriteInline`, at the file's end, wherever that is when this is executed: the answer's size
/// is where the data ends. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendInline {
    /// A file kept inline.
    pub ino: Ino,
    /// The bytes to append.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

impl Operation for AppendInline {
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

/// Makes a striped file `length` bytes longer and gives them to the client, which writes them to
/// the data objects: they end at the answer's size. `Refusal::NotInline` if the file is not
/// striped. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// A striped file.
    pub ino: Ino,
    /// Bytes.
    pub length: u64,
}

impl Operation for Extend {
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
