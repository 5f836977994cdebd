//! Merging a partition that is nearly empty into the one it was split from, which none of the papers does.
//!
//! It is a split the other way round: the names are copied chunk by chunk while the partition serves, and
//! the last step is the same distributed operation of two shards. The difference is in which partitions
//! may: the merged partition has split off nothing that is still there, nor has the other one since, and
//! together they are far from splitting again.

use crate::records::{PartsRecord, SplitRecord};
use crate::split::{for_each_staged, threshold};
use crate::{Effect, Stop, Txn, View};
use pandofs_api::{Adopt, Refusal, SplitId};
use pandofs_placement::{ClusterMap, DirMap, PartitionIndex};
use pandofs_types::Ino;
use pandofs_types::limits::{MERGE_FRACTION, MERGED_FRACTION};

/// Entries with which a partition counts as emptied.
fn emptied(map: &ClusterMap, parts: &PartsRecord) -> u64 {
    (threshold(map, &parts.settings) / MERGE_FRACTION).max(1)
}

/// Entries that two partitions may have together after they were merged.
fn together(map: &ClusterMap, parts: &PartsRecord) -> u64 {
    (threshold(map, &parts.settings) / MERGED_FRACTION).max(1)
}

/// Whether the partition, of which a name has just gone, has now become small enough to be merged, as this
/// one or the other of the two. Of all names that go only one or two are noteworthy.
pub fn is_noteworthy(map: &ClusterMap, parts: &PartsRecord, index: PartitionIndex) -> bool {
    let entries = parts.part(index).map(|part| part.entries);
    parts.map.has_slots() && (entries == Some(emptied(map, parts)) || entries == Some(0))
}

/// Partition that one here is to be merged into, as far as this shard knows: it is emptied, no initial one, and
/// has split off nothing that is still there.
pub fn wanted(
    map: &ClusterMap,
    parts: &PartsRecord,
    index: PartitionIndex,
) -> Option<PartitionIndex> {
    let part = parts.part(index)?;
    let initial = parts.settings.initial_partitions;
    let is_initial = index.0 < initial.unwrap_or(map.settings.initial_partitions);
    if is_initial || part.entries > emptied(map, parts) || parts.map.last_child(index).is_some() {
        return None;
    }
    index.parent()
}

/// Entries that partition `child` may have to be taken back by the one it was split from, which is here; `None`
/// if it is not to be.
pub fn room(map: &ClusterMap, parts: &PartsRecord, child: PartitionIndex) -> Option<u64> {
    let into = child.parent()?;
    let part = parts.part(into)?;
    if parts.map.last_child(into) != Some(child) {
        return None;
    }
    together(map, parts).checked_sub(part.entries)
}

/// Marks a merge. One into a partition of this very shard is done at once. Nothing happens if it is not to
/// be. `map` is what the shard of the other partition knows.
pub fn begin(
    txn: &mut Txn<'_, '_>,
    dir: Ino,
    child: PartitionIndex,
    map: &DirMap,
) -> Result<(), Stop> {
    if txn.view().split(dir)?.is_some() {
        return Ok(());
    }
    let Some(mut parts) = txn.view().parts(dir)? else {
        return Ok(());
    };
    let learnt = parts.learn(map, None);
    let into = wanted(txn.map, &parts, child)
        .filter(|&into| parts.map.merges_into(child) == Some(into))
        .filter(|&into| parts.map.knows_children(into, map));
    let Some(into) = into else {
        if learnt {
            txn.put_parts(dir, &parts);
        }
        return Ok(());
    };
    let target = parts.map.shard_of_partition(into);
    if target != txn.shard {
        let split = SplitId {
            source: txn.shard,
            sequence: txn.new_sequence(),
        };
        let record = SplitRecord {
            split,
            index: into,
            child,
            target,
            back: true,
        };
        txn.put_parts(dir, &parts);
        txn.put_split(dir, &record);
        return Ok(());
    }
    let Some(room) = room(txn.map, &parts, child) else {
        return Ok(());
    };
    let merged = *parts
        .part(child)
        .ok_or_else(|| Stop::Broken(format!("partition {child} of {dir} is not here")))?;
    if merged.entries > room {
        return Ok(());
    }
    parts.parts.retain(|part| part.index != child);
    let part = parts
        .part_mut(into)
        .ok_or_else(|| Stop::Broken(format!("partition {into} of {dir} is not here")))?;
    part.entries += merged.entries;
    part.subdirs += merged.subdirs;
    parts.map.deactivate(child);
    txn.meta.partitions -= 1;
    txn.put_parts(dir, &parts);
    txn.effects.push(Effect::MapChanged { dir });
    txn.effects.push(Effect::Shrank { dir, index: into });
    Ok(())
}

/// The partition that takes the other one back.
pub(crate) fn merged_into(adopt: &Adopt) -> Result<PartitionIndex, Stop> {
    adopt
        .child
        .parent()
        .ok_or_else(|| Stop::Broken("partition 0 is merged into another one".to_string()))
}

/// Refuses what is not to be merged any more.
pub(crate) fn check(view: &View<'_>, adopt: &Adopt) -> Result<(), Stop> {
    let dir = adopt.part.dir;
    let again = || Stop::from(Refusal::TryAgain);
    let mut parts = view.parts(dir)?.ok_or_else(again)?;
    let into = adopt.child.parent().ok_or_else(again)?;
    let split = view.split(dir)?;
    let splits = split.as_ref().is_some_and(|split| split.giver() == into);
    let room = room(view.map, &parts, adopt.child).ok_or_else(again)?;
    let mut comes = adopt.changed.len() as u64;
    for_each_staged(view, adopt.split, &mut |_| {
        comes += 1;
        Ok(())
    })?;
    if splits || comes > room || !parts.learn_merge(&adopt.part.map, adopt.child, split.as_ref()) {
        return Err(again());
    }
    Ok(())
}
