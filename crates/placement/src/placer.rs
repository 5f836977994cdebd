//! What a server needs for the policies that adapt: what all servers have, as far as it knows, and what follows from
//! that for what is made next.
//!
//! It knows of three kinds:
//!
//! - what its own shard has: exactly, and now;
//! - what all servers told each other: now and then, and late ([`Placer::hear`]);
//! - that a server which gives it something has at least as much as itself: it would have kept it otherwise
//!   ([`Placer::was_given`]). A busy cluster makes thousands of objects between two tellings, and this is all that
//!   anybody hears meanwhile. It takes no message of its own.

use crate::adaptive::{Bounds, Granularity};
use crate::cluster::ClusterMap;
use pandofs_types::{ServerId, ShardId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

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

/// A server has too much with this much more than its part, in per cent of that.
pub const TOO_MUCH_PERCENT: u128 = 30;
/// And with no less than so many objects more: with the paper's costs about as many are made and removed in the time of the
/// eight forced writes that a border between units costs, when something is made there and when it is removed.
pub const OBJECTS_OF_A_BORDER: u64 = 128;
/// Until a server has so many objects for its weight it has all directories elsewhere that are made in its own. What is made
/// first is mostly what is highest in the tree, above all if many make parts of it at once; if that is on one server, then
/// all that follows below it is a border there once it has too much, and its disk is what everybody waits for. The price
/// is so many borders for each server, once.
pub const OBJECTS_OF_THE_TOP: u64 = 12;
/// Of what a server has on the average, the files of one directory may be one part in so many.
pub const DIRECTORY_FRACTION: u128 = 16;
/// Of all servers together, for each of them: with fewer requests than this of late nothing is said by how they are
/// spread.
const REQUESTS_THAT_COUNT: u64 = 1_000;

/// What is known of a server.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Of the shard's own server: those of its other shards.
    objects: u64,
    /// Its requests of late, as so many objects: all requests count as much as all objects do.
    busy: u64,
    /// That much of everything is its part.
    weight: u128,
}

/// Of one shard. See the module.
#[derive(Clone, Debug)]
pub struct Placer {
    shard: ShardId,
    here: ServerId,
    bounds: Bounds,
    servers: BTreeMap<ServerId, Known>,
    /// Of all servers together: objects and what they are busy with, and weights.
    all: u128,
    weights: u128,
}

impl Placer {
    /// Of a shard that has so many inodes as it starts. As nobody has told anything yet, all other servers are taken to
    /// have as much for their weight as this one.
    pub fn new(map: &ClusterMap, shard: ShardId, inodes: u64) -> Placer {
        let here = map.server_of(shard);
        let led = map.shards_of(here).len() as u64;
        let mut placer = Placer {
            shard,
            here,
            bounds: Bounds::of(map.policy, map.settings.file_policy),
            servers: servers(map),
            all: 0,
            weights: 0,
        };
        // Who has the root alone is of a new file system, in which nobody has anything.
        let own = if inodes <= 1 {
            inodes
        } else {
            inodes.saturating_mul(led)
        };
        let weight = placer.servers.get(&here).map_or(1, |known| known.weight);
        for (server, known) in &mut placer.servers {
            known.objects = if *server == here {
                own - inodes
            } else {
                u64::try_from(u128::from(own) * known.weight / weight).unwrap_or(u64::MAX)
            };
        }
        placer.add_up();
        placer
    }

    fn add_up(&mut self) {
        let has = |known: &Known| u128::from(known.objects) + u128::from(known.busy);
        self.all = self.servers.values().map(has).sum();
        self.weights = self.servers.values().map(|known| known.weight).sum();
    }

    /// What all servers have together if each has as much for its weight as this one; the shard has so many inodes.
    fn load(&self, server: ServerId, inodes: u64) -> u128 {
        let Some(known) = self.servers.get(&server) else {
            return 0;
        };
        let own = if server == self.here { inodes } else { 0 };
        let has = u128::from(known.objects) + u128::from(known.busy) + u128::from(own);
        has * self.weights / known.weight
    }

    /// Whether the shard's server has too much.
    fn has_too_much(&self, inodes: u64) -> bool {
        let even = self.all + u128::from(inodes);
        let border = u128::from(OBJECTS_OF_A_BORDER) * self.servers.len() as u128;
        self.load(self.here, inodes) > even + (even * TOO_MUCH_PERCENT / 100).max(border)
    }

    /// Whether the shard's server has so little that what is made in its directories is to be spread.
    fn is_at_the_top(&self, inodes: u64) -> bool {
        let top = u128::from(OBJECTS_OF_THE_TOP) * self.servers.len() as u128;
        self.load(self.here, inodes) < top
    }

