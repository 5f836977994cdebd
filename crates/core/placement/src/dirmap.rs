//! The map of one directory: which partition holds a name, and which shard holds the partition.
//!
//! Partition `i` at depth `r` holds the names whose hash has `i` in its first `r` radix bits. It
//! splits into `i` and `i + 2^r`, both at depth `r + 1` (GIGA+, "Unsynchronized data
//! partitioning"), and the second may be merged back into the first. The map says which partitions are
//! active and has an array of their shards, as in OrangeFS (section 3.2.1). Depths are not stored:
//! which partitions are active implies them.
//!
//! Maps may be stale: they lack splits and merges that have happened, and never hold one that has
//! not. A bitmap, as the papers have it, can be reconciled by union while partitions are only made.
//! As they are merged, too, each has a counter of how often it was made or merged instead: odd
//! while it is active. Changes of one partition are decided by the shard of the one that it is
//! split from, one after the other, so of two counters the larger one knows more, and two maps are
//! reconciled by the larger of each two. The result is one that could be: the shard that makes a
//! change knows all that had to happen before it, and maps are passed on whole, so every map holds
//! with each change those that came before it, and so does what two of them hold together. (A merge
//! is of two shards, and each has to know what the other does: the one, that all that was split
//! from the merged partition has come back; the other, that all that it split off after that
//! partition has. If the first did not know of 2, which 0 had split off after 1 and got back, it
//! would say that 1 is gone; a client that has only heard that 2 was made would then have a 2
//! without the 1 that has to be there before.)
//!
//! Where a partition is follows from its counter as well: the shard that splits it off chooses its
//! shard, once, and news that it was made says where. So the slot of an active partition is a fact
//! that goes with its counter, and the slot of any other is a proposal of the home, of which the
//! home's latest counts (`version`). When servers join, the home proposes other slots. A shard that
//! has not heard of that splits to where was proposed before, which costs evenness and nothing
//! else: two partitions are never made for one counter, and no client looks for names by a
//! proposal, since only active partitions hold any.

use pandofs_types::limits::{MAX_PARTITIONS, MAX_SHARDS};
use pandofs_types::{Position, ShardId};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Times that one partition may be split off and merged back, each counted, before it stays as it is.
const MAX_PARTITION_CHANGES: u32 = 1 << 30;

/// A partition of a directory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct PartitionIndex(pub u32);

impl PartitionIndex {
    /// The partition every directory starts with; it is at the home shard and always active.
    pub const ZERO: PartitionIndex = PartitionIndex(0);

    /// The lowest depth at which the index fits.
    fn bit_length(self) -> u32 {
        u32::BITS - self.0.leading_zeros()
    }

    /// The partition this one was split from; `None` for partition 0.
    pub fn parent(self) -> Option<PartitionIndex> {
        let highest_bit = self.bit_length().checked_sub(1)?;
        Some(PartitionIndex(self.0 ^ 1 << highest_bit))
    }

    /// All partitions that can be split from this one, in their order.
    pub fn children(self) -> impl Iterator<Item = PartitionIndex> {
        let depths = self.bit_length()..PartitionIndex(MAX_PARTITIONS as u32 - 1).bit_length();
        depths.map(move |depth| PartitionIndex(self.0 | 1 << depth))
    }

    /// The partition that must have been active just before this one was made: the child its parent
    /// split off before it, or the parent when this is the parent's first child. `None` for
    /// partition 0.
    fn predecessor(self) -> Option<PartitionIndex> {
        let parent = self.parent()?;
        let depth_before = self.bit_length() - 1;
        if parent.bit_length() == depth_before {
            Some(parent)
        } else {
            Some(PartitionIndex(parent.0 | 1 << (depth_before - 1)))
        }
    }
}

impl fmt::Display for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The positions of partition `index` at `depth`: from the first, to but without the second.
///
/// The lowest range starts at `Position(0)` and the highest ends at [`Position::END`], so the
/// ranges of a directory's partitions tile everything between.
///
/// # Panics
/// When `index` does not fit into `depth` bits, or `depth` is over 32.
pub fn range(index: PartitionIndex, depth: u8) -> (Position, Position) {
    let depth = u32::from(depth);
    assert!(
        depth <= u32::BITS && index.bit_length() <= depth,
        "no partition {index} at {depth}"
    );
    if depth == 0 {
        return (Position(0), Position::END);
    }
    let prefix = u64::from(index.0.reverse_bits() >> (u32::BITS - depth));
    let width = Position::END.0 >> depth;
    (Position(prefix * width), Position((prefix + 1) * width))
}

