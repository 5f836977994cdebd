//! Requests that name a directory by its path, to the shard that the path leads to.

use super::Operation;
use crate::path::{Above, PathName};
use pandofs_types::{Ino, Name};
use serde::{Deserialize, Serialize};

/// Looks up a name in the directory of a path, and asks no ancestor. Answers `Entry` as `Lookup` does, or `ByPath`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupPath {
    /// The directory.
    pub path: PathName,
    /// A name in it.
    pub name: Name,
}

impl Operation for LookupPath {}

/// Has a shard keep where a path leads that it has not known, as it was found by going through the directories. Answers
/// `Done`, also if it is not kept: because something has changed meanwhile, or may be changing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepPath {
    /// The path.
    pub path: PathName,
    /// The directory that it leads to.
    pub dir: Ino,
    /// What is above the directory.
    pub above: Above,
    /// As the shard said it when it did not know the path, before anything of this was looked up.
    pub seen: u64,
}

impl Operation for KeepPath {
    fn is_mutation(&self) -> bool {
        true
    }
}
