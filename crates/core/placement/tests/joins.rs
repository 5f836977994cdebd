//! Servers that join a cluster with a large directory: shares afterwards, and what moved for them.

use pandofs_placement::{
    ClusterMap, DirMap, DirPolicy, PartitionIndex, ServerInfo, Settings, is_to_spread, is_to_stay,
    partitions_allowed, renewed_slots, slot_array,
};
use pandofs_types::{FsId, HashKey, Position, ServerId, ShardId};
use proptest::prelude::*;

const SALT: u64 = 5;
/// `MAX_SERVER_OVERLOAD_PERCENT`.
const MOST_OVER_MEAN: f64 = 1.1 + 1e-9;

fn server(id: u16) -> ServerInfo {
    ServerInfo {
        id: ServerId(id),
        addresses: vec![],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("host-{id}"),
    }
}

fn cluster(servers: u16) -> ClusterMap {
    ClusterMap::create(
        FsId(1),
        "test".into(),
        HashKey(1, 2),
        64,
        (0..servers).map(server).collect(),
        DirPolicy::default(),
        Settings::default(),
    )
    .expect("a valid map")
}

fn joined(map: &ClusterMap, count: u16) -> ClusterMap {
    let first = map.servers.len() as u16;
    map.with_servers((first..first + count).map(server).collect())
        .expect("servers that may join")
}

/// A directory of which so many partitions are active, as its slots were when it split first.
fn directory(map: &ClusterMap, active: u32) -> DirMap {
    DirMap::with_slots(
        slot_array(map, ShardId(3), map.max_partitions(), SALT),
        active,
    )
}

/// Shares of the servers in the hash space.
fn shares(map: &ClusterMap, directory: &DirMap) -> Vec<f64> {
    let mut shares = vec![0.0; map.servers.len()];
    for (index, start, end) in directory.in_order() {
        let server = map.server_of(directory.shard_of_partition(index));
        shares[usize::from(server.0)] += (end.0 - start.0) as f64 / Position::END.0 as f64;
    }
    shares
}

/// A directory after servers have joined.
struct Grown {
    directory: DirMap,
    /// Part of the whole that went to another server.
    moved: f64,
    /// Splits that made two partitions of one on its shard.
    in_place: u32,
}

/// Takes up the slots for `map`, and splits what `splits` says of a partition, until nothing is left to split.
fn grow(
    map: &ClusterMap,
    mut directory: DirMap,
    splits: impl Fn(&DirMap, PartitionIndex, u32) -> bool,
) -> Grown {
    if let Some(slots) = renewed_slots(map, &directory, None, (0, SALT)) {
        assert!(directory.renew_slots(slots));
    }
    assert_eq!(
        renewed_slots(map, &directory, None, (0, SALT)),
        None,
        "made anew once more"
    );
    let (mut moved, mut in_place) = (0.0, 0);
    loop {
        let most = partitions_allowed(map, None, &directory);
        let next = directory
            .active()
            .filter(|&index| splits(&directory, index, most))
            .find_map(|index| Some((index, directory.next_child(index, most)?)));
        let Some((index, child)) = next else {
            return Grown {
                directory,
                moved,
                in_place,
            };
        };
        let (from, to) = (
            directory.shard_of_partition(index),
            directory.shard_of_partition(child),
        );
        let (start, end) = directory.range_of(index);
        if map.server_of(from) != map.server_of(to) {
            moved += (end.0 - start.0) as f64 / Position::END.0 as f64 / 2.0;
        } else {
            assert_eq!(from, to, "moved from shard to shard of one server");
            in_place += 1;
        }
        directory.activate(child);
    }
}

/// Every partition is full in the end.
fn by_use(map: &ClusterMap, directory: DirMap) -> Grown {
    grow(map, directory, |directory, index, _| {
        !is_to_stay(map, directory, None, index)
    })
}

/// None is, and an administrator has it spread.
fn by_rebalancing(map: &ClusterMap, directory: DirMap) -> Grown {
    grow(map, directory, |directory, index, most| {
        is_to_spread(map, directory, index, most)
    })
}

