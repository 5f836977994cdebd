//! Exchange (`RENAME_EXCHANGE`): two names change places.

use super::{Change, NewName, Operation, Places};
use pandofs_types::{Ino, Name, ShardId};
use serde::{Deserialize, Serialize};

/// Two names change places, whatever they lead to. Sent to the shard of the first; `new_shard` is
/// where the client believes the other one to belong. Answers `Exchanged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Directory of the first name.
    pub dir: Ino,
    /// The first name.
    pub name: Name,
    /// Directory of the other name, which may be the same.
    pub new_dir: Ino,
    /// The other name.
    pub new_name: Name,
    /// A wrong guess is answered with `NewNameMisdirected`.
    pub new_shard: ShardId,
}

impl Operation for Exchange {
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
