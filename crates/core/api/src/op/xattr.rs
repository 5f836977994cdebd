//! Extended attributes.

use super::{Change, Operation};
use crate::request::XattrMode;
use pandofs_types::Ino;
use pandofs_types::limits::MAX_XATTR_VALUE_BYTES;
use serde::{Deserialize, Serialize};

/// Answers `Value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetXattr {
    pub ino: Ino,
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
    pub ino: Ino,
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
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
    pub ino: Ino,
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