/// Which partitions of one directory are active, and the shard of each that is or may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedDirMap")]
pub struct DirMap {
    /// 0 while the directory never split and has no slot array but its home; grows with every
    /// change of `slots`.
    version: u32,
    /// The shard of each partition that is active, and the one proposed for each that is not. Slot 0 is the home shard.
    slots: Vec<ShardId>,
    /// How often each partition was made or merged: odd while it is active. The last one is not 0.
    changes: Vec<u32>,
}

/// Fields that a [`DirMap`] is decoded into before it is checked.
#[derive(Deserialize)]
struct UncheckedDirMap {
    version: u32,
    slots: Vec<ShardId>,
    changes: Vec<u32>,
}

/// Why bytes that decode are no map of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirMapError {
    /// It has no slots at all.
    #[error("a directory map needs a slot for its home shard")]
    NoHome,
    /// It has more slots than a directory may have partitions.
    #[error("a directory may have no more than {MAX_PARTITIONS} partitions")]
    TooManyPartitions,
    /// It has never split and has more slots than one.
    #[error("a directory map of version 0 has its home slot alone")]
    SlotsBeforeFirstSplit,
    /// A slot holds a number at or over `MAX_SHARDS`.
    #[error("shard {0} is out of range")]
    NoSuchShard(ShardId),
    /// Partition 0 holds the names that no other one does, and is never merged.
    #[error("partition 0 is not active")]
    ZeroInactive,
    /// Its index is past the end of the slot array.
    #[error("partition {0} was made and has no slot")]
    NoSlot(PartitionIndex),
    /// Its counter is over the largest there is.
    #[error("partition {0} was made or merged over {MAX_PARTITION_CHANGES} times")]
    TooManyChanges(PartitionIndex),
    /// An active partition was split from one that is not active.
    #[error("partition {made} is active without partition {before}, which was there before it")]
    NoPredecessor {
        /// The active one.
        made: PartitionIndex,
        /// The one that it was split from.
        before: PartitionIndex,
    },
}

impl TryFrom<UncheckedDirMap> for DirMap {
    type Error = DirMapError;

    fn try_from(unchecked: UncheckedDirMap) -> Result<DirMap, DirMapError> {
        let UncheckedDirMap {
            version,
            slots,
            mut changes,
        } = unchecked;
        if slots.is_empty() {
            return Err(DirMapError::NoHome);
        }
        if slots.len() > MAX_PARTITIONS || changes.len() > MAX_PARTITIONS {
            return Err(DirMapError::TooManyPartitions);
        }
        if version == 0 && slots.len() != 1 {
            return Err(DirMapError::SlotsBeforeFirstSplit);
        }
        if let Some(&shard) = slots.iter().find(|shard| shard.0 >= MAX_SHARDS) {
            return Err(DirMapError::NoSuchShard(shard));
        }
        while changes.last() == Some(&0) {
            changes.pop();
        }
        if changes.len() > slots.len() {
            let last = PartitionIndex(changes.len() as u32 - 1);
            return Err(DirMapError::NoSlot(last));
        }
        if let Some(index) = changes
            .iter()
            .position(|&count| count > MAX_PARTITION_CHANGES)
        {
            return Err(DirMapError::TooManyChanges(PartitionIndex(index as u32)));
        }
        let map = DirMap {
            version,
            slots,
            changes,
        };
        if !map.is_active(PartitionIndex::ZERO) {
            return Err(DirMapError::ZeroInactive);
        }
        map.check_predecessors()?;
        Ok(map)
    }
}

impl DirMap {
    /// The map of a directory that never split: partition 0 at `home`, and no slot array yet.
    pub fn single(home: ShardId) -> DirMap {
        DirMap {
            version: 0,
            slots: vec![home],
            changes: vec![1],
        }
    }