    /// The one in force, with so many inodes here.
    pub fn granularity(&self, inodes: u64) -> Granularity {
        self.of_size(inodes, self.has_too_much(inodes))
    }

    fn of_size(&self, inodes: u64, is_small: bool) -> Granularity {
        let Bounds { least, most } = self.bounds;
        let each = (self.all + u128::from(inodes)) / self.servers.len().max(1) as u128;
        let file_width = u32::try_from(each / DIRECTORY_FRACTION).unwrap_or(u32::MAX);
        Granularity {
            file_width: file_width.clamp(least.file_width, most.file_width),
            ..if is_small { least } else { most }
        }
    }

    /// Bytes of what it knows of the servers, about: a B-tree's nodes are three quarters full.
    pub fn memory_bytes(&self) -> usize {
        self.servers.len() * size_of::<(ServerId, Known)>() * 4 / 3
    }

    /// Takes what servers have. Of one that has told nothing that stays known which was; those that lead no shard have
    /// nothing to say.
    pub fn hear(&mut self, map: &ClusterMap, inodes: u64, told: &BTreeMap<ServerId, ServerLoad>) {
        let before = std::mem::replace(&mut self.servers, servers(map));
        let told = |server: &ServerId| told.get(server).copied();
        for (server, known) in &mut self.servers {
            known.objects = match (told(server), before.get(server)) {
                (Some(load), _) if *server == self.here => load.objects.saturating_sub(inodes),
                (Some(load), _) => load.objects,
                (None, Some(before)) => before.objects,
                (None, None) => 0,
            };
        }
        let requests = |server: &ServerId| told(server).map_or(0, |load| load.requests);
        let all_requests = self.servers.keys().map(requests);
        let all_requests = all_requests.fold(0_u64, u64::saturating_add);
        self.add_up();
        let servers = self.servers.len() as u64;
        if all_requests >= REQUESTS_THAT_COUNT.saturating_mul(servers) {
            let objects = self.all + u128::from(inodes);
            for (server, known) in &mut self.servers {
                let busy = objects * u128::from(requests(server)) / u128::from(all_requests);
                known.busy = u64::try_from(busy).unwrap_or(u64::MAX);
            }
            self.add_up();
        }
    }

    /// Another shard has something placed here, where there are so many inodes: its server has at least as much for its
    /// weight as this one.
    pub fn was_given(&mut self, map: &ClusterMap, from: ShardId, inodes: u64) {
        let server = map.server_of(from);
        let load = self.load(self.here, inodes);
        let missing = load.saturating_sub(self.load(server, inodes));
        if let Some(known) = self.servers.get_mut(&server) {
            let missing = missing * known.weight / self.weights;
            let missing = u64::try_from(missing).unwrap_or(u64::MAX);
            known.objects = known.objects.saturating_add(missing);
            self.add_up();
        }
    }

    /// What the next directory or file is placed by; `random` is drawn by the caller. `near`: the shard of its
    /// parent's unit, if it is a directory.
    ///
    /// As long as this server has no more than its part, what is made here stays here, in units as large as can be, and a
    /// new unit begins here. Once it has too much units are as small as can be, and a new one begins on the less loaded
    /// of two shards that are drawn; and so it is with directories while it has hardly anything. Small as well is what
    /// a parent here has elsewhere: each of its children there is a border.
    pub fn placing(
        &self,
        map: &ClusterMap,
        inodes: u64,
        random: u64,
        near: Option<ShardId>,
    ) -> Placing {
        let has_too_much = self.has_too_much(inodes);
        let is_first = near.is_some() && self.is_at_the_top(inodes);
        let is_away = near.is_some_and(|near| near != self.shard);
        let less = self.less_loaded(map, inodes, random);
        // While all have hardly anything each is as good as any other; another shard of the same server is none.
        let goes = if is_first {
            map.server_of(less) != self.here
        } else {
            has_too_much && self.of_shard(map, less, inodes) < self.load(self.here, inodes)
        };
        Placing {
            granularity: self.of_size(inodes, has_too_much || is_first || is_away),
            shard: if goes { less } else { self.shard },
        }
    }

    fn of_shard(&self, map: &ClusterMap, shard: ShardId, inodes: u64) -> u128 {
        self.load(map.server_of(shard), inodes)
    }

