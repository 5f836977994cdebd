//! Rmdir_away: a directory whose home is another shard, removed by its session before servers hear of it.

use super::{Change, Operation, Rmdir};
use pandofs_types::{Ino, Time};
use serde::{Deserialize, Serialize};

/// As `Rmdir`, with what the session has chosen when it executed it on its images of both shards. Sent to the shard of the
/// name. Answers `Removed`; `Stale` if the name leads to another directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RmdirAway {
    /// Of the grants of the shard under which it was executed: nothing is done if these are over.
    pub incarnation: u64,
    /// The same of the directory's home: if those are over it is removed there as by any other session.
    pub home_incarnation: u64,
    /// As the program asked for it.
    pub rmdir: Rmdir,
    /// By the clock of the name's server, as far as the session knows it.
    pub time: Time,
    /// Drawn by the session for each operation that it has answered; nothing of a removal depends on it.
    pub random: u64,
    /// The directory, which was granted to the session and had no names.
    pub ino: Ino,
}

impl Operation for RmdirAway {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        self.rmdir.dir()
    }

    fn changes(&self) -> Vec<Change<'_>> {
        self.rmdir.changes()
    }

    fn takes_names(&self) -> bool {
        true
    }
}
