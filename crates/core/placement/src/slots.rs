//! Slot arrays: the shards that a directory spreads over, and its largest number of partitions.

use crate::cluster::ClusterMap;
use crate::dirmap::{DirMap, PartitionIndex};
use pandofs_types::limits::{
    MAX_PARTITIONS, MAX_SERVER_OVERLOAD_PERCENT, MERGE_FRACTION, MERGED_FRACTION,
};
use pandofs_types::{ServerId, ShardId};
use siphasher::sip::SipHasher24;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hasher;

/// A partition with more than the threshold over this splits before it is full, where it is to spread to servers that
/// joined and a rebalance has asked for it.
const SPREAD_FRACTION: u64 = 4;

// The halves of what was split to spread are no candidates for a merge.
const _: () = assert!(2 * SPREAD_FRACTION < MERGE_FRACTION && SPREAD_FRACTION <= MERGED_FRACTION);

/// The shard of each of a directory's `max_partitions` partitions.
///
/// Slot 0 is `home`. The servers take turns, that of `home` first, so successive partitions land on
/// different servers as long as there are any (GIGA+'s round robin), and any run of as many slots
/// as servers lead shards has each of them once. On one server the slots go round its shards. The
/// order of the other servers and the shard a server starts with come from `salt`, which is to be
/// the directory's own (its inode number): else every directory's partition 1 were on the same
/// server.
///
/// A server that leads no shard gets no slot. Weights do not count here: they decide how many
/// shards a server leads, so how many directories, not its part of one directory.
///
/// # Panics
/// When `map` has no shard `home`, or `max_partitions` is not 1 to `MAX_PARTITIONS`.
pub fn slot_array(map: &ClusterMap, home: ShardId, max_partitions: u32, salt: u64) -> Vec<ShardId> {
    let count = max_partitions as usize;
    assert!((1..=MAX_PARTITIONS).contains(&count), "{count} partitions");
    let home_server = map.server_of(home);
    let mut servers = map.leading_servers();
    servers.sort_by_key(|&server| (server != home_server, salted(salt, server), server));
    let turns: Vec<Vec<ShardId>> = servers
        .into_iter()
        .map(|server| {
            let mut shards = map.shards_of(server);
            let first = if server == home_server {
                shards.iter().position(|&shard| shard == home).unwrap_or(0)
            } else {
                (salted(salt, server) % shards.len() as u64) as usize
            };
            shards.rotate_left(first);
            shards
        })
        .collect();
    (0..count)
        .map(|slot| {
            let shards = &turns[slot % turns.len()];
            shards[slot / turns.len() % shards.len()]
        })
        .collect()
}

/// A slot array with more slots: what it has stays, and the slots that come go first to servers that have none, to each
/// as many in a row as the server with the most of them has (GIGA+, "On-line server additions": the sequential rule).
/// Where `at_least` slots are wanted and these are fewer, the servers take turns for the rest, in the order of their
/// first slots. Nothing is added beyond `MAX_PARTITIONS` slots.
///
/// By this alone what the new servers get hangs on how many slots there were: [`renewed_slots`] does better where servers
/// joined.
///
/// # Panics
/// When `slots` has shards that `map` does not know, or none.
pub fn extended_slots(slots: &[ShardId], map: &ClusterMap, at_least: u32) -> Vec<ShardId> {
    assert!(!slots.is_empty(), "a directory without its home's slot");
    let mut order: Vec<ServerId> = Vec::new();
    let mut has: HashMap<ServerId, usize> = HashMap::new();
    for &shard in slots {
        let server = map.server_of(shard);
        *has.entry(server).or_insert_with(|| {
            order.push(server);
            0
        }) += 1;
    }
    let each = has.values().copied().max().unwrap_or(1);
    let mut extended = slots.to_vec();
    // A server's slots go round its shards, from the one after that of its last slot.
    let mut last: HashMap<ServerId, ShardId> = HashMap::new();
    for &shard in slots {
        last.insert(map.server_of(shard), shard);
    }
    let mut add = |extended: &mut Vec<ShardId>, server: ServerId| {
        let shards = map.shards_of(server);
        let next = last
            .get(&server)
            .and_then(|last| shards.iter().position(|shard| shard == last))
            .map_or(0, |place| (place + 1) % shards.len());
        last.insert(server, shards[next]);
        extended.push(shards[next]);
    };
    for server in map.leading_servers() {
        if !has.contains_key(&server) {
            order.push(server);
            for _ in 0..each {
                add(&mut extended, server);
            }
        }
    }
    let wanted = (at_least as usize).min(MAX_PARTITIONS);
    let mut turns = order.iter().cycle();
    while extended.len() < wanted
        && let Some(&server) = turns.next()
    {
        add(&mut extended, server);
    }
    extended.truncate(MAX_PARTITIONS.max(slots.len()));
    extended
}

