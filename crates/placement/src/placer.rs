//! What a server needs for the policies that adapt: what all servers have, as it has heard, and the granularity
//! that follows from it.
//!
//! Two things are told apart. How large units are follows from the name space, from how evenly the objects are
//! spread: that is where what is placed now will stay. Which shard begins a new unit, and whether units on a shard
//! are to be small for now, also follows from the requests of late.

use crate::adaptive::{
    Adaptive, Bounds, Granularity, OBJECTS_BETWEEN_ADJUSTMENTS, UNEVEN_PERCENT, less_loaded,
};
use crate::cluster::ClusterMap;
use pandofs_types::{ServerId, ShardId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a server tells the others of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLoad {
    /// Inodes, directories among them.
    pub objects: u64,
    /// Requests to its shards of late, about: old ones count less and less.
    pub requests: u64,
}

/// What is drawn and known when something is made, fixed in its record: what is made where must not depend on who
/// applies the record, or when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// Before it is brought within the bounds of the directory.
    pub granularity: Granularity,
    /// Where a new unit begins.
    pub shard: ShardId,
}

/// Of all servers together, for each of them: with fewer requests than this of late nothing is said by how they are
/// spread.
const REQUESTS_THAT_COUNT: u64 = 1_000;
/// The same of objects: with fewer than this it is chance how they are spread, and nothing follows from it but where the
/// next unit begins.
const OBJECTS_THAT_COUNT: u64 = 1_000;
/// Loads are given in parts of this: of all objects, and of all requests.
const WHOLE: u128 = 1 << 40;

/// What is known of a server.
struct Known {
    load: ServerLoad,
    /// Of the server: that much of everything is its part.
    weight: u128,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Placer {
    adaptive: Adaptive,
    /// Of each shard's server what it has, times all weights over its own: what all servers have if the load is even, in
    /// parts of [`WHOLE`]. Empty as long as not all servers were heard of.
    loads: Vec<u64>,
    /// A server that has more than this has too much.
    overloaded: u128,
    /// Objects that there were when the granularity was adjusted, or the fewest since.
    adjusted_at: u64,
}

impl Placer {
    /// One that has heard of nobody: in the middle of its bounds.
    pub fn new(map: &ClusterMap) -> Placer {
        Placer {
            adaptive: Adaptive::new(Bounds::of(map.policy, map.settings.file_policy)),
            loads: Vec::new(),
            overloaded: 0,
            adjusted_at: 0,
        }
    }

    /// The one in force.
    pub fn granularity(&self) -> Granularity {
        self.adaptive.granularity()
    }

    /// Takes what all servers have. Those that lead no shard have nothing to say; a server of which nothing is
    /// given makes all that is given worth nothing, as nobody knows what it has.
    ///
    /// The granularity is adjusted by one step at most, and only when objects were made since the last time: by
    /// itself it would go on to its bounds while nothing happens, and what it is adjusted by would be old.
    pub fn hear(&mut self, map: &ClusterMap, told: &BTreeMap<ServerId, ServerLoad>) {
        let mut known: BTreeMap<ServerId, Known> = BTreeMap::new();
        for server in map.leading_servers() {
            let Some(&load) = told.get(&server) else {
                return;
            };
            let weight = map.server(server).map_or(1, |info| info.weight.max(1));
            let weight = u128::from(weight);
            known.insert(server, Known { load, weight });
        }
        let servers = known.len() as u64;
        let sum = |of: fn(&ServerLoad) -> u64| -> u64 {
            let each = known.values().map(|known| of(&known.load));
            each.fold(0, u64::saturating_add)
        };
        let (objects, requests) = (sum(|load| load.objects), sum(|load| load.requests));
        let weights: u128 = known.values().map(|known| known.weight).sum();
        // What all have together if this one has its part of it.
        let fair = |has: u128, known: &Known| {
            u64::try_from(has * weights / known.weight).unwrap_or(u64::MAX)
        };
        let part = |of: u64, all: u64| u128::from(of) * WHOLE / u128::from(all.max(1));
        let counts = requests >= REQUESTS_THAT_COUNT.saturating_mul(servers);
        let load = |known: &Known| {
            let busy = if counts {
                part(known.load.requests, requests)
            } else {
                0
            };
            fair(part(known.load.objects, objects) + busy, known)
        };
        let of_leader = |server: &ServerId| load(&known[server]);
        self.loads = map.shards.iter().map(of_leader).collect();
        let even = WHOLE * (1 + u128::from(counts));
        let tells = objects >= OBJECTS_THAT_COUNT.saturating_mul(servers);
        self.overloaded = if tells {
            even * (100 + UNEVEN_PERCENT) / 100
        } else {
            u128::MAX
        };
        self.adjusted_at = self.adjusted_at.min(objects);
        let made = objects - self.adjusted_at;
        if tells && made >= OBJECTS_BETWEEN_ADJUSTMENTS.saturating_mul(servers) {
            self.adjusted_at = objects;
            let of_equals = |known: &Known| fair(u128::from(known.load.objects), known) / servers;
            let of_equals: Vec<u64> = known.values().map(of_equals).collect();
            self.adaptive.adjust(&of_equals);
        }
    }

