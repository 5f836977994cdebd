//! Rename.

use super::{Change, NewName, Operation, Places};
use pandofs_types::{Ino, Name, ShardId};
use serde::{Deserialize, Serialize};

/// Sent to the shard of the old name; `new_shard` is where the client believes the new name to
/// belong. Answers `Renamed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rename {
    /// Directory of the old name.
    pub dir: Ino,
    /// The old name.
    pub name: Name,
    /// Directory of the new name, which may be the same.
    pub new_dir: Ino,
    /// The new name; what it led to gives way if POSIX allows that.
    pub new_name: Name,
    /// A wrong guess is answered with `NewNameMisdirected`.
    pub new_shard: ShardId,
    /// `Exists` if the new name is taken (`RENAME_NOREPLACE`).
    pub no_replace: bool,
    /// The old name leads to a white-out afterwards: a character device of number 0:0.
    pub whiteout: bool,
}

impl Operation for Rename {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    fn new_name(&self) -> Option<NewName<'_>> {
        Some(NewName {
            dir: self.new_dir,
            name: &self.new_name,
            shard: self.new_shard,
        })
    }

    fn aim(&mut self, places: &dyn Places) {
        self.new_shard = places.shard_of_name(self.new_dir, &self.new_name);
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![
            Change::Name(self.dir, &self.name),
            Change::Name(self.new_dir, &self.new_name),
        ]
    }

    fn takes_names(&self) -> bool {
        true
    }
}