    /// The map of a directory made with `initial` partitions (OrangeFS, section 3.2.3).
    ///
    /// # Panics
    /// When there are no slots or over `MAX_PARTITIONS`, or `initial` is not 1 to the number of
    /// slots.
    pub fn with_slots(slots: Vec<ShardId>, initial: u32) -> DirMap {
        assert!(
            initial >= 1 && initial as usize <= slots.len(),
            "{initial} initial partitions"
        );
        let mut map = DirMap::single(slots[0]);
        map.set_slots(slots);
        for index in 1..initial {
            map.activate(PartitionIndex(index));
        }
        map
    }

    /// Whether the slot array is fixed: from the first split on, or from the start when the
    /// directory was made with several partitions.
    pub fn has_slots(&self) -> bool {
        self.version > 0
    }

    /// The version of the slot array.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The shard of every partition, active or to come; the home alone before the slots are fixed.
    pub fn slots(&self) -> &[ShardId] {
        &self.slots
    }

    /// The home shard: where the directory's inode and partition 0 are.
    pub fn home(&self) -> ShardId {
        self.slots[0]
    }

    /// How many partitions are active.
    pub fn active_count(&self) -> u32 {
        self.active().count() as u32
    }

    /// The active partitions in the order of their indexes.
    pub fn active(&self) -> impl Iterator<Item = PartitionIndex> {
        (0..self.changes.len() as u32)
            .map(PartitionIndex)
            .filter(|&index| self.is_active(index))
    }

    /// Whether the partition is active, as far as this map knows. Any index may be asked for.
    pub fn is_active(&self, index: PartitionIndex) -> bool {
        self.changes_of(index) % 2 == 1
    }

    /// How often the partition was made or merged, as far as this map knows. Any index may be asked for.
    pub fn changes_of(&self, index: PartitionIndex) -> u32 {
        self.changes.get(index.0 as usize).copied().unwrap_or(0)
    }

    fn check_predecessors(&self) -> Result<(), DirMapError> {
        for made in self.active() {
            if let Some(before) = made.predecessor().filter(|&before| !self.is_active(before)) {
                return Err(DirMapError::NoPredecessor { made, before });
            }
        }
        Ok(())
    }

    /// The active partition that holds `position`: as many radix bits as the largest active index
    /// has, then without the highest until the partition is active (OrangeFS, figure 4). Positions
    /// past every name belong to the partition that is last in the order of positions.
    pub fn partition_of(&self, position: Position) -> PartitionIndex {
        let position = position.min(Position(Position::END.0 - 1));
        let mut index =
            PartitionIndex(position.radix_index(self.largest_active().bit_length() as u8));
        while !self.is_active(index) {
            index = index.parent().unwrap_or(PartitionIndex::ZERO);
        }
        index
    }

    /// The shard of the partition that holds `position`.
    pub fn shard_of(&self, position: Position) -> ShardId {
        self.shard_of_partition(self.partition_of(position))
    }

    /// The shard of a partition that is active, or the one that is proposed for it.
    ///
    /// # Panics
    /// When the partition has no slot.
    pub fn shard_of_partition(&self, index: PartitionIndex) -> ShardId {
        assert!(
            (index.0 as usize) < self.slots.len(),
            "partition {index} has no slot"
        );
        self.slots[index.0 as usize]
    }

    /// How many radix bits the names of an active partition share, as far as this map knows.
    ///
    /// # Panics
    /// When the partition is not active.
    pub fn depth_of(&self, index: PartitionIndex) -> u8 {
        assert!(self.is_active(index), "partition {index} is not active");
        // A partition splits off its children in the order of their indexes, so the first one that
        // is missing gives the depth. It need not be the same for all: with partitions 0, 1 and 2,
        // partition 1 is at depth 1 and the others at depth 2.
        let mut depth = index.bit_length();
        while self.is_active(PartitionIndex(index.0 | 1 << depth)) {
            depth += 1;
        }
        depth as u8
    }

    /// The positions of an active partition: from the first, to but without the second.
    ///
    /// # Panics
    /// When the partition is not active.
    pub fn range_of(&self, index: PartitionIndex) -> (Position, Position) {
        range(index, self.depth_of(index))
    }

    /// The partition that the next split of `index` makes; `None` when that is not below
    /// `max_partitions`, has no slot in an array that is fixed, or was made and merged too often: then
    /// `index` splits no more.
    ///
    /// # Panics
    /// When `index` is not active.
    pub fn split_child(
        &self,
        index: PartitionIndex,
        max_partitions: u32,
    ) -> Option<PartitionIndex> {
        self.next_child(index, max_partitions)
            .filter(|&child| !self.has_slots() || self.has_slot(child))
    }

