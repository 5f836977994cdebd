//! Which shards a directory spreads over, and into how many partitions at most.

use crate::cluster::ClusterMap;
use crate::dirmap::DirMap;
use pandofs_types::limits::{MAX_PARTITIONS, MAX_SERVER_OVERLOAD_PERCENT};
use pandofs_types::{ServerId, ShardId};
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::hash::Hasher;

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

/// The slot array of a directory that has used up its own, or that servers joined for: what it has stays, and the
/// slots that come go first to the servers that joined, to each as many in a row as the server with the most of
/// them has (GIGA+, "On-line server additions": the sequential rule). So no partition moves, and all that new
/// partitions take from old ones goes to the new servers. Where `at_least` slots are wanted and these are fewer, the
/// servers take turns for the rest, in the order of their first slots.
///
/// A server counts as new when none of the slots is on it. Nothing is added beyond `MAX_PARTITIONS` slots.
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
    let slots = directory.slots();
    let is_known = || slots.iter().all(|&shard| map.has_shard(shard));
    match set.or(map.settings.max_partitions) {
        Some(set) => set,
        None if directory.has_slots() && is_known() => partition_limit(map, slots),
        None => map.max_partitions(),
    }
}

/// Partitions beyond which a directory with these slots does not spread its load any more, unless somebody has set
/// how many it may have: as many as it has slots, and after servers joined as many as [`extended_slots`] gives it.
///
/// # Panics
/// As [`extended_slots`].
fn partition_limit(map: &ClusterMap, slots: &[ShardId]) -> u32 {
    let default = map.max_partitions();
    if slots.len() >= MAX_PARTITIONS {
        return slots.len() as u32;
    }
    // The shards of those that joined last have the highest numbers, and whoever is given slots for new servers is
    // given some on all of them: a directory that has one there knows them all.
    let covers = match map.shards.last() {
        Some(&newest) => slots.iter().any(|&shard| map.server_of(shard) == newest),
        None => true,
    };
    if covers {
        default.max(slots.len() as u32)
    } else {
        extended_slots(slots, map, default).len() as u32
    }
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

    #[test]
    fn a_directory_may_spread_to_servers_that_joined() {
        let before = cluster(16, 2);
        let slots = slot_array(&before, ShardId(3), before.max_partitions(), 9);
        assert_eq!(partition_limit(&before, &slots), 2);
        let joins = |id: u16| crate::ServerInfo {
            id: ServerId(id),
            addresses: Vec::new(),
            weight: crate::ServerInfo::WEIGHT_ONE,
            domain: String::new(),
        };
        let after = before.with_servers(vec![joins(2), joins(3)]).unwrap();
        assert_eq!(partition_limit(&after, &slots), 4);
        let extended = extended_slots(&slots, &after, partition_limit(&after, &slots));
        assert_eq!(extended[..2], slots[..]);
        assert_eq!(servers_of(&after, &extended[2..]), [2, 3]);
        assert_eq!(partition_limit(&after, &extended), 4);

        // Three servers have six partitions each, so that they share alike; one that joins gets six, too.
        let three = cluster(16, 3);
        let slots = slot_array(&three, ShardId(0), three.max_partitions(), 1);
        let four = three.with_servers(vec![joins(3)]).unwrap();
        assert_eq!(slots.len(), 18);
        assert_eq!(four.max_partitions(), 4);
        assert_eq!(partition_limit(&four, &slots), 24);
        let extended = extended_slots(&slots, &four, 24);
        assert_eq!(servers_of(&four, &extended[18..]), [3; 6]);
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

    const PINNED: [u16; 8] = [3, 1, 6, 4, 5, 1, 7, 0];
}
