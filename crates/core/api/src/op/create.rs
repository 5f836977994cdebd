//! Create: a file, symbolic link, fifo, socket or device.

use super::{Change, Operation};
use crate::request::NewNode;
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Makes what is no directory; `Exists` if the name is taken. With `open` the file is also opened
/// by the session. Answers `Entry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    pub dir: Ino,
    pub name: Name,
    pub node: NewNode,
    pub mode: u16,
    /// Taken off the mode where no access control list is inherited.
    pub umask: u16,
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
