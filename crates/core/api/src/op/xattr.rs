//! Extended attributes.

use super::{Change, Operation};
use crate::request::XattrMode;
use pandofs_types::Ino;
use pandofs_types::limits::MAX_XATTR_VALUE_BYTES;
use serde::{Deserialize, Serialize};

/// Answers `Value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetXattr {
    /// The inode; a directory at its home.
    pub ino: Ino,
    /// With its prefix, as in `user.mime_type`.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
}

impl Operation for GetXattr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn max_answer_bytes(&self) -> usize {
        MAX_XATTR_VALUE_BYTES
    }
}

/// Answers `Names`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListXattr {
    /// The inode; a directory at its home.
    pub ino: Ino,
}

impl Operation for ListXattr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn max_answer_bytes(&self) -> usize {
        MAX_XATTR_VALUE_BYTES
    }
}

/// Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetXattr {
    /// The inode; a directory at its home.
    pub ino: Ino,
    /// With its prefix, as in `user.mime_type`.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// At most `MAX_XATTR_VALUE_BYTES`.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
    /// `Exists` or `NoAttribute` if the condition does not hold.
    pub mode: XattrMode,
}

impl Operation for SetXattr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Dir(self.ino)]
    }
}

/// Answers `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveXattr {
    /// The inode; a directory at its home.
    pub ino: Ino,
    /// With its prefix; `NoAttribute` if it is not there.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
}

impl Operation for RemoveXattr {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.ino), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Dir(self.ino)]
    }
}
