//! Dump of a file system: the input of the checks.

use pandofs_placement::ClusterMap;
use pandofs_types::{Ino, ServerId, ShardId};
use std::collections::BTreeMap;

/// Stored keys and values of one shard, in any order.
pub type ShardPairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All that a file system's servers have stored.
#[derive(Clone, Debug)]
pub struct ClusterDump {
    /// The one that all servers go by.
    pub map: ClusterMap,
    /// Every shard of the map.
    pub shards: BTreeMap<ShardId, ShardPairs>,
    /// Data objects with their bytes, of every server of the map.
    pub objects: BTreeMap<ServerId, Vec<(Ino, u64)>>,
}