/// How many partitions a directory may have: as many as were `set` for it, or for all, or as spread its load. That
/// grows when servers join.
pub fn partitions_allowed(map: &ClusterMap, set: Option<u32>, directory: &DirMap) -> u32 {
    if let Some(set) = set.or(map.settings.max_partitions) {
        return set;
    }
    let default = map.max_partitions();
    if !directory.has_slots() || !knows_all(map, directory) {
        return default;
    }
    let renewed = renewed_slots(map, directory, None, (0, 0));
    let slots = renewed.map_or(directory.slots().len(), |slots| slots.len());
    default.max(slots as u32)
}

/// The slot array that a directory which has one is to get in this cluster, if that is another: servers joined, or
/// it may have more partitions than it has slots.
///
/// Servers that joined are given slots of partitions that are not active, and so have no entries (GIGA+, "On-line
/// server additions"): of those that the array has, and of as many more as it takes for the fullest server to have at
/// most `MAX_SERVER_OVERLOAD_PERCENT` more than the mean when all partitions are active. An active partition stays where
/// it is. One that is not is proposed for the shard of the partition that it is split from, where it costs nothing,
/// unless that server has more than its share: then it goes to the one that has least. So entries move from servers
/// that have too much to those that have too little, and not otherwise.
///
/// `set` are the partitions that the directory may have, if they were set (for it or for all),
/// `initial` how many it has whatever its size, and `salt` is to be its own, as for [`slot_array`].
pub fn renewed_slots(
    map: &ClusterMap,
    directory: &DirMap,
    set: Option<u32>,
    (initial, salt): (u32, u64),
) -> Option<Vec<ShardId>> {
    let slots = directory.slots();
    if !directory.has_slots() || !knows_all(map, directory) {
        return None;
    }
    let wanted = set.unwrap_or_else(|| map.max_partitions()).max(initial);
    let wanted = (wanted as usize).clamp(slots.len(), MAX_PARTITIONS.max(slots.len()));
    let renewed = if is_for(map, slots, set.map(|_| wanted)) {
        if wanted == slots.len() {
            return None;
        }
        extended_slots(slots, map, wanted as u32)
    } else if set.is_some() {
        Renewal::of(map, directory, wanted, salt).slots
    } else {
        balanced(map, directory, wanted, salt)
    };
    (renewed != slots).then_some(renewed)
}

/// Whether the cluster has all shards of the slots: else it is an old map.
fn knows_all(map: &ClusterMap, directory: &DirMap) -> bool {
    directory.slots().iter().all(|&shard| map.has_shard(shard))
}

/// Whether the slots were made for all servers that there are, as far as can be told at once. The shards of those that
/// joined last have the highest numbers, and a directory that is given slots for new servers is given some on all of
/// them: a directory that has one there knows them all. One that may have few partitions need not have any there.
fn is_for(map: &ClusterMap, slots: &[ShardId], set: Option<usize>) -> bool {
    let Some(&newest) = map.shards.last() else {
        return true;
    };
    if slots.iter().any(|&shard| map.server_of(shard) == newest) {
        return true;
    }
    match set {
        None => slots.len() >= MAX_PARTITIONS,
        Some(most) => {
            let servers: BTreeSet<ServerId> = slots.iter().map(|&s| map.server_of(s)).collect();
            servers.len() >= most.min(map.leading_servers().len())
        }
    }
}

/// The shortest array of `least` slots or more that spreads the directory evenly, or the one of `MAX_PARTITIONS` if none
/// does. Of long arrays not every length is looked at.
fn balanced(map: &ClusterMap, directory: &DirMap, least: usize, salt: u64) -> Vec<ShardId> {
    let mut count = least;
    loop {
        let renewal = Renewal::of(map, directory, count, salt);
        if renewal.is_balanced() || count >= MAX_PARTITIONS {
            return renewal.slots;
        }
        count = (count + (count / 16).max(1)).min(MAX_PARTITIONS);
    }
}

