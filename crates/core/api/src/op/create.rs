//! Create: a file, symbolic link, fifo, socket or device.

use super::{Change, Operation};
use crate::request::NewNode;
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Makes what is no directory; `Exists` if the name is taken. With `open` the file is also opened
/// by the session. Answers `Entry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The directory that the name is made in.
    pub dir: Ino,
    /// The name to make; no entry may have it.
    pub name: Name,
    /// Kind, with what only this kind has.
    pub node: NewNode,
    /// Permission bits, 0o7777 at most, before `umask` and inheritance.
    pub mode: u16,
    /// Taken off the mode where no access control list is inherited.
    pub umask: u16,
    /// Whether the session has the new file open from the answer on.
    pub open: bool,
}

impl Operation for Create {
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
