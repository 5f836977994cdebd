//! Wrong writes, done on purpose.

use crate::scenario::Plant;
use pandofs_lane::Shards;
use pandofs_namespace::keys::Kind;
use pandofs_namespace::records::{Body, InodeRecord, PartsRecord, decode, encode};
use pandofs_storage::store::{Batch, KvRead, MemoryStore};
use pandofs_types::{FileKind, Ino, Time, TxId};

/// One operation forgets to let go of an inode.
pub(crate) fn keep_lock(shards: &mut Shards, now: Time) {
    for shard in shards.ids() {
        let shard_state = shards.shard_mut(shard);
        let sequence = shard_state.status().applied;
        // Once something has been done.
        if sequence == 50 {
            let tx = TxId {
                coordinator: shard,
                sequence: now.0 as u64,
            };
            shard_state.plant_lock(tx, Ino::new(shard, Ino::MAX_SERIAL));
        }
    }
}

/// Returns the batch that the store gets in place of `batch`.
pub(crate) fn tamper(plant: Plant, store: &MemoryStore, batch: &Batch) -> Batch {
    let mut changed = Batch::new();
    for (key, value) in batch.iter() {
        let kind = key.first().copied().and_then(Kind::from_byte);
        let before = store.get(key).expect("memory can be read");
        match (kind, value) {
            (Some(Kind::Forwarding), None) if plant == Plant::KeepsForwarding => {}
            (Some(Kind::Staged), Some(_)) if plant == Plant::LosesEntry => {}
            // A file is made, and its name is not written.
            (Some(Kind::Entry), Some(_))
                if plant == Plant::LosesName && before.is_none() && key.ends_with(b"2") => {}
            (Some(Kind::PathLine), Some(_)) if plant == Plant::KeepsPaths => {}
            (Some(Kind::Xattr), Some(_)) if plant == Plant::KeepsValues && before.is_some() => {}
            (_, None) => changed.delete(key.to_vec()),
            (Some(Kind::Parts), Some(value)) => {
                let value = parts(plant, before.as_deref(), value);
                changed.put(key.to_vec(), value);
            }
            (Some(Kind::Inode), Some(value)) => {
                let value = inode(plant, before.as_deref(), value);
                changed.put(key.to_vec(), value);
            }
            (_, Some(value)) => changed.put(key.to_vec(), value.to_vec()),
        }
    }
    changed
}

fn parts(plant: Plant, before: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
    let mut now: PartsRecord = decode("partitions", value).expect("it was just encoded");
    let before: Option<PartsRecord> =
        before.map(|before| decode("partitions", before).expect("it was stored"));
    match (plant, before) {
        (Plant::KeepsPartition, Some(before))
            if before.map.has_slots() && before.map.active_count() < now.map.active_count() =>
        {
            now.map = before.map;
        }
        (Plant::KeepsMapsFromHome, Some(before))
            if before.map.has_slots() && learns_from_others(&before, &now) =>
        {
            now.map = before.map;
        }
        (Plant::KeepsRights, Some(before)) => now.mode = before.mode,
        (Plant::Miscounts, _) => {
            for part in &mut now.parts {
                if part.entries == 3 {
                    part.entries = 2;
                }
            }
        }
        _ => {}
    }
    encode(&now)
}

/// Returns whether the news of the map is not about the partitions here.
fn learns_from_others(before: &PartsRecord, now: &PartsRecord) -> bool {
    let indexes = |record: &PartsRecord| -> Vec<_> {
        let parts = record.parts.iter().map(|part| part.index);
        parts
            .map(|index| (index, record.map.range_of(index)))
            .collect()
    };
    indexes(before) == indexes(now)
}

fn inode(plant: Plant, before: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
    let mut now: InodeRecord = decode("inode", value).expect("it was just encoded");
    let before: Option<InodeRecord> =
        before.map(|before| decode("inode", before).expect("it was stored"));
    match (plant, before) {
        (Plant::KeepsParent, Some(before)) => {
            if let (Body::Dir { parent }, Body::Dir { parent: old }) = (&mut now.body, before.body)
            {
                *parent = old;
            }
        }
        (Plant::KeepsSizes, Some(before)) if now.size < before.size => {
            now.size = before.size;
        }
        (Plant::TurnsTimesBack, Some(before)) if now.ctime > before.ctime => {
            now.ctime.0 = before.ctime.0 - 1;
        }
        (Plant::MistakesTime, None) if now.kind == FileKind::Dir => now.atime.0 += 1,
        (Plant::MiscountsLinks, _) if now.kind == FileKind::File && now.nlink == 2 => now.nlink = 3,
        _ => {}
    }
    encode(&now)
}