    /// The same, of an array that may become longer: it may be that the partition [has no
    /// slot](Self::has_slot) yet.
    ///
    /// # Panics
    /// When `index` is not active.
    pub fn next_child(&self, index: PartitionIndex, max_partitions: u32) -> Option<PartitionIndex> {
        let child = PartitionIndex(index.0 | 1 << self.depth_of(index));
        let end = max_partitions.min(MAX_PARTITIONS as u32);
        (child.0 < end && self.changes_of(child) < MAX_PARTITION_CHANGES - 1).then_some(child)
    }

    /// Whether the partition, active or to come, has a slot: else the home is to [renew](Self::renew_slots) the
    /// array first.
    pub fn has_slot(&self, index: PartitionIndex) -> bool {
        (index.0 as usize) < self.slots.len()
    }

    /// The partition that an active one can be merged into: the one it was split from, if neither has
    /// split since.
    ///
    /// # Panics
    /// When `index` is not active.
    pub fn merges_into(&self, index: PartitionIndex) -> Option<PartitionIndex> {
        let into = index.parent()?;
        let depth = index.bit_length() as u8;
        (self.depth_of(index) == depth && self.depth_of(into) == depth).then_some(into)
    }

    /// The partition that `index` split off last and that is still there.
    ///
    /// # Panics
    /// When `index` is not active.
    pub fn last_child(&self, index: PartitionIndex) -> Option<PartitionIndex> {
        let depth = u32::from(self.depth_of(index));
        (depth > index.bit_length()).then(|| PartitionIndex(index.0 | 1 << (depth - 1)))
    }

    /// Records that the partition is active, and with it every partition that must have been there
    /// before it. (Notices of splits may arrive in any order: of 5 made from 1 before of 1 made
    /// from 0. In a map with 5 and without 1 the range of 0 would be everything, that of 5 too.)
    ///
    /// # Panics
    /// When the partition has no slot.
    pub fn activate(&mut self, index: PartitionIndex) {
        assert!(
            (index.0 as usize) < self.slots.len(),
            "partition {index} has no slot"
        );
        let mut next = Some(index);
        while let Some(made) = next.filter(|&made| !self.is_active(made)) {
            let at = made.0 as usize;
            if self.changes.len() <= at {
                self.changes.resize(at + 1, 0);
            }
            self.changes[at] += 1;
            next = made.predecessor();
        }
    }

    /// Records that the partition is active on this shard: what was proposed may have changed since its split began.
    ///
    /// # Panics
    /// When the partition has no slot, or is active elsewhere.
    pub fn activate_at(&mut self, index: PartitionIndex, shard: ShardId) {
        assert!(
            !self.is_active(index) || self.shard_of_partition(index) == shard,
            "partition {index} is active elsewhere"
        );
        self.activate(index);
        self.slots[index.0 as usize] = shard;
    }

    /// Records that the partition was merged into the one it was split from.
    ///
    /// # Panics
    /// When it cannot be ([`merges_into`](Self::merges_into)).
    pub fn deactivate(&mut self, index: PartitionIndex) {
        assert!(
            self.merges_into(index).is_some(),
            "partition {index} is merged and one was split from it, or beside it"
        );
        self.changes[index.0 as usize] += 1;
    }

    /// Fixes the slot array: from version 0 to version 1.
    ///
    /// # Panics
    /// When it is fixed already, when slot 0 is not the home shard, or with over `MAX_PARTITIONS`
    /// slots.
    pub fn set_slots(&mut self, slots: Vec<ShardId>) {
        assert!(
            self.version == 0,
            "the slot array is fixed at version {}",
            self.version
        );
        assert!(slots.len() <= MAX_PARTITIONS, "{} slots", slots.len());
        assert!(
            slots.first() == Some(&self.home()),
            "slot 0 is not the home shard"
        );
        self.version = 1;
        self.slots = slots;
    }

