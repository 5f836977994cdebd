//! Splitting a partition: who splits, what moves, and the copying before the last step.
//!
//! 1. The source marks the split and copies the moving entries chunk by chunk; the target stages them
//!    where nobody looks. The partition goes on serving.
//! 2. The last step is a distributed operation of two shards (`GiveUp` here, `Adopt` there): the moving
//!    half is locked, what changed since it was copied is sent along, the target decides.
//! 3. Either both have done it or neither. A crash before the last step leaves the source the owner, and
//!    the copies are thrown away.

use crate::records::{
    EntryRecord, InodeRecord, Part, PartsRecord, SplitRecord, StagingRecord, decode, encode,
};
use crate::{Effect, Stop, Txn, View, keys, ops::xattr};
use pandofs_api::{DirSettings, MovedInode, SplitChunk, SplitId, SplitItem};
use pandofs_placement::{
    ClusterMap, PartitionIndex, is_to_spread, is_to_stay, least_to_spread, partitions_allowed,
    range, renewed_slots,
};
use pandofs_types::limits::{MAX_PARTITIONS, SPLIT_CHUNK_BYTES, SPLIT_CHUNK_ENTRIES};
use pandofs_types::{FileKind, Ino, Name, Position, ShardId};
use std::ops::ControlFlow;

/// The child that a partition is to be split into now, if it is: it has more entries than the threshold, or the
/// directory is to have so many partitions from the start. It may be that the child has no slot yet.
///
/// Of a directory that has spread to servers which joined, a partition of which all is to stay on its shard does not
/// split: it would be two on one shard.
pub fn child_wanted(
    map: &ClusterMap,
    parts: &PartsRecord,
    index: PartitionIndex,
) -> Option<PartitionIndex> {
    let part = parts.part(index)?;
    let settings = &parts.settings;
    let initial = settings.initial_partitions.unwrap_or(0);
    let over = part.entries > threshold(map, &parts.settings);
    if !over && initial <= 1 {
        return None;
    }
    let most = limit(map, parts).max(initial);
    let child = parts.map.next_child(index, most)?;
    let set = set(map, parts);
    let splits = child.0 < initial || (over && !is_to_stay(map, &parts.map, set, index));
    splits.then_some(child)
}

/// Whether a partition has enough entries to split before it is full, where that spreads the directory to servers that
/// joined: so many that its halves are not merged again.
pub fn is_worth_spreading(map: &ClusterMap, parts: &PartsRecord, index: PartitionIndex) -> bool {
    let least = least_to_spread(threshold(map, &parts.settings));
    parts.map.has_slots() && parts.part(index).is_some_and(|part| part.entries > least)
}

/// The child that such a partition is split into.
pub fn child_to_spread(
    map: &ClusterMap,
    parts: &PartsRecord,
    index: PartitionIndex,
) -> Option<PartitionIndex> {
    let most = limit(map, parts);
    let spreads =
        is_worth_spreading(map, parts, index) && is_to_spread(map, &parts.map, index, most);
    let child = parts.map.next_child(index, most)?;
    (spreads && parts.map.has_slot(child)).then_some(child)
}

fn set(map: &ClusterMap, parts: &PartsRecord) -> Option<u32> {
    parts
        .settings
        .max_partitions
        .or(map.settings.max_partitions)
}

/// Partitions that there may be. While the home is to make other slots it is the home that knows how many: a shard that
/// has not heard of all partitions would find that fewer are enough, and not ask.
fn limit(map: &ClusterMap, parts: &PartsRecord) -> u32 {
    if set(map, parts).is_none() && renewed_slots(map, &parts.map, None, (0, 0)).is_some() {
        return MAX_PARTITIONS as u32;
    }
    partitions_allowed(map, parts.settings.max_partitions, &parts.map)
}