/// A slot array for servers that joined, and what each server has of the hash space when all its partitions are active.
struct Renewal {
    slots: Vec<ShardId>,
    /// In units of the smallest partition.
    loads: BTreeMap<ServerId, usize>,
}

impl Renewal {
    fn of(map: &ClusterMap, directory: &DirMap, count: usize, salt: u64) -> Renewal {
        let depth = usize::BITS - (count - 1).leading_zeros();
        let mut loads: BTreeMap<ServerId, usize> = map
            .leading_servers()
            .into_iter()
            .map(|server| (server, 0))
            .collect();
        let mut turns = Turns::new(map, salt);
        for index in directory.active() {
            let shard = directory.shard_of_partition(index);
            turns.took(shard);
            *loads.entry(map.server_of(shard)).or_default() +=
                1 << (depth - u32::from(directory.depth_of(index)));
        }
        let share = (1 << depth) / loads.len();
        let mut slots = directory.slots().to_vec();
        slots.resize(count, directory.home());
        for at in 1..count {
            let index = PartitionIndex(at as u32);
            if directory.is_active(index) {
                continue;
            }
            // A partition comes after the one it is split from, so what is proposed for that is known.
            let parent = index.parent().map_or(0, |parent| parent.0 as usize);
            slots[at] = slots[parent];
            let giver = map.server_of(slots[parent]);
            let units = 1 << (depth - (u32::BITS - index.0.leading_zeros()));
            let left = loads[&giver].saturating_sub(units);
            // Of those that have as little as one another the one that joined last.
            let least = loads
                .iter()
                .min_by_key(|&(&server, &load)| (load, Reverse(server)));
            if left >= share
                && let Some((&taker, &load)) = least
                && load + units <= left
            {
                slots[at] = turns.next(taker);
                loads.insert(giver, left);
                loads.insert(taker, load + units);
            }
        }
        Renewal { slots, loads }
    }

    fn is_balanced(&self) -> bool {
        let most = self.loads.values().max().copied().unwrap_or(0);
        let total: usize = self.loads.values().sum();
        most * self.loads.len() * 100 <= total * (100 + MAX_SERVER_OVERLOAD_PERCENT)
    }
}

/// The shards of each server in turn.
struct Turns<'m> {
    map: &'m ClusterMap,
    salt: u64,
    last: HashMap<ServerId, ShardId>,
}

impl<'m> Turns<'m> {
    fn new(map: &'m ClusterMap, salt: u64) -> Turns<'m> {
        let last = HashMap::new();
        Turns { map, salt, last }
    }

    fn took(&mut self, shard: ShardId) {
        self.last.insert(self.map.server_of(shard), shard);
    }

    fn next(&mut self, server: ServerId) -> ShardId {
        let shards = self.map.shards_of(server);
        let last = self.last.get(&server);
        let place = last.and_then(|last| shards.iter().position(|shard| shard == last));
        let next = match place {
            Some(place) => (place + 1) % shards.len(),
            None => (salted(self.salt, server) % shards.len() as u64) as usize,
        };
        self.last.insert(server, shards[next]);
        shards[next]
    }
}

/// Entries over which a partition that [is to spread](is_to_spread) splits before it is full, where partitions split over
/// this threshold: its halves are not to be merged again.
pub fn least_to_spread(threshold: u64) -> u64 {
    (threshold / SPREAD_FRACTION).max(MERGE_FRACTION)
}

/// Whether an active partition still has to split, into `most` partitions in all, for other servers to get what is theirs
/// of a directory whose slots were made anew. (When servers joined, that is worth doing before the partition is full: see
/// `pandofs rebalance`.)
///
/// # Panics
/// When `index` is not active.
pub fn is_to_spread(
    map: &ClusterMap,
    directory: &DirMap,
    index: PartitionIndex,
    most: u32,
) -> bool {
    let here = directory.shard_of_partition(index);
    let elsewhere = |shard| map.has_shard(shard) && map.server_of(shard) != map.server_of(here);
    directory.version() > 1
        && map.has_shard(here)
        && still_to_split(directory, index, most).any(elsewhere)
}

/// Returns whether an active partition stays whole though it is full, as all that it would split off is
/// to stay on its shard: where slots were made anew for servers that joined, and no one has `set`
/// how many partitions there may be.
///
/// # Panics
/// When `index` is not active.
pub fn is_to_stay(
    map: &ClusterMap,
    directory: &DirMap,
    set: Option<u32>,
    index: PartitionIndex,
) -> bool {
    if set.or(map.settings.max_partitions).is_some() || directory.version() <= 1 {
        return false;
    }
    let here = directory.shard_of_partition(index);
    still_to_split(directory, index, MAX_PARTITIONS as u32).all(|shard| shard == here)
        && renewed_slots(map, directory, None, (0, 0)).is_none()
}

/// The shards proposed for the partitions that are still to come out of an active one.
fn still_to_split(
    directory: &DirMap,
    index: PartitionIndex,
    most: u32,
) -> impl Iterator<Item = ShardId> + '_ {
    let step = 1_usize << directory.depth_of(index);
    let slots = directory.slots();
    let most = slots.len().min(most as usize);
    (index.0 as usize + step..most)
        .step_by(step)
        .map(move |at| slots[at])
}

