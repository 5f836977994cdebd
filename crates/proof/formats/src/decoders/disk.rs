//! Decoders of the bytes of logs and stores.

use pandofs_check::{ClusterDump, check};
use pandofs_commit::Participation;
use pandofs_namespace::Meta;
use pandofs_namespace::keys;
use pandofs_namespace::records::{
    EntryRecord, InodeRecord, PartsRecord, PathRecord, ReclaimRecord, SlotRecord, SplitRecord,
    StagingRecord, decode, encode,
};
use pandofs_placement::ClusterMap;
use pandofs_shard::{Coordinated, Record};
use pandofs_types::ShardId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Decodes a stored value. A decoded value is stored again and decoded as the same.
fn value<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> bool {
    let Ok(value) = decode::<T>("fuzzed", bytes) else {
        return false;
    };
    let again = encode(&value);
    match decode::<T>("stored again", &again) {
        Ok(understood) => assert_eq!(encode(&understood), again),
        Err(error) => panic!("{error:?}"),
    }
    true
}

pub(super) fn log_record(bytes: &[u8]) -> bool {
    let Ok(record) = Record::decode(bytes) else {
        return false;
    };
    let again = record.encode();
    match Record::decode(&again) {
        Ok(understood) => assert_eq!(understood.encode(), again),
        Err(error) => panic!("{error}"),
    }
    true
}

pub(super) fn key(bytes: &[u8]) -> bool {
    let kind = bytes.first().copied().and_then(keys::Kind::from_byte);
    let parsed = [
        keys::parse_entry(bytes).is_some(),
        keys::parse_ino(bytes).is_some(),
        keys::parse_split(bytes).is_some(),
    ];
    kind.is_some() || parsed.contains(&true)
}

pub(super) fn meta(bytes: &[u8]) -> bool {
    value::<Meta>(bytes)
}

pub(super) fn inode(bytes: &[u8]) -> bool {
    value::<InodeRecord>(bytes)
}

pub(super) fn entry(bytes: &[u8]) -> bool {
    value::<EntryRecord>(bytes)
}

pub(super) fn forwarding(bytes: &[u8]) -> bool {
    value::<ShardId>(bytes)
}

pub(super) fn parts(bytes: &[u8]) -> bool {
    value::<PartsRecord>(bytes)
}

pub(super) fn path(bytes: &[u8]) -> bool {
    value::<PathRecord>(bytes)
}

pub(super) fn split(bytes: &[u8]) -> bool {
    value::<SplitRecord>(bytes)
}

pub(super) fn staging(bytes: &[u8]) -> bool {
    value::<StagingRecord>(bytes)
}

pub(super) fn staged(bytes: &[u8]) -> bool {
    value::<pandofs_api::SplitItem>(bytes)
}

pub(super) fn reclaim(bytes: &[u8]) -> bool {
    value::<ReclaimRecord>(bytes)
}

pub(super) fn slot(bytes: &[u8]) -> bool {
    value::<SlotRecord>(bytes)
}

pub(super) fn coordinated(bytes: &[u8]) -> bool {
    value::<Coordinated>(bytes)
}

pub(super) fn participation(bytes: &[u8]) -> bool {
    value::<Participation>(bytes)
}

/// Bytes before a pair: of the key's length and, little-endian, of the value's.
const HEAD_BYTES: usize = 3;

/// Check of a store by `pandofs fsck`, whatever it holds: a pair behind the other, each with a byte
/// for the length of its key, two for that of its value, and both.
pub(super) fn dump(bytes: &[u8]) -> bool {
    let mut pairs = Vec::new();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let key_bytes = usize::from(head[0]).min(after.len());
        let (key, after) = after.split_at(key_bytes);
        let value_bytes = usize::from(u16::from_le_bytes([head[1], head[2]])).min(after.len());
        let (value, after) = after.split_at(value_bytes);
        let mut key = key.to_vec();
        // Keys of other shards would all be left out.
        if let Some(shard) = key.get_mut(1..keys::PREFIX_BYTES) {
            shard.copy_from_slice(&FULL_SHARD.0.to_be_bytes());
        }
        pairs.push((key, value.to_vec()));
        rest = after;
    }
    let Some(map) = golden_map() else {
        return false;
    };
    let mut shards: BTreeMap<_, _> = (0..)
        .zip(&map.shards)
        .map(|(shard, _)| (ShardId(shard), Vec::new()))
        .collect();
    shards.insert(FULL_SHARD, pairs);
    let dump = ClusterDump {
        map,
        shards,
        objects: BTreeMap::new(),
    };
    // That something is wrong with it is what it is for.
    check(&dump).len() < bytes.len()
}

/// The one that has all pairs, of those of the golden map.
const FULL_SHARD: ShardId = ShardId(3);

fn golden_map() -> Option<ClusterMap> {
    let text = include_str!("../../../../core/placement/tests/golden/cluster-map-1.json");
    ClusterMap::from_json(text).ok()
}

/// Stores with one pair of each golden key and a value that may belong to it.
pub(super) fn dumps() -> Vec<Vec<u8>> {
    let keys = super::golden_of("key");
    let values = [
        "meta",
        "inode",
        "entry",
        "parts",
        "slot",
        "coordinated",
        "participation",
        "reclaim",
    ];
    let mut all = Vec::new();
    for kind in values {
        let mut dump = Vec::new();
        for value in super::golden_of(kind) {
            for key in &keys {
                let lengths = (u8::try_from(key.len()), u16::try_from(value.len()));
                if let (Ok(key_bytes), Ok(value_bytes)) = lengths {
                    dump.push(key_bytes);
                    dump.extend(value_bytes.to_le_bytes());
                    dump.extend(key);
                    dump.extend(&value);
                }
            }
        }
        all.push(dump);
    }
    all
}
