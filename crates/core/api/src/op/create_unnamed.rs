//! Create without a name (`O_TMPFILE`).

use super::Operation;
use pandofs_types::{Ino, Position};
use serde::{Deserialize, Serialize};

/// Makes a file that has no name and opens it for the session, which keeps it: it is gone when it is
/// closed, unless it was given a name. Sent to the shard that holds the partition of this position of the
/// directory, by which its inode is placed like that of a name there. With `may_be_named` it may be
/// linked as long as it never was. Answers `Entry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateUnnamed {
    /// The directory whose access control list and group it inherits.
    pub dir: Ino,
    /// Drawn by the client.
    pub at: Position,
    /// Permission bits, 0o7777 at most, before `umask` and inheritance.
    pub mode: u16,
    /// As in `Create`.
    pub umask: u16,
    /// False with `O_EXCL`: then `linkat` refuses it.
    pub may_be_named: bool,
}

impl Operation for CreateUnnamed {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}