/// A number that looks random in `server`, another for every `salt`.
fn salted(salt: u64, server: ServerId) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(salt, 0);
    hasher.write(&server.0.to_le_bytes());
    hasher.finish()
}

/// The smallest number of partitions per server such that, once all are active, the most loaded
/// server has at most `MAX_SERVER_OVERLOAD_PERCENT` more of the hash space than the mean.
///
/// A number of partitions that is no power of two leaves some of them twice as large as the others;
/// more partitions per server make that even. A power of two of servers needs one each.
///
/// # Panics
/// When `servers` is 0.
pub fn partitions_per_server(servers: usize) -> u32 {
    assert!(servers > 0, "no servers");
    // Ends: a server's large partitions are within one of the mean, and one weighs less than a
    // tenth of a server's share once there are twenty partitions per server.
    let mut per_server = 1;
    while !is_balanced(servers, per_server) {
        per_server += 1;
    }
    per_server as u32
}

fn is_balanced(servers: usize, per_server: usize) -> bool {
    let loads = server_loads(servers, per_server * servers);
    let most = loads.iter().max().copied().unwrap_or(0);
    let total: usize = loads.iter().sum();
    most * servers * 100 <= total * (100 + MAX_SERVER_OVERLOAD_PERCENT)
}

/// The part of the hash space that each server has when `partitions` are all active and go round
/// the servers, in units of the smallest partition.
fn server_loads(servers: usize, partitions: usize) -> Vec<usize> {
    // The partitions below `whole` are at one depth, but for those that split once more into
    // themselves and a partition at or over `whole`.
    let whole = 1 << partitions.ilog2();
    let split = partitions - whole;
    let mut loads = vec![0; servers];
    for index in 0..partitions {
        let units = if index < split || index >= whole {
            1
        } else {
            2
        };
        loads[index % servers] += units;
    }
    loads
}