fn per_cent(shares: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = shares
        .iter()
        .map(|share| (share * 1_000_000.0).round() / 10_000.0)
        .collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn most_over_mean(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(0.0, f64::max) * shares.len() as f64
}

/// The shares in per cent, of the old servers and of the new ones, each from the least on; and the splits that moved
/// nothing.
#[test]
fn each_server_has_its_share_after_servers_joined() {
    type Row = (u16, u16, &'static [f64], &'static [f64], u32);
    let table: [Row; 5] = [
        (2, 1, &[31.25, 34.375], &[34.375], 3),
        (3, 1, &[25.0; 3], &[25.0], 0),
        (3, 3, &[17.1875; 3], &[15.625, 15.625, 17.1875], 0),
        (4, 1, &[18.75, 18.75, 18.75, 21.875], &[21.875], 5),
        (5, 3, &[12.5; 5], &[12.5; 3], 0),
    ];
    for (before, joins, old_shares, new_shares, in_place) in table {
        let old = cluster(before);
        let new = joined(&old, joins);
        let full = directory(&old, old.max_partitions());
        for grown in [
            by_use(&new, full.clone()),
            by_rebalancing(&new, full.clone()),
        ] {
            let found = shares(&new, &grown.directory);
            let (of_old, of_new) = found.split_at(usize::from(before));
            let which = format!("{before} servers and {joins}");
            assert_eq!(per_cent(of_old), old_shares, "{which}");
            assert_eq!(per_cent(of_new), new_shares, "{which}");
            assert_eq!(grown.in_place, in_place, "{which}");
            assert!(most_over_mean(&found) <= MOST_OVER_MEAN, "{which}");
            // All that moved is on the new servers, and active partitions are where they were.
            assert!((grown.moved - of_new.iter().sum::<f64>()).abs() < 1e-9);
            for index in full.active() {
                assert_eq!(
                    grown.directory.shard_of_partition(index),
                    full.shard_of_partition(index)
                );
            }
        }
    }
}

/// Into however many partitions it had split by then, and however often servers join.
#[test]
fn directories_of_any_size_are_spread_evenly() {
    for (before, joins) in [
        (2, 1),
        (3, 1),
        (3, 3),
        (4, 1),
        (5, 3),
        (1, 1),
        (6, 1),
        (7, 9),
    ] {
        let old = cluster(before);
        let new = joined(&old, joins);
        let newer = joined(&new, 1);
        for active in 2..=old.max_partitions() {
            let small = directory(&old, active);
            let grown = by_use(&new, small);
            let is = shares(&new, &grown.directory);
            let which = format!("{active} partitions on {before} servers, and {joins}");
            assert!(most_over_mean(&is) <= MOST_OVER_MEAN, "{which}: {is:?}");
            let again = by_rebalancing(&newer, grown.directory);
            let is = shares(&newer, &again.directory);
            assert!(most_over_mean(&is) <= MOST_OVER_MEAN, "{which}: {is:?}");
        }
    }
}

/// With six partitions on each of three servers, of which sixteen are active and none full: what the fourth gets
/// comes out of slots that the directory had, or not, and nothing else changes its server.
#[test]
fn slots_that_nobody_uses_go_to_the_server_that_joined() {
    let old = cluster(3);
    let new = joined(&old, 1);
    let half = directory(&old, 8);
    let slots = renewed_slots(&new, &half, None, (0, SALT)).unwrap();
    assert_eq!(slots.len(), 18);
    let servers: Vec<u16> = slots.iter().map(|&shard| new.server_of(shard).0).collect();
    assert_eq!(
        servers[8..].iter().filter(|&&server| server == 3).count(),
        4
    );
    for grown in [
        by_use(&new, half.clone()),
        by_rebalancing(&new, half.clone()),
    ] {
        let found = shares(&new, &grown.directory);
        assert_eq!(per_cent(&found), [25.0; 4]);
        assert_eq!((grown.moved, grown.in_place), (0.25, 0));
    }
}

/// As many partitions as were set: the new servers get those that are not there yet.
#[test]
fn a_set_number_of_partitions_is_kept() {
    let old = cluster(2);
    let new = joined(&old, 2);
    let slots = slot_array(&old, ShardId(3), 4, SALT);
    let small = DirMap::with_slots(slots.clone(), 2);
    let renewed = renewed_slots(&new, &small, Some(4), (0, SALT)).unwrap();
    let mut servers: Vec<u16> = renewed
        .iter()
        .map(|&shard| new.server_of(shard).0)
        .collect();
    servers.sort_unstable();
    assert_eq!(servers, [0, 1, 2, 3]);
    assert_eq!(partitions_allowed(&new, Some(4), &small), 4);
    // All are there, or there is no room for more servers.
    let full = DirMap::with_slots(slots, 4);
    assert_eq!(renewed_slots(&new, &full, Some(4), (0, SALT)), None);
    let two = DirMap::with_slots(slot_array(&old, ShardId(3), 2, SALT), 1);
    assert_eq!(renewed_slots(&new, &two, Some(2), (0, SALT)), None);
    // More are set: the servers take turns.
    let more = renewed_slots(&old, &small, Some(8), (0, SALT)).unwrap();
    assert_eq!(more.len(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Making them anew gives the same ones, and nothing that is active changes its shard.
    #[test]
    fn slots_that_were_made_anew_stay(before in 1_u16..20, joins in 1_u16..20, active: prop::sample::Index, salt: u64) {
        let old = cluster(before);
        let new = joined(&old, joins);
        let directory = directory(&old, 1 + active.index(old.max_partitions() as usize) as u32);
        let renewed = renewed_slots(&new, &directory, None, (0, salt));
        prop_assert!(renewed.is_some());
        let renewed = renewed.unwrap();
        for index in directory.active() {
            prop_assert_eq!(renewed[index.0 as usize], directory.shard_of_partition(index));
        }
        let mut grown = directory;
        prop_assert!(grown.renew_slots(renewed));
        prop_assert_eq!(renewed_slots(&new, &grown, None, (0, salt)), None);
        prop_assert_eq!(partitions_allowed(&new, None, &grown) as usize, grown.slots().len());
        // A map of before that tells nothing of the new servers changes nothing.
        prop_assert_eq!(renewed_slots(&old, &grown, None, (0, salt)), None);
    }
}