/// The other slot array that the directory is to get at its home, where servers joined or it may have more partitions
/// than slots.
pub fn more_slots(map: &ClusterMap, dir: Ino, parts: &PartsRecord) -> Option<Vec<ShardId>> {
    let initial = parts.settings.initial_partitions.unwrap_or(0);
    renewed_slots(map, &parts.map, set(map, parts), (initial, dir.0))
}

/// Entries over which a partition splits.
pub fn threshold(map: &ClusterMap, settings: &DirSettings) -> u64 {
    u64::from(settings.threshold.unwrap_or(map.settings.split_threshold))
}

/// Slots to fix when `dir` splits for the first time or is made with several partitions.
pub fn slot_count(view: &View<'_>, max_partitions: Option<u32>) -> u32 {
    max_partitions
        .unwrap_or_else(|| view.map.max_partitions())
        .min(MAX_PARTITIONS as u32)
}

/// Marks a split. One whose target is this very shard is done at once. Nothing happens if the partition
/// does not want to split any more and is not worth spreading, but that other `slots` are taken up.
pub fn begin(
    txn: &mut Txn<'_, '_>,
    dir: Ino,
    index: PartitionIndex,
    slots: &[ShardId],
) -> Result<(), Stop> {
    let Some(mut parts) = txn.view().parts(dir)? else {
        return Ok(());
    };
    if parts.map.renew_slots(slots.to_vec()) {
        txn.put_parts(dir, &parts);
    }
    let wanted = child_wanted(txn.map, &parts, index);
    let Some(child) = wanted.or_else(|| child_to_spread(txn.map, &parts, index)) else {
        return Ok(());
    };
    if txn.view().split(dir)?.is_some() {
        return Ok(());
    }
    if !parts.map.has_slots() {
        if slots.first() != Some(&parts.map.home()) {
            return Err(Stop::Broken(
                "the slot array does not start at home".to_string(),
            ));
        }
        parts.map.set_slots(slots.to_vec());
        txn.put_parts(dir, &parts);
    }
    // A server of which this one has not heard may have joined, and been given the slot.
    if !parts.map.has_slot(child) || !txn.map.has_shard(parts.map.shard_of_partition(child)) {
        return Ok(());
    }
    let target = parts.map.shard_of_partition(child);
    let split = SplitId {
        source: txn.shard,
        sequence: txn.new_sequence(),
    };
    let record = SplitRecord {
        split,
        index,
        child,
        target,
        back: false,
    };
    if target != txn.shard {
        txn.put_split(dir, &record);
        return Ok(());
    }
    let mut given = Part {
        index: child,
        entries: 0,
        subdirs: 0,
    };
    let (start, end) = moving_range(&record);
    let start = keys::entry_from(txn.shard, dir, start);
    let end = keys::entry_from(txn.shard, dir, end);
    txn.view().scan(&start, &end, &mut |_, value| {
        let entry: EntryRecord = decode("entry", value)?;
        given.entries += 1;
        given.subdirs += u32::from(entry.kind == FileKind::Dir);
        Ok(ControlFlow::Continue(()))
    })?;
    let part = parts
        .part_mut(index)
        .ok_or_else(|| Stop::Broken(format!("partition {index} of {dir} is not here")))?;
    part.entries -= given.entries;
    part.subdirs -= given.subdirs;
    parts.parts.push(given);
    parts.parts.sort_by_key(|part| part.index);
    parts.map.activate(child);
    txn.meta.partitions += 1;
    txn.meta.splits += 1;
    txn.put_parts(dir, &parts);
    txn.effects.push(Effect::MapChanged { dir });
    txn.effects.push(Effect::Grew { dir, index });
    txn.effects.push(Effect::Grew { dir, index: child });
    Ok(())
}

/// Forgets a split that did not come to its end, so that it can start again.
pub fn abandon(txn: &mut Txn<'_, '_>, dir: Ino, id: SplitId) -> Result<(), Stop> {
    if txn
        .view()
        .split(dir)?
        .is_some_and(|record| record.split == id)
    {
        txn.delete_split(dir);
    }
    Ok(())
}