    /// Of two shards drawn at random the one whose server has less. (Choosing the less loaded of two keeps the largest load
    /// near the mean where a single draw does not: Azar, Broder, Karlin and Upfal, "Balanced Allocations", 1994. And
    /// servers that know the same do not all give to the same one.)
    fn less_loaded(&self, map: &ClusterMap, inodes: u64, random: u64) -> ShardId {
        let shards = u64::from(map.shard_count());
        let one = ShardId((random % shards) as u16);
        let other = ShardId(((random >> 32) % shards) as u16);
        if self.of_shard(map, other, inodes) < self.of_shard(map, one, inodes) {
            other
        } else {
            one
        }
    }
}

/// All that lead shards, of which nothing is known yet.
fn servers(map: &ClusterMap) -> BTreeMap<ServerId, Known> {
    // Not by `ClusterMap::server`, which looks through all of them: there may be ten thousand.
    let weights: HashMap<ServerId, u32> = map
        .servers
        .iter()
        .map(|server| (server.id, server.weight))
        .collect();
    let known = |server: ServerId| Known {
        objects: 0,
        busy: 0,
        weight: weights
            .get(&server)
            .map_or(1, |&weight| weight.max(1))
            .into(),
    };
    let leading = map.leading_servers().into_iter();
    leading.map(|server| (server, known(server))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::cluster;
    use crate::ddg::{DirPolicy, FilePolicy, GrainState, place_file};

    const DRAW: u64 = 1 << 32;

    /// A cluster whose servers lead as many shards each, shard `n` of `servers` and all that follow by server `n`.
    fn even(servers: u16) -> ClusterMap {
        let mut map = cluster(64, servers);
        for (shard, leader) in (0..).zip(&mut map.shards) {
            *leader = ServerId(shard % servers);
        }
        map.policy = DirPolicy::Adaptive(crate::DirBounds::default());
        map.settings.file_policy = FilePolicy::Adaptive(crate::FileBounds::default());
        map
    }

    fn told(objects: &[u64]) -> BTreeMap<ServerId, ServerLoad> {
        let load = |&objects| ServerLoad {
            objects,
            requests: 0,
        };
        (0..).map(ServerId).zip(objects.iter().map(load)).collect()
    }

    /// The one of shard 0 of a new file system.
    fn first(map: &ClusterMap) -> Placer {
        Placer::new(map, ShardId(0), 1)
    }

    fn size(dir_depth: u32, dir_width: u32, file_width: u32) -> Granularity {
        Granularity {
            dir_depth,
            dir_width,
            file_width,
        }
    }

    const LARGE: (u32, u32) = (6, 256);
    const SMALL: (u32, u32) = (1, 1);

    /// What is placed by: depth and width, and where a new unit begins.
    fn placing(
        placer: &Placer,
        map: &ClusterMap,
        inodes: u64,
        random: u64,
        near: u16,
    ) -> ((u32, u32), ShardId) {
        let placing = placer.placing(map, inodes, random, Some(ShardId(near)));
        let size = placing.granularity;
        ((size.dir_depth, size.dir_width), placing.shard)
    }

    /// How many inodes shard 0 has when it begins to give.
    fn gives_from(placer: &Placer, map: &ClusterMap) -> u64 {
        let gives = |&inodes: &u64| placing(placer, map, inodes, DRAW, 0).0 == SMALL;
        let from = (OBJECTS_OF_THE_TOP..1_000_000).find(gives).unwrap();
        assert_eq!(placing(placer, map, from, 1, 0), (SMALL, ShardId(1)));
        assert_eq!(placing(placer, map, from - 1, 1, 0), (LARGE, ShardId(0)));
        from
    }

    #[test]
    fn what_is_made_stays_until_a_server_has_too_much() {
        let map = even(4);
        let mut placer = first(&map);
        // The others count as having one each: 172 are 128 and more over the mean of 44, of which 30 % would be less.
        assert_eq!(gives_from(&placer, &map), 172);
        placer.hear(&map, 100, &told(&[100, 1_000, 1_000, 1_000]));
        // 1,445 of 4,445 are 30 % over the mean of 1,111.
        assert_eq!(gives_from(&placer, &map), 1_445);
    }

    #[test]
    fn what_is_made_first_is_spread() {
        let map = even(4);
        let mut placer = first(&map);
        let last = OBJECTS_OF_THE_TOP - 1;
        for inodes in [1, last] {
            // The first that is drawn if they have as much, and never another shard of the same server.
            assert_eq!(
                placing(&placer, &map, inodes, 1 | 2 << 32, 0),
                (SMALL, ShardId(1))
            );
            assert_eq!(
                placing(&placer, &map, inodes, 4 | 4 << 32, 0),
                (SMALL, ShardId(0))
            );
        }
        assert_eq!(
            placing(&placer, &map, last + 1, 1 | 2 << 32, 0),
            (LARGE, ShardId(0))
        );
        // Files are with their directories all the same.
        assert_eq!(placer.placing(&map, 1, 1 | 2 << 32, None).shard, ShardId(0));
        // What counts is what the server has, and not the shard; and the less loaded has it.
        placer.hear(&map, 1, &told(&[last, 7, 5, 0]));
        assert_eq!(placing(&placer, &map, 1, 1 | 2 << 32, 0).1, ShardId(2));
        placer.hear(&map, 1, &told(&[last + 1, 7, 5, 0]));
        assert_eq!(
            placing(&placer, &map, 1, 1 | 2 << 32, 0),
            (LARGE, ShardId(0))
        );
        // A server alone has nobody to give anything to.
        let alone = even(1);
        let placer = first(&alone);
        assert_eq!(placing(&placer, &alone, 1, 1 | 2 << 32, 0).1, ShardId(0));
    }

    #[test]
    fn a_parent_that_had_something_elsewhere_has_its_next_child_here_again() {
        let map = even(4);
        let placer = first(&map);
        assert_eq!(placing(&placer, &map, 20, DRAW, 7), (SMALL, ShardId(0)));
        // So has a parent on another shard of the same server, which is a border as well.
        assert_eq!(placing(&placer, &map, 20, DRAW, 4), (SMALL, ShardId(0)));
        // A file has no unit but its directory's.
        let of_file = placer.placing(&map, 10, DRAW, None);
        assert_eq!(
            of_file,
            Placing {
                granularity: size(6, 256, 8_000),
                shard: ShardId(0)
            }
        );
    }

    #[test]
    fn of_two_that_are_drawn_the_less_loaded_if_it_has_less() {
        let map = even(4);
        let mut placer = first(&map);
        placer.hear(&map, 5_000, &told(&[5_000, 1_000, 2_000, 6_000]));
        let drawn = |one: u64, other: u64| placing(&placer, &map, 9_000, one | other << 32, 0).1;
        assert_eq!(drawn(1, 2), ShardId(1));
        assert_eq!(drawn(2, 1), ShardId(1));
        assert_eq!(drawn(2, 5), ShardId(5), "of the same server as 1");
        assert_eq!(drawn(2, 6), ShardId(2), "the first of equals");
        assert_eq!(drawn(3, 7), ShardId(3));
        assert_eq!(drawn(0, 4), ShardId(0), "nobody has less than this one");
    }

    #[test]
    fn who_gives_has_at_least_as_much() {
        let map = even(4);
        let mut placer = first(&map);
        let alone = gives_from(&placer, &map);
        // It has as much as was here then, 100; before it counted as one.
        placer.was_given(&map, ShardId(1), 100);
        assert_eq!(gives_from(&placer, &map), alone + 33);
        // Saying so again, or from another of its shards, is nothing new.
        placer.was_given(&map, ShardId(1), 100);
        placer.was_given(&map, ShardId(5), 100);
        assert_eq!(gives_from(&placer, &map), alone + 33);
        // Nor is what another shard of the own server gives.
        placer.was_given(&map, ShardId(4), 100);
        assert_eq!(gives_from(&placer, &map), alone + 33);
        // What it tells counts, even if that is less.
        placer.hear(&map, 100, &told(&[100, 50, 1, 1]));
        assert_eq!(gives_from(&placer, &map), 4 * 128 / 3 + 52 / 3 + 2);
    }

    /// Servers that hear nothing from each other: it is enough that they give.
    #[test]
    fn a_tree_spreads_without_a_word() {
        let map = even(16);
        let mut placers: Vec<Placer> = (0..16)
            .map(|shard| Placer::new(&map, ShardId(shard), u64::from(shard == 0)))
            .collect();
        let mut objects = [0_u64; 16];
        objects[0] = 1;
        let (mut state, mut given) = (1_u64, 0);
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3
        };
        // Each directory is made in one of the latest.
        let mut made = vec![0_usize];
        for _ in 0..32_000 {
            let latest = made.len().min(8) as u64;
            let here = made[made.len() - 1 - (draw() % latest) as usize];
            let near = Some(ShardId(here as u16));
            let there = placers[here]
                .placing(&map, objects[here], draw(), near)
                .shard;
            let there = usize::from(map.server_of(there).0);
            if here != there {
                given += 1;
                placers[there].was_given(&map, ShardId(here as u16), objects[there]);
            }
            objects[there] += 1;
            made.push(there);
        }
        let most = objects.iter().max().unwrap();
        assert!(*most <= 2_000 * 17 / 10, "{objects:?}");
        assert!(given < 3_200, "{given} borders");
    }

    #[test]
    fn files_are_kept_together_up_to_a_part_of_what_a_server_has() {
        let map = even(2);
        let mut placer = first(&map);
        placer.hear(&map, 1, &told(&[1, 639_999]));
        assert_eq!(placer.granularity(1), size(6, 256, 20_000));
        placer.hear(&map, 1, &told(&[u64::MAX, u64::MAX]));
        assert_eq!(placer.granularity(1).file_width, 1 << 20);
        let parent = GrainState {
            file_num: 20_000,
            ..GrainState::root(ShardId(0))
        };
        assert_eq!(place_file(20_000, &parent, ShardId(9)).shard, ShardId(9));
    }

    #[test]
    fn the_bounds_are_those_of_the_file_system() {
        let mut map = even(2);
        map.policy = DirPolicy::Adaptive(crate::DirBounds {
            least_depth: 2,
            most_depth: 3,
            least_width: 5,
            most_width: 7,
        });
        map.settings.file_policy = FilePolicy::Adaptive(crate::FileBounds { least: 3, most: 4 });
        let placer = first(&map);
        assert_eq!(placer.granularity(1), size(3, 7, 3));
        assert_eq!(placer.granularity(1_000), size(2, 5, 4));
    }

    #[test]
    fn a_server_that_starts_takes_the_others_to_have_as_much() {
        let map = even(4);
        let placer = Placer::new(&map, ShardId(0), 10_000);
        // 160,000 on its 16 shards, and all others. With 71,000 more here, and then 72,000, the mean is 177,750 and 178,000.
        assert_eq!(placer.granularity(81_000).dir_depth, LARGE.0);
        assert_eq!(placer.granularity(82_000).dir_depth, SMALL.0);
        let mut heavy = even(4);
        heavy.servers[0].weight *= 3;
        let placer = Placer::new(&heavy, ShardId(0), 10_000);
        assert_eq!(placer.granularity(10_000).dir_depth, LARGE.0);
    }

    #[test]
    fn who_has_told_nothing_has_what_is_known() {
        let map = even(2);
        let mut placer = first(&map);
        placer.hear(&map, 1, &told(&[1, 5_000]));
        let before = gives_from(&placer, &map);
        placer.hear(&map, 1, &told(&[1]));
        assert_eq!(gives_from(&placer, &map), before);
    }

    #[test]
    fn what_other_shards_of_the_server_have_counts() {
        let map = even(4);
        let mut placer = first(&map);
        placer.hear(&map, 100, &told(&[1_500, 1_000, 1_000, 1_000]));
        assert_eq!(gives_from(&placer, &map), 1_445 - 1_400);
    }

    #[test]
    fn a_server_of_more_weight_is_to_have_more_however_many_shards_it_leads() {
        let mut map = even(2);
        map.servers[0].weight *= 3;
        let mut placer = first(&map);
        placer.hear(&map, 30_000, &told(&[30_000, 10_000]));
        assert_eq!(placing(&placer, &map, 30_000, DRAW, 0), (LARGE, ShardId(0)));
        let mut placer = Placer::new(&map, ShardId(1), 1);
        placer.hear(&map, 10_000, &told(&[30_000, 10_000]));
        assert_eq!(placing(&placer, &map, 10_000, DRAW, 1), (LARGE, ShardId(1)));
        // Its part is a quarter: this is 30 % more, and then some.
        assert_eq!(placing(&placer, &map, 19_000, 0, 1), (SMALL, ShardId(0)));
    }

    #[test]
    fn requests_count_beside_objects_when_there_are_many() {
        let map = even(2);
        let mut placer = first(&map);
        for (requests, expected) in [(1_999, LARGE), (200_000, SMALL)] {
            let mut loads = told(&[10_000, 10_000]);
            loads.get_mut(&ServerId(0)).unwrap().requests = requests;
            placer.hear(&map, 10_000, &loads);
            let there = u16::from(expected == SMALL);
            let placed = placing(&placer, &map, 10_001, 1, 0);
            assert_eq!(placed, (expected, ShardId(there)), "{requests}");
        }
    }

    #[test]
    fn no_load_is_too_large() {
        let mut map = even(2);
        map.servers[0].weight = u32::MAX;
        let largest = ServerLoad {
            objects: u64::MAX,
            requests: u64::MAX,
        };
        let all = [(ServerId(0), largest), (ServerId(1), largest)];
        for inodes in [0, u64::MAX] {
            let mut placer = Placer::new(&map, ShardId(1), inodes);
            placer.hear(&map, inodes, &all.into_iter().collect());
            placer.was_given(&map, ShardId(0), u64::MAX);
            let _ = placer.placing(&map, u64::MAX, u64::MAX, Some(ShardId(0)));
        }
    }
}
