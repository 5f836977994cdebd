//! Slot arrays over clusters of any shape.

use pandofs_placement::{
    ClusterMap, DirPolicy, ServerInfo, Settings, default_max_partitions, slot_array,
};
use pandofs_types::limits::MAX_PARTITIONS;
use pandofs_types::{FsId, HashKey, ServerId, ShardId};
use proptest::prelude::*;
use std::collections::HashSet;

fn cluster(shards: u16, weights: &[u32]) -> ClusterMap {
    let server = |(id, &weight): (usize, &u32)| ServerInfo {
        id: ServerId(id as u16),
        addresses: vec![],
        weight,
        domain: format!("host-{}", id / 3),
    };
    ClusterMap::create(
        FsId(1),
        "test".into(),
        HashKey(1, 2),
        shards,
        weights.iter().enumerate().map(server).collect(),
        DirPolicy::default(),
        Settings::default(),
    )
    .expect("a valid map")
}

/// A cluster where some servers may have weight 0, so lead nothing, and some may have more than
/// there are shards for.
fn clusters() -> impl Strategy<Value = ClusterMap> {
    let weight = prop_oneof![1 => Just(0), 6 => 1..4 * ServerInfo::WEIGHT_ONE];
    let weights = prop::collection::vec(weight, 0..20);
    (0_u32..=7, weights).prop_map(|(shards, mut weights)| {
        weights.push(ServerInfo::WEIGHT_ONE);
        cluster(1 << shards, &weights)
    })
}

proptest! {
    #[test]
    fn successive_partitions_are_on_different_servers(
        map in clusters(),
        home: prop::sample::Index,
        salt: u64,
        partitions in 1..=MAX_PARTITIONS as u32,
    ) {
        let home = ShardId(home.index(map.shards.len()) as u16);
        let slots = slot_array(&map, home, partitions, salt);
        prop_assert_eq!(slots.len(), partitions as usize);
        prop_assert_eq!(slots[0], home);
        let servers: Vec<ServerId> = slots.iter().map(|&shard| map.server_of(shard)).collect();
        let leading = map.leading_servers().len();
        for window in servers.windows(leading) {
            prop_assert_eq!(window.iter().collect::<HashSet<_>>().len(), leading);
        }
    }

    /// On one server no shard is taken twice before all were taken once.
    #[test]
    fn a_server_uses_all_its_shards(map in clusters(), home: prop::sample::Index, salt: u64) {
        let home = ShardId(home.index(map.shards.len()) as u16);
        let slots = slot_array(&map, home, MAX_PARTITIONS as u32, salt);
        for server in map.leading_servers() {
            let led = map.shards_of(server).len();
            let picked: Vec<ShardId> =
                slots.iter().copied().filter(|&shard| map.server_of(shard) == server).collect();
            for window in picked.windows(led) {
                prop_assert_eq!(window.iter().collect::<HashSet<_>>().len(), led);
            }
        }
    }

    #[test]
    fn a_directory_may_have_a_partition_on_every_server(map in clusters()) {
        let partitions = default_max_partitions(&map);
        let leading = map.leading_servers().len() as u32;
        prop_assert!(partitions >= leading && partitions.is_multiple_of(leading));
        prop_assert_eq!(map.max_partitions(), partitions);
    }
}