    /// What the next directory or file is placed by; `random` is drawn by the caller. `near`: the shard of its
    /// parent's unit, if it is a directory.
    pub fn placing(&self, map: &ClusterMap, random: u64, near: Option<ShardId>) -> Placing {
        let shards = u64::from(map.shard_count());
        let one = ShardId((random % shards) as u16);
        let other = ShardId(((random >> 32) % shards) as u16);
        let load = near.and_then(|near| self.loads.get(usize::from(near.0)));
        let is_small = load.is_some_and(|&load| u128::from(load) > self.overloaded);
        Placing {
            granularity: if is_small {
                Granularity::SMALLEST
            } else {
                self.granularity()
            },
            shard: less_loaded(one, other, &self.loads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::cluster;
    use crate::ddg::{GrainState, place_file};

    /// A cluster whose servers lead as many shards each.
    fn even(servers: u16) -> ClusterMap {
        let mut map = cluster(64, servers);
        for (shard, leader) in (0..).zip(&mut map.shards) {
            *leader = ServerId(shard % servers);
        }
        map
    }

    fn told(objects: &[u64]) -> BTreeMap<ServerId, ServerLoad> {
        let load = |&objects| ServerLoad {
            objects,
            requests: 0,
        };
        (0..).map(ServerId).zip(objects.iter().map(load)).collect()
    }

    #[test]
    fn nothing_follows_until_all_have_told() {
        let map = cluster(64, 3);
        let mut placer = Placer::new(&map);
        let before = placer.granularity();
        placer.hear(&map, &told(&[1_000_000, 1]));
        assert_eq!(placer.granularity(), before);
        let full = map.shards_of(ServerId(0))[0];
        let placing = placer.placing(&map, u64::from(full.0), Some(full));
        assert_eq!((placing.granularity, placing.shard), (before, full));
    }

    #[test]
    fn it_is_adjusted_only_as_objects_are_made_and_by_one_step() {
        let map = cluster(64, 3);
        let mut placer = Placer::new(&map);
        let uneven = |more: u64| told(&[10_000 + more, 10, 10]);
        placer.hear(&map, &uneven(0));
        assert_eq!(placer.granularity().dir_width, 8);
        for _ in 0..100 {
            placer.hear(&map, &uneven(95));
        }
        assert_eq!(placer.granularity().dir_width, 8, "nothing was made since");
        placer.hear(&map, &uneven(96));
        assert_eq!(placer.granularity().dir_width, 4);
        // What is removed and made again is new.
        placer.hear(&map, &told(&[1_010, 1_010, 1_010]));
        let depth = placer.granularity().dir_depth;
        placer.hear(&map, &told(&[1_600, 1_010, 1_010]));
        assert_eq!(placer.granularity().dir_depth, depth - 1);
    }

    #[test]
    fn as_long_as_there_is_little_only_the_draw_goes_by_it() {
        let map = even(2);
        let mut placer = Placer::new(&map);
        let begun = placer.granularity();
        placer.hear(&map, &told(&[1_900, 99]));
        let placing = placer.placing(&map, 1 << 32, Some(ShardId(0)));
        assert_eq!((placing.granularity, placing.shard), (begun, ShardId(1)));
        placer.hear(&map, &told(&[1_900, 100]));
        let placing = placer.placing(&map, 0, Some(ShardId(0)));
        assert_eq!(placing.granularity, Granularity::SMALLEST);
        assert_ne!(placer.granularity(), begun);
    }

    #[test]
    fn a_server_of_more_weight_is_to_have_more_however_many_shards_it_leads() {
        let mut map = even(2);
        map.servers[0].weight *= 3;
        let mut placer = Placer::new(&map);
        placer.hear(&map, &told(&[30_000, 10_000]));
        assert_eq!(placer.granularity().dir_depth, 5, "it is even");
        // Both have their part: none is better than the other.
        assert_eq!(placer.placing(&map, 1 << 32, None).shard, ShardId(0));
        assert_eq!(placer.placing(&map, 1, None).shard, ShardId(1));
        for shard in [0, 1] {
            let size = placer.placing(&map, 0, Some(ShardId(shard))).granularity;
            assert_ne!(size, Granularity::SMALLEST);
        }
    }

    #[test]
    fn a_unit_begins_where_there_is_less_and_is_small_where_there_is_more() {
        let map = even(2);
        let mut placer = Placer::new(&map);
        placer.hear(&map, &told(&[5_000, 1_000]));
        let (full, free) = (map.shards_of(ServerId(0))[0], map.shards_of(ServerId(1))[0]);
        let drawn = u64::from(full.0) | u64::from(free.0) << 32;
        assert_eq!(placer.placing(&map, drawn, None).shard, free);
        let drawn = u64::from(free.0) | u64::from(full.0) << 32;
        assert_eq!(placer.placing(&map, drawn, None).shard, free);
        let size = |near| placer.placing(&map, 0, Some(near)).granularity;
        assert_eq!(size(full), Granularity::SMALLEST);
        assert_eq!(size(free), placer.granularity());
    }

    #[test]
    fn requests_count_beside_objects_when_there_are_many() {
        let map = even(2);
        let mut placer = Placer::new(&map);
        let (busy, idle) = (map.shards_of(ServerId(0))[0], map.shards_of(ServerId(1))[0]);
        let drawn = u64::from(busy.0) | u64::from(idle.0) << 32;
        for (requests, expected) in [(1_999, busy), (200_000, idle)] {
            let mut loads = told(&[10_000, 10_000]);
            loads.get_mut(&ServerId(0)).unwrap().requests = requests;
            placer.hear(&map, &loads);
            assert_eq!(placer.placing(&map, drawn, None).shard, expected);
            let is_small = placer.placing(&map, 0, Some(busy)).granularity == Granularity::SMALLEST;
            assert_eq!(is_small, expected == idle);
        }
    }

    #[test]
    fn no_load_is_too_large() {
        let map = even(2);
        let mut placer = Placer::new(&map);
        let largest = ServerLoad {
            objects: u64::MAX,
            requests: u64::MAX,
        };
        let all = [(ServerId(0), largest), (ServerId(1), largest)];
        placer.hear(&map, &all.into_iter().collect());
        let _ = placer.placing(&map, u64::MAX, Some(ShardId(0)));
    }

    /// What a cluster becomes that is filled by nothing but new units: the loads come together, and the granularity
    /// comes to rest.
    #[test]
    fn it_evens_out_and_does_not_swing() {
        let map = even(4);
        let mut placer = Placer::new(&map);
        let mut objects = [4_000, 0, 0, 0];
        let mut random = 1_u64;
        let mut changes = Vec::new();
        for _ in 0..400 {
            placer.hear(&map, &told(&objects));
            changes.push(placer.granularity());
            for _ in 0..32 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let shard = placer.placing(&map, random.rotate_left(20), None).shard;
                objects[usize::from(map.server_of(shard).0)] += 8;
            }
        }
        let most = objects.iter().max().unwrap() * 4 * 100 / objects.iter().sum::<u64>();
        assert!(most < 130, "{objects:?}");
        // Small while all was on one server, then larger, and never back.
        let mut widths: Vec<u32> = changes.iter().map(|size| size.dir_width).collect();
        widths.dedup();
        assert_eq!(widths, [8, 4, 8, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn files_are_kept_together_up_to_a_part_of_what_a_server_has() {
        let map = even(2);
        let mut placer = Placer::new(&map);
        placer.hear(&map, &told(&[320_000, 320_000]));
        let width = placer.granularity().file_width;
        assert_eq!(width, 20_000);
        let parent = GrainState {
            file_num: width,
            ..GrainState::root(ShardId(0))
        };
        assert_eq!(place_file(width, &parent, ShardId(9)).shard, ShardId(9));
    }
}
