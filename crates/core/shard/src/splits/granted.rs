//! Splits that wait for the end of a grant.
//!
//! A directory that one session has to itself is changed by batches of this session alone, so that more servers would make
//! nothing faster, and one that has split is granted to nobody. It splits when it is much larger, or when its grant has ended.

use crate::shard::Shard;
use pandofs_namespace::records::PartsRecord;
use pandofs_namespace::split;
use pandofs_placement::PartitionIndex;
use pandofs_types::Ino;
use pandofs_types::limits::GRANTED_SPLIT_FACTOR;

impl Shard {
    /// Whether the partition is not to be split before the directory's grant has ended. Then it is looked at again every now and
    /// then.
    pub(super) fn waits_for_grant(
        &mut self,
        dir: Ino,
        parts: &PartsRecord,
        index: PartitionIndex,
    ) -> bool {
        if !self.leases.is_granted(dir) {
            return false;
        }
        let most = split::threshold(&self.config.map, &parts.settings) * GRANTED_SPLIT_FACTOR;
        let initial = parts.settings.initial_partitions.unwrap_or(0);
        let is_small = parts.part(index).is_some_and(|part| part.entries <= most);
        let waits = is_small && initial <= 1 && !self.splits.spreading.contains_key(&dir);
        if waits {
            self.splits.look_again_later(dir);
        }
        waits
    }
}
