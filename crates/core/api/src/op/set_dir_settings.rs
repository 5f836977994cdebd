//! Settings of a directory.

use super::{Change, Operation};
use crate::request::DirSettings;
use pandofs_types::Ino;
use serde::{Deserialize, Serialize};

/// Sets `Some` fields; `initial_partitions` also splits the directory itself up to that number.
/// Sent to the home. Answers `Inode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDirSettings {
    /// The directory whose settings change; what is in it already keeps its own.
    pub dir: Ino,
    /// The changes; `None` leaves a setting as it is.
    pub settings: DirSettings,
}

impl Operation for SetDirSettings {
    fn is_mutation(&self) -> bool {
        true
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        [Some(self.dir), None]
    }

    fn changes(&self) -> Vec<Change<'_>> {
        vec![Change::Dir(self.dir)]
    }
}