/// How many partitions a directory may have unless the settings say otherwise: the
/// [`partitions_per_server`] of the servers that lead shards, times their number; never over
/// `MAX_PARTITIONS`.
pub fn default_max_partitions(map: &ClusterMap) -> u32 {
    let servers = map.leading_servers().len();
    (partitions_per_server(servers) * servers as u32).min(MAX_PARTITIONS as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::cluster;

    #[test]
    fn partitions_for_each_number_of_servers() {
        let table = [
            (1, 1),
            (2, 1),
            (3, 6),
            (4, 1),
            (5, 4),
            (6, 6),
            (7, 3),
            (8, 1),
            (9, 8),
            (10, 4),
            (11, 2),
            (12, 6),
            (13, 3),
            (14, 3),
            (15, 5),
            (16, 1),
            (17, 1),
            (24, 6),
            (32, 1),
            (100, 6),
            (1_000, 5),
            (1_024, 1),
        ];
        for (servers, expected) in table {
            assert_eq!(
                partitions_per_server(servers),
                expected,
                "{servers} servers"
            );
        }
    }

    #[test]
    fn the_default_is_a_multiple_of_the_servers_up_to_the_limit() {
        let defaults: Vec<u32> = [1, 2, 3, 4, 5, 300]
            .map(|servers| default_max_partitions(&cluster(512, servers)))
            .into();
        assert_eq!(defaults, [1, 2, 18, 4, 20, MAX_PARTITIONS as u32]);
    }

    /// The loads that the number is computed from are those of real maps.
    #[test]
    fn loads_are_those_of_the_directory_map() {
        for servers in [1_u16, 2, 3, 4, 5, 7, 12] {
            let map = cluster(64, servers);
            let partitions = default_max_partitions(&map);
            let slots = slot_array(&map, ShardId(5), partitions, 99);
            let directory = DirMap::with_slots(slots, partitions);
            let mut load = vec![0.0; usize::from(servers)];
            for (index, start, end) in directory.in_order() {
                let server = map.server_of(directory.shard_of_partition(index));
                load[usize::from(server.0)] +=
                    (end.0 - start.0) as f64 / pandofs_types::Position::END.0 as f64;
            }
            let most = load.iter().copied().fold(0.0, f64::max);
            assert!(
                most * f64::from(servers) <= 1.1 + 1e-9,
                "{servers} servers: {load:?}"
            );
            let computed = server_loads(usize::from(servers), partitions as usize);
            let total: usize = computed.iter().sum();
            let most_computed = computed.iter().max().copied().unwrap() as f64 / total as f64;
            assert!((most - most_computed).abs() < 1e-9);
        }
    }

    #[test]
    fn a_server_picks_its_shards_in_turn() {
        let map = cluster(64, 4);
        let home = ShardId(9);
        let slots = slot_array(&map, home, 64, 5);
        let home_server = map.server_of(home);
        let mine = map.shards_of(home_server);
        let picked: Vec<ShardId> = slots
            .iter()
            .copied()
            .filter(|&shard| map.server_of(shard) == home_server)
            .collect();
        assert_eq!(picked.len(), 16);
        assert_eq!(picked[0], home);
        let first = mine.iter().position(|&shard| shard == home).unwrap();
        for (turn, shard) in picked.iter().enumerate() {
            assert_eq!(*shard, mine[(first + turn) % mine.len()]);
        }
    }

    #[test]
    fn directories_of_one_home_differ_in_where_they_go_next() {
        let map = cluster(64, 4);
        let home = ShardId(0);
        let mut second = [0; 4];
        for salt in 0..300 {
            let slots = slot_array(&map, home, 2, salt);
            second[usize::from(map.server_of(slots[1]).0)] += 1;
        }
        for (server, &times) in second.iter().enumerate() {
            if ServerId(server as u16) == map.server_of(home) {
                assert_eq!(times, 0);
            } else {
                assert!((70..=130).contains(&times), "{second:?}");
            }
        }
    }

    /// Figure 2 of GIGA+: five servers with three partitions each, and two join.
    #[test]
    fn slots_of_new_servers_come_in_rows_after_those_that_are_there() {
        let after = cluster(64, 7);
        let slots: Vec<ShardId> = (0..15)
            .map(|slot: u16| after.shards_of(ServerId(slot % 5))[0])
            .collect();
        let extended = extended_slots(&slots, &after, 0);
        assert_eq!(extended[..15], slots);
        assert_eq!(servers_of(&after, &extended[15..]), [5, 5, 5, 6, 6, 6]);
        assert_eq!(extended_slots(&extended, &after, 0), extended);
        assert_eq!(extended_slots(&extended, &after, 21), extended);
    }

    fn servers_of(map: &ClusterMap, slots: &[ShardId]) -> Vec<u16> {
        slots.iter().map(|&shard| map.server_of(shard).0).collect()
    }

    #[test]
    fn where_more_slots_are_wanted_the_servers_take_turns() {
        let map = cluster(64, 3);
        let slots = vec![map.shards_of(ServerId(1))[0], map.shards_of(ServerId(0))[0]];
        let extended = extended_slots(&slots, &map, 9);
        assert_eq!(servers_of(&map, &extended), [1, 0, 2, 1, 0, 2, 1, 0, 2]);
        // Other shards of a server before the same again.
        assert_eq!(extended[3], map.shards_of(ServerId(1))[1]);
        assert_eq!(extended_slots(&slots, &map, 5_000).len(), MAX_PARTITIONS);
    }

    /// The array is stored with the directory, but a home that computes it anew before it is stored
    /// must come to the same one.
    #[test]
    fn the_array_is_pinned() {
        let map = cluster(8, 4);
        let slots = slot_array(&map, ShardId(3), 8, 1);
        assert_eq!(slots, slot_array(&map, ShardId(3), 8, 1));
        let servers: Vec<u16> = slots.iter().map(|&shard| map.server_of(shard).0).collect();
        assert_eq!(servers[..4], servers[4..]);
        assert_eq!(
            slots.iter().map(|shard| shard.0).collect::<Vec<_>>(),
            PINNED
        );
    }

    const PINNED: [u16; 8] = [3, 5, 6, 0, 4, 1, 2, 7];
}
