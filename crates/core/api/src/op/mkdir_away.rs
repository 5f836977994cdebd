//! Mkdir_away: a directory whose home is another shard, made by its session before servers hear of it.

use super::{Change, Mkdir, Operation};
use pandofs_placement::Placing;
use pandofs_types::{Ino, Name, Time};
use serde::{Deserialize, Serialize};

/// As `Mkdir`, with what the session has chosen when it executed it on its images of both shards. Sent to the shard of the
/// name. Answers `Entry`; `Invalid` if the policy leads elsewhere, or the number is not the session's to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MkdirAway {
    /// Of the grants of the shard under which it was executed: nothing is done if these are over.
    pub incarnation: u64,
    /// As the program asked for it.
    pub mkdir: Mkdir,
    /// By the clock of the name's server, as far as the session knows it.
    pub time: Time,
    /// Drawn by the session, as a shard draws one for each record.
    pub random: u64,
    /// Placement by which the session went where the policy follows the load.
    pub placing: Option<Placing>,
    /// Number of the directory, of those of its home that the session may use in any order.
    pub ino: Ino,
}

impl Operation for MkdirAway {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dir(&self) -> Option<Ino> {
        self.mkdir.dir()
    }

    fn answers_name(&self) -> Option<(Ino, &Name)> {
        self.mkdir.answers_name()
    }

    fn changes(&self) -> Vec<Change<'_>> {
        self.mkdir.changes()
    }
}