/// The positions that go to the child: the range it will have once the split is done.
pub fn moving_range(record: &SplitRecord) -> (Position, Position) {
    range_of_child(record.child)
}

/// The positions that a child has when it is made: `child = index + 2^r` is split off at depth `r + 1`.
pub(crate) fn range_of_child(child: PartitionIndex) -> (Position, Position) {
    let depth = (u32::BITS - child.0.leading_zeros()) as u8;
    range(child, depth)
}

/// Visitor of moving entries, with the inode if it moves along.
pub type VisitMoving<'v> =
    dyn FnMut(Position, &Name, &EntryRecord, Option<(Ino, InodeRecord)>) -> Result<(), Stop> + 'v;

/// Visits every entry of the moving half, in order.
pub fn for_each_moving(
    view: &View<'_>,
    dir: Ino,
    record: &SplitRecord,
    visit: &mut VisitMoving<'_>,
) -> Result<(), Stop> {
    let (start, end) = moving_range(record);
    let start = keys::entry_from(view.shard, dir, start);
    let end = keys::entry_from(view.shard, dir, end);
    view.scan(&start, &end, &mut |key, value| {
        let (_, position, name) =
            keys::parse_entry(key).ok_or_else(|| Stop::Broken(format!("entry key {key:02x?}")))?;
        let entry: EntryRecord = decode("entry", value)?;
        let moved = moving_inode(view, &entry)?;
        visit(position, &name, &entry, moved)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Whether an inode goes along with its entry, if that moves.
///
/// # Errors
/// Those of reading.
pub fn may_move(view: &View<'_>, ino: Ino) -> Result<bool, Stop> {
    let inode = view.stored_inode(ino)?;
    Ok(inode.as_ref().is_some_and(has_one_name))
}

fn has_one_name(inode: &InodeRecord) -> bool {
    inode.nlink == 1
}

/// The inode of an entry, if it goes where the entry goes: it is here, and has no other name.
fn moving_inode(view: &View<'_>, entry: &EntryRecord) -> Result<Option<(Ino, InodeRecord)>, Stop> {
    if entry.shard != view.shard || entry.kind == FileKind::Dir {
        return Ok(None);
    }
    // An operation of another shard may have freed the inode and still be about to change the entry; the
    // entry is locked until then, and what is copied of it now is copied again.
    let inode = view.stored_inode(entry.ino)?;
    Ok(inode.filter(has_one_name).map(|inode| (entry.ino, inode)))
}

/// One chunk of the moving half from the key `from` on (`None`: from its start), and the key to go on
/// from, if any is left. It has no more than `most` entries.
pub fn read_chunk(
    view: &View<'_>,
    dir: Ino,
    record: &SplitRecord,
    from: Option<&[u8]>,
    most: usize,
) -> Result<(Vec<SplitItem>, Option<Vec<u8>>), Stop> {
    let (start, end) = moving_range(record);
    let start = match from {
        Some(key) => key.to_vec(),
        None => keys::entry_from(view.shard, dir, start),
    };
    let end = keys::entry_from(view.shard, dir, end);
    let (mut items, mut bytes, mut next) = (Vec::new(), 0, None);
    view.scan(&start, &end, &mut |key, value| {
        if items.len() >= most.min(SPLIT_CHUNK_ENTRIES) || bytes >= SPLIT_CHUNK_BYTES {
            next = Some(key.to_vec());
            return Ok(ControlFlow::Break(()));
        }
        let (_, _, name) =
            keys::parse_entry(key).ok_or_else(|| Stop::Broken(format!("entry key {key:02x?}")))?;
        let item = item(view, name, value)?;
        bytes += size(&item);
        items.push(item);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((items, next))
}

/// The present state of one moving name; `None` if it is gone.
pub fn read_item(view: &View<'_>, dir: Ino, name: &Name) -> Result<Option<SplitItem>, Stop> {
    let position = view.map.hash_key.position(name.as_bytes());
    let value = view.raw(&keys::entry(view.shard, dir, position, name))?;
    value
        .map(|value| item(view, name.clone(), &value))
        .transpose()
}

fn item(view: &View<'_>, name: Name, value: &[u8]) -> Result<SplitItem, Stop> {
    let entry: EntryRecord = decode("entry", value)?;
    let inode = match moving_inode(view, &entry)? {
        None => None,
        Some((ino, record)) => {
            let mut xattrs = Vec::new();
            if record.xattrs > 0 {
                xattr::for_each(view, ino, &mut |name, value| {
                    xattrs.push((name.to_vec().into(), value.to_vec().into()));
                })?;
            }
            Some(MovedInode {
                ino,
                data: view.inline_data(ino, record.held())?.into(),
                record: encode(&record),
                xattrs,
            })
        }
    };
    Ok(SplitItem {
        name,
        entry: value.to_vec(),
        inode,
    })
}

/// Bytes of an item, about.
pub fn size(item: &SplitItem) -> usize {
    let inode = item.inode.as_ref().map_or(0, |inode| {
        inode.record.len()
            + inode.data.len()
            + inode
                .xattrs
                .iter()
                .map(|(n, v)| n.len() + v.len())
                .sum::<usize>()
    });
    item.name.as_bytes().len() + item.entry.len() + inode
}

/// Stages a chunk; whether it fits what is there. A repeated one is accepted and changes nothing.
pub fn stage(txn: &mut Txn<'_, '_>, chunk: &SplitChunk) -> Result<bool, Stop> {
    let mut staging = match txn.view().staging(chunk.split)? {
        Some(staging) => staging,
        None => StagingRecord {
            dir: chunk.dir,
            chunks: 0,
        },
    };
    if chunk.number > staging.chunks || staging.dir != chunk.dir {
        return Ok(false);
    }
    if chunk.number < staging.chunks {
        return Ok(true);
    }
    for name in &chunk.gone {
        txn.overlay
            .delete(keys::staged(txn.shard, chunk.split, name));
    }
    for item in &chunk.items {
        txn.overlay.put(
            keys::staged(txn.shard, chunk.split, &item.name),
            encode(item),
        );
    }
    staging.chunks += 1;
    txn.put_staging(chunk.split, &staging);
    Ok(true)
}

/// Visits what is staged.
pub fn for_each_staged(
    view: &View<'_>,
    split: SplitId,
    visit: &mut dyn FnMut(SplitItem) -> Result<(), Stop>,
) -> Result<(), Stop> {
    view.scan_prefix(&keys::staged_all(view.shard, split), &mut |_, value| {
        visit(decode("staged entry", value)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Throws away what is staged.
pub fn drop_staged(txn: &mut Txn<'_, '_>, split: SplitId) -> Result<(), Stop> {
    let mut staged = Vec::new();
    txn.view()
        .scan_prefix(&keys::staged_all(txn.shard, split), &mut |key, _| {
            staged.push(key.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
    for key in staged {
        txn.overlay.delete(key);
    }
    txn.overlay.delete(keys::staging(txn.shard, split));
    Ok(())
}

/// An inode has moved away: everything of it but the forwarding record goes.
pub(crate) fn forget_moved(
    txn: &mut Txn<'_, '_>,
    ino: Ino,
    inode: &InodeRecord,
) -> Result<(), Stop> {
    if inode.xattrs > 0 {
        let mut names = Vec::new();
        xattr::for_each(&txn.view(), ino, &mut |name, _| names.push(name.to_vec()))?;
        for name in names {
            txn.delete_xattr(ino, &name);
        }
    }
    txn.forget_inline(ino, inode.held());
    txn.delete_inode(ino);
    Ok(())
}
