//! Open_name: a file opened by a name in a directory.

use super::{Change, Operation};
use pandofs_types::{Ino, Name, NewMode};
use serde::{Deserialize, Serialize};

/// Looks up a name and opens what it leads to, as `Open` does, if that is a regular file on the same shard. With `create` it
/// makes a regular file, as `Create` does, if nothing has the name. Answers `Entry`, with the inode if it is open now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenName {
    /// The directory that the name is in.
    pub dir: Ino,
    /// The name of the file.
    pub name: Name,
    /// The rights that the caller needs (4 read, 2 write, 1 execute).
    pub access: u16,
    /// Permission bits of the file that is made, if one is to be. Its maker may open it whatever they are.
    pub create: Option<NewMode>,
}

/// With `create` it is a mutation, also where it finds the file: only the shard knows.
impl Operation for OpenName {
    fn is_mutation(&self) -> bool {
        self.create.is_some()
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let made = self.create.map(|_| Change::Name(self.dir, &self.name));
        made.into_iter().collect()
    }

    fn is_remembered(&self) -> bool {
        true
    }
}
