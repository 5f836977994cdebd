//! Link: a further name for a file.

use super::{Change, Operation, Places};
use pandofs_types::{Ino, Name, ShardId};
use serde::{Deserialize, Serialize};

/// A further name for `ino`, whose inode is believed to be on `inode_shard`. Answers `Entry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The directory that the new name is made in.
    pub dir: Ino,
    /// The new name; no entry may have it.
    pub name: Name,
    /// The inode that it is to lead to; no directory.
    pub ino: Ino,
    /// A wrong guess is found out by the step that goes there.
    pub inode_shard: ShardId,
}

impl Operation for Link {
    fn inode(&self) -> Option<Ino> {
        Some(self.ino)
    }

    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn answers_name(&self) -> Option<(Ino, &Name)> {
        Some((self.dir, &self.name))
    }

    fn aim(&mut self, places: &dyn Places) {
        self.inode_shard = places.shard_of_inode(self.ino);
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Name(self.dir, &self.name), Change::Inode(self.ino)]
    }
}
