//! Cluster maps for the model, made as real ones are.

use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_types::limits::{DEFAULT_SHARDS, MAX_SHARDS};
use pandofs_types::{FsId, HashKey, ServerId};

/// Servers without addresses, of the same weight, each a failure domain.
pub(crate) fn servers(count: usize) -> Vec<ServerInfo> {
    (0..count)
        .map(|server| ServerInfo {
            id: ServerId(server as u16),
            addresses: Vec::new(),
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("rack-{server}"),
        })
        .collect()
}

/// A map with one shard for each server, of the server's number: the first server's file system,
/// which the others joined.
///
/// # Panics
/// When there are more servers than a map may have.
pub(crate) fn one_shard_each(count: usize) -> ClusterMap {
    let mut all = servers(count);
    let joining = all.split_off(1);
    let first = made(1, all);
    if joining.is_empty() {
        return first;
    }
    match first.with_servers(joining) {
        Ok(map) => map,
        Err(error) => panic!("a map of {count} servers: {error}"),
    }
}

/// The map after so many more servers joined.
///
/// # Panics
/// When there are more servers than a map may have.
pub(crate) fn joined_by(map: &ClusterMap, joining: usize) -> ClusterMap {
    let before = map.servers.len();
    match map.with_servers(servers(before + joining).split_off(before)) {
        Ok(map) => map,
        Err(error) => panic!("{joining} servers join {before}: {error}"),
    }
}

/// A map with at least four shards for each server, as far as there may be so many.
///
/// # Panics
/// When there are more servers than a map may have.
pub(crate) fn map(count: usize) -> ClusterMap {
    let shards = (4 * count)
        .next_power_of_two()
        .clamp(usize::from(DEFAULT_SHARDS), usize::from(MAX_SHARDS));
    made(shards as u16, servers(count))
}

/// # Panics
/// When no map may be like this.
pub(crate) fn made(shards: u16, servers: Vec<ServerInfo>) -> ClusterMap {
    let count = servers.len();
    let made = ClusterMap::create(
        FsId(1),
        "model".to_owned(),
        HashKey(1, 2),
        shards,
        servers,
        DirPolicy::default(),
        Settings::default(),
    );
    match made {
        Ok(map) => map,
        Err(error) => panic!("a map of {count} servers: {error}"),
    }
}