    /// Takes up another slot array that is no shorter, as the next version; true when it is one. Active partitions keep
    /// their slots, whatever it says of them: they are where they are. Only the home does this, so that of two
    /// proposals one is the later.
    pub fn renew_slots(&mut self, mut slots: Vec<ShardId>) -> bool {
        if !self.has_slots() || slots.len() < self.slots.len() || slots.len() > MAX_PARTITIONS {
            return false;
        }
        for index in self.active() {
            slots[index.0 as usize] = self.slots[index.0 as usize];
        }
        if slots == self.slots {
            return false;
        }
        self.version += 1;
        self.slots = slots;
        true
    }

    /// Whether the two cannot be of one directory: they have other homes, or one partition on different shards.
    pub fn contradicts(&self, other: &DirMap) -> bool {
        self.home() != other.home()
            || self.active().any(|index| {
                self.changes_of(index) == other.changes_of(index)
                    && self.slots[index.0 as usize] != other.slots[index.0 as usize]
            })
    }

    /// Learns what `other` knows of the same directory; true when that was anything. Of each partition what has the
    /// higher counter wins, with its slot, and of the slots of partitions that are not active those of the higher
    /// version.
    ///
    /// `other` may come from the network. A map that [contradicts](Self::contradicts) this one, or one that cannot be
    /// of the same directory because the slots do not reach all partitions, or because both together would have a
    /// partition without the one before it, is ignored.
    pub fn merge(&mut self, other: &DirMap) -> bool {
        if self == other || self.contradicts(other) {
            return false;
        }
        let age = |map: &DirMap| (map.version, map.slots.len());
        let newer = if age(other) > age(self) {
            other
        } else {
            &*self
        };
        let mut merged = newer.clone();
        let count = self.changes.len().max(other.changes.len());
        if count > merged.slots.len() {
            return false;
        }
        merged.changes.resize(count, 0);
        for (at, slot) in merged.slots.iter_mut().enumerate() {
            let index = PartitionIndex(at as u32);
            let (mine, theirs) = (self.changes_of(index), other.changes_of(index));
            // A counter is above 0 only where the map has a slot.
            *slot = match mine.cmp(&theirs) {
                Ordering::Greater => self.slots[at],
                Ordering::Less => other.slots[at],
                Ordering::Equal if self.version == other.version => {
                    // The same, unless the home lost an array in a crash after others had heard of it.
                    let proposed = [self.slots.get(at), other.slots.get(at)];
                    proposed
                        .into_iter()
                        .flatten()
                        .copied()
                        .max()
                        .unwrap_or(*slot)
                }
                Ordering::Equal => *slot,
            };
            if at < count {
                merged.changes[at] = mine.max(theirs);
            }
        }
        if merged == *self || merged.check_predecessors().is_err() {
            return false;
        }
        *self = merged;
        true
    }

    /// Whether this map knows as much of what `index` has split off as `other` does.
    pub fn knows_children(&self, index: PartitionIndex, other: &DirMap) -> bool {
        let mut children = index.children();
        children.all(|child| self.changes_of(child) >= other.changes_of(child))
    }

    /// The shards of the active partitions, each once, in the order of its first partition: the
    /// home shard is the first.
    pub fn shards(&self) -> Vec<ShardId> {
        let mut seen = std::collections::HashSet::new();
        self.active()
            .map(|index| self.shard_of_partition(index))
            .filter(|&shard| seen.insert(shard))
            .collect()
    }

    /// The partition whose positions come after those that end at `end`: where a listing goes on
    /// that has read everything before `end`. `None` at the end of the directory.
    pub fn next_partition_after(&self, end: Position) -> Option<PartitionIndex> {
        (end < Position::END).then(|| self.partition_of(end))
    }

    /// The active partitions with their ranges, in the order of positions. The ranges tile
    /// everything from `Position(0)` to [`Position::END`].
    pub fn in_order(&self) -> Vec<(PartitionIndex, Position, Position)> {
        let with_range = |index| {
            let (start, end) = self.range_of(index);
            (index, start, end)
        };
        let mut partitions: Vec<_> = self.active().map(with_range).collect();
        partitions.sort_unstable_by_key(|&(_, start, _)| start);
        partitions
    }

    fn largest_active(&self) -> PartitionIndex {
        let largest = self.changes.iter().rposition(|count| count % 2 == 1);
        PartitionIndex(largest.unwrap_or(0) as u32)
    }
}

#[cfg(test)]
mod tests;
