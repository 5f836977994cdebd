//! Wrong writes, done on purpose.

use crate::scenario::Plant;
use pandofs_namespace::keys::Kind;
use pandofs_namespace::records::{Body, InodeRecord, PartsRecord, decode, encode};
use pandofs_store::{Batch, KvRead, MemoryStore};
use pandofs_types::FileKind;

/// What the store gets in place of `batch`.
pub fn tamper(plant: Option<Plant>, store: &MemoryStore, batch: Batch) -> Batch {
    let Some(plant) = plant else {
        return batch;
    };
    let mut changed = Batch::new();
    for (key, value) in batch.iter() {
        let kind = key.first().copied().and_then(Kind::from_byte);
        let before = store.get(key).expect("memory can be read");
        match (kind, value) {
            (Some(Kind::Forwarding), None) if plant == Plant::KeepsForwarding => {}
            (Some(Kind::Staged), Some(_)) if plant == Plant::LosesEntry => {}
            (Some(Kind::Inode), None) if plant == Plant::KeepsInode => {}
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
        (Plant::KeepsPartition, Some(before)) => {
            for part in before.parts {
                if now.part(part.index).is_none() {
                    now.parts.push(part);
                }
            }
            now.parts.sort_by_key(|part| part.index);
        }
        (Plant::KeepsMapsFromHome, Some(before)) if before.parts.len() == now.parts.len() => {
            now.map = before.map;
        }
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

fn inode(plant: Plant, before: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
    let mut now: InodeRecord = decode("inode", value).expect("it was just encoded");
    let before: Option<InodeRecord> =
        before.map(|before| decode("inode", before).expect("it was stored"));
    match (plant, before) {
        (Plant::KeepsParent, Some(before)) => {
            if let (Body::Dir { parent }, Body::Dir { parent: old }) = (&mut now.body, before.body) {
                *parent = old;
            }
        }
        (Plant::MiscountsLinks, _) if now.kind == FileKind::File && now.nlink == 2 => now.nlink = 3,
        _ => {}
    }
    encode(&now)
}
