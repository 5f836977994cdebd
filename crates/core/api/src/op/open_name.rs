//! Open_name: a file opened by a name in a directory.

use super::Operation;
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Looks up a name and opens what it leads to, as `Open` does, if that is a regular file on the same shard. Answers
/// `Entry`, with the inode if it is open now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenName {
    /// The directory that the name is in.
    pub dir: Ino,
    /// The name of the file.
    pub name: Name,
    /// The rights that the caller needs (4 read, 2 write, 1 execute).
    pub access: u16,
}

impl Operation for OpenName {
    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn is_remembered(&self) -> bool {
        true
    }
}
