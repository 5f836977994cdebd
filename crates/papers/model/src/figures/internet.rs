//! A trillion files on ten thousand servers.
//!
//! The behaviour of the code there, with maps of that size, and its end.

use super::{Options, range, times, zip};
use crate::cluster;
use crate::place::{Placer, Policy, between_tellings, over_mean};
use crate::report::{Axis, Figure};
use crate::rng::Rng;
use crate::space::{NAMESPACE_2, Space};
use pandofs_placement::{
    ClusterMap, DirMap, DirPolicy, FilePolicy, PartitionIndex, ServerInfo, partitions_allowed,
    renewed_slots, slot_array,
};
use pandofs_types::limits::{
    DEFAULT_BLOCK_CACHE_BYTES, DEFAULT_SERVER_MEMORY_BYTES, LOADS_INTERVAL, MAX_CACHED_DIR_MAPS,
    MAX_FRAME_BYTES, MAX_PARTITIONS, MAX_SHARDS,
};
use pandofs_types::{Position, ServerId, ShardId};

const FILES: f64 = 1e12;
const SERVERS: u32 = 10_000;
/// Servers of a failure domain: a rack.
const RACK: usize = 40;
/// Bytes of an inode and its entry in the store, keys included: two records of docs/data-layout.md.
const BYTES_OF_A_FILE: f64 = 300.0;
/// Bytes a second that each server takes for splits, so that it still serves.
const MOVING_RATE: f64 = 100e6;
/// Entries a second in all that rebalancing is let move, where it is limited.
const REBALANCE_RATE: f64 = 1e6;

pub(crate) fn figures(options: &Options) -> Vec<Figure> {
    let maps = Maps::new(options);
    vec![
        balance(&maps),
        bytes(&maps),
        joining(&maps),
        rebalancing(&maps, options),
        memory(&maps),
        distributed(options),
        loads(options, &maps),
    ]
}

/// Cluster maps by their number of servers, the largest last.
struct Maps {
    counts: Vec<u32>,
    maps: Vec<ClusterMap>,
}

impl Maps {
    fn new(options: &Options) -> Maps {
        let counts: &[u32] = if options.quick {
            &[64, SERVERS]
        } else {
            &[64, 100, 200, 500, 1_000, 2_000, 5_000, SERVERS]
        };
        Maps {
            maps: counts.iter().map(|&count| map(count, MAX_SHARDS)).collect(),
            counts: counts.to_vec(),
        }
    }

    fn largest(&self) -> &ClusterMap {
        &self.maps[self.maps.len() - 1]
    }
}

/// A server as they have addresses, in racks.
fn servers(count: usize) -> Vec<ServerInfo> {
    let mut servers = cluster::servers(count);
    for (number, server) in servers.iter_mut().enumerate() {
        server.domain = format!("rack-{}", number / RACK);
        server.addresses = vec![format!("tcp:server-{number:05}.example.org:7070")];
    }
    servers
}

fn map(count: u32, shards: u16) -> ClusterMap {
    cluster::made(shards, servers(count as usize))
}

/// The same after a rack joined.
fn joined(map: &ClusterMap) -> ClusterMap {
    let before = map.servers.len();
    let rack = servers(before + RACK).split_off(before);
    match map.with_servers(rack) {
        Ok(map) => map,
        Err(error) => panic!("a rack joins {before} servers: {error}"),
    }
}

fn largest_over_mean(map: &ClusterMap) -> f64 {
    let mut counts = vec![0; map.servers.len()];
    for leader in &map.shards {
        counts[usize::from(leader.0)] += 1;
    }
    over_mean(&counts)
}

/// Returns how evenly shards spread, by their number.
fn balance(maps: &Maps) -> Figure {
    let mut figure = Figure::new(
        "internet-balance",
        "Shards of the server that leads most, over the mean",
        Axis::logarithmic("servers"),
        Axis::linear("largest over mean"),
    );
    let most: Vec<f64> = maps.maps.iter().map(largest_over_mean).collect();
    figure.add(
        format!("{MAX_SHARDS} shards"),
        zip(&maps.counts, most.iter().copied()),
    );
    let fewer = maps.counts.iter().filter(|&&count| count <= 4_096);
    let fewer: Vec<u32> = fewer.copied().collect();
    let of_fewer = fewer
        .iter()
        .map(|&count| largest_over_mean(&map(count, 4_096)));
    figure.add("4096 shards", zip(&fewer, of_fewer));
    figure.note(format!(
        "maps as `pandofs format` makes them, racks of {RACK}"
    ));
    let largest = maps.largest();
    figure.claim(
        "10,000 servers fit the limits of the code",
        largest.servers.len() == SERVERS as usize
            && largest.leading_servers().len() == SERVERS as usize,
        "the map is made by the code that makes real ones, and every server leads a shard. No cluster of this size was run: \
         the limit on servers is that of the formats, not one that was tried",
    );
    let last = most[most.len() - 1];
    figure.claim(
        "as many shards as there may be spread evenly over 10,000 servers (a quarter over the mean)",
        last <= 1.25,
        format!(
            "the fullest server leads {last:.2} times the mean: {:.1} shards for each server here, and a server leads a whole \
             number of them",
            f64::from(MAX_SHARDS) / f64::from(SERVERS)
        ),
    );
    figure
}

fn encoded<T: serde::Serialize>(value: &T) -> f64 {
    postcard::to_stdvec(value).map_or(f64::INFINITY, |bytes| bytes.len() as f64)
}

/// A directory that has spread over all servers, as far as it may.
fn widest(map: &ClusterMap) -> DirMap {
    let partitions = map.max_partitions();
    DirMap::with_slots(slot_array(map, ShardId(0), partitions, 1), partitions)
}

/// Memory for maps.
fn bytes(maps: &Maps) -> Figure {
    let mut figure = Figure::new(
        "internet-maps",
        "Bytes of the maps",
        Axis::logarithmic("servers"),
        Axis::logarithmic("bytes"),
    );
    let of_cluster: Vec<f64> = maps.maps.iter().map(encoded).collect();
    let of_directory: Vec<f64> = maps.maps.iter().map(|map| encoded(&widest(map))).collect();
    figure.add("cluster map", zip(&maps.counts, of_cluster.iter().copied()));
    figure.add(
        "map of a directory that has spread as far as it may",
        zip(&maps.counts, of_directory.iter().copied()),
    );
    figure.note(
        "encoded as on the wire; in memory a map of a directory takes 2 bytes a slot and 4 a partition besides",
    );
    let last = maps.counts.len() - 1;
    let (cluster, directory) = (of_cluster[last], of_directory[last]);
    let small = encoded(&DirMap::single(ShardId(0))) + 64.0;
    let client = cluster + MAX_CACHED_DIR_MAPS as f64 * small;
    figure.claim(
        "the map of 10,000 servers goes in one message",
        cluster < MAX_FRAME_BYTES as f64,
        format!(
            "{:.2} MB of {:.2}",
            cluster / 1e6,
            MAX_FRAME_BYTES as f64 / 1e6
        ),
    );
    figure.claim(
        "what a client keeps does not grow with the files",
        client < 64e6,
        format!(
            "{:.1} MB: a cluster map of {:.2} MB for {SERVERS} servers and {MAX_CACHED_DIR_MAPS} maps of directories of one \
             partition; one of a directory that has spread as far as it may adds {:.1} KB",
            client / 1e6,
            cluster / 1e6,
            directory / 1e3
        ),
    );
    figure
}

/// Returns the share of a rack that joins in the directory that has spread furthest.
fn given(before: &ClusterMap, after: &ClusterMap) -> f64 {
    let old = widest(before);
    let most = partitions_allowed(after, None, &old);
    let renewed = renewed_slots(after, &old, None, (0, 1));
    let slots = renewed.unwrap_or_else(|| old.slots().to_vec());
    let active = (slots.len() as u32).min(most);
    let new = DirMap::with_slots(slots, active);
    let size = |index: PartitionIndex| {
        let (start, end) = new.range_of(index);
        (end.0 - start.0) as f64 / Position::END.0 as f64
    };
    new.active()
        .filter(|&index| !before.has_shard(new.shard_of_partition(index)))
        .map(size)
        .sum()
}

/// A rack joins, as [`ClusterMap::with_servers`] has it.
fn joining(maps: &Maps) -> Figure {
    let mut figure = Figure::new(
        "internet-joining",
        format!("A rack of {RACK} servers joins"),
        Axis::logarithmic("servers before"),
        Axis::logarithmic("per cent (hours)"),
    );
    // Half of the shards that there may be: those that join bring some.
    let pairs: Vec<(ClusterMap, ClusterMap)> = maps
        .counts
        .iter()
        .map(|&count| {
            let before = map(count, MAX_SHARDS / 2);
            let after = joined(&before);
            (before, after)
        })
        .collect();
    let fair: Vec<f64> = maps
        .counts
        .iter()
        .map(|&count| RACK as f64 / (f64::from(count) + RACK as f64))
        .collect();
    let of_new_directories: Vec<f64> = pairs
        .iter()
        .map(|(before, after)| {
            let all = after.shards.len() as f64;
            (all - before.shards.len() as f64) / all
        })
        .collect();
    let of_largest: Vec<f64> = pairs
        .iter()
        .map(|(before, after)| given(before, after))
        .collect();
    // Moves are those of the splits of the largest directories.
    let hours: Vec<f64> = of_largest
        .iter()
        .map(|share| share * FILES * BYTES_OF_A_FILE / RACK as f64 / MOVING_RATE / 3_600.0)
        .collect();
    let percent = |shares: &[f64]| {
        zip(
            &maps.counts,
            shares.iter().map(|share| 100.0 * share + 1e-3),
        )
    };
    figure.add("the new servers' fair part", percent(&fair));
    figure.add(
        "their part of new directories",
        percent(&of_new_directories),
    );
    figure.add(
        "their part of a directory that had spread as far as it could",
        percent(&of_largest),
    );
    figure.add(
        format!(
            "hours until they have it of a trillion files in such directories, at {:.0} MB/s each",
            MOVING_RATE / 1e6
        ),
        zip(&maps.counts, hours.iter().map(|hours| hours + 1e-3)),
    );
    figure.note("0.001 is added to each, so that what is 0 is seen");
    let nothing_moves = pairs
        .iter()
        .all(|(before, after)| before.check_successor(after).is_ok());
    figure.claim(
        "nothing that is stored changes its shard, and no shard its server",
        nothing_moves,
        "what the new servers get is what is made after, and what large directories give by splitting",
    );
    let (least, most) = {
        let both = of_new_directories.iter().zip(&fair);
        let over: Vec<f64> = both.map(|(got, fair)| got / fair).collect();
        range(&over)
    };
    figure.claim(
        "the new servers get their fair part of new directories (within a quarter)",
        least > 0.75 && most < 1.25,
        format!(
            "{} to {} of it: a new server leads a whole number of shards, and with {} shards on {SERVERS} servers the mean is \
             between one and two",
            times(least),
            times(most),
            MAX_SHARDS / 2
        ),
    );
    let gets: Vec<u32> = maps
        .counts
        .iter()
        .zip(&of_largest)
        .filter(|(_, share)| **share > 0.0)
        .map(|(count, _)| *count)
        .collect();
    figure.claim(
        "a directory that had spread over all servers spreads to the new ones",
        gets.len() == maps.counts.len(),
        format!(
            "it does with {gets:?} servers of {:?}: a directory has at most {MAX_PARTITIONS} partitions, and one that has them \
             all gives nothing to servers that join",
            maps.counts
        ),
    );
    figure
}

/// Returns how long it takes until a rack that joined has its part of a trillion files.
fn rebalancing(maps: &Maps, options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-rebalance",
        format!(
            "A rack of {RACK} servers joins: hours until it has its fair part of a trillion files"
        ),
        Axis::logarithmic("servers before"),
        Axis::logarithmic("hours"),
    );
    let entries: Vec<f64> = maps
        .counts
        .iter()
        .map(|&count| FILES * RACK as f64 / (f64::from(count) + RACK as f64))
        .collect();
    let hours = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
        entries
            .iter()
            .map(|&entries| of(entries) / 3_600.0)
            .collect()
    };
    let each = entries.iter().map(|entries| entries / RACK as f64);
    let each: Vec<f64> = each.collect();
    let by_network = hours(&|entries| entries * BYTES_OF_A_FILE / RACK as f64 / MOVING_RATE);
    let by_processor = hours(&|entries| entries * options.costs.moved_us / 1e6 / RACK as f64);
    let by_rate = hours(&|entries| entries / REBALANCE_RATE);
    figure.add(
        format!("at {:.0} MB/s to each new server", MOVING_RATE / 1e6),
        zip(&maps.counts, by_network.iter().copied()),
    );
    figure.add(
        format!(
            "with {} µs of a processor for an entry",
            options.costs.moved_us
        ),
        zip(&maps.counts, by_processor.iter().copied()),
    );
    figure.add(
        format!("at {REBALANCE_RATE:.0} entries a second in all (pandofs rebalance --rate)"),
        zip(&maps.counts, by_rate.iter().copied()),
    );
    figure.note(
        "if it were given so much: partitions of directories that are large enough are all that moves. What it is given is in \
         internet-joining",
    );
    let last = maps.counts.len() - 1;
    let slowest = by_network[last].max(by_processor[last]);
    figure.claim(
        "moving its fair part to a rack that joins 10,000 servers takes less than an hour",
        slowest < 1.0,
        format!(
            "{:.1e} entries, {:.1e} to each new server: {:.2} hours at {:.0} MB/s, {:.2} hours of a processor, {:.2} hours with a \
             limit of {REBALANCE_RATE:.0} entries a second in all; with {} servers before {:.1} hours, {:.1} and {:.1}. That is if \
             it were given so much, which it is not: see internet-joining",
            entries[last],
            each[last],
            by_network[last],
            MOVING_RATE / 1e6,
            by_processor[last],
            by_rate[last],
            maps.counts[0],
            by_network[0],
            by_processor[0],
            by_rate[0]
        ),
    );
    figure
}

/// A cluster map in memory.
fn in_memory(map: &ClusterMap) -> f64 {
    let of_server = |server: &ServerInfo| {
        let addresses = server.addresses.iter();
        let addresses: usize = addresses.map(|one| size_of::<String>() + one.len()).sum();
        size_of::<ServerInfo>() + server.domain.len() + addresses
    };
    let servers: usize = map.servers.iter().map(of_server).sum();
    (servers + map.shards.len() * size_of::<ServerId>()) as f64
}

/// Memory of a server that grows with the number of servers, and its cache of its files.
fn memory(maps: &Maps) -> Figure {
    let mut figure = Figure::new(
        "internet-memory",
        "Bytes of a server's memory, of the one that leads most shards",
        Axis::logarithmic("servers"),
        Axis::logarithmic("bytes"),
    );
    let of_maps: Vec<f64> = maps.maps.iter().map(in_memory).collect();
    let known = |map: &ClusterMap| {
        let mut led = vec![0_u32; map.servers.len()];
        for leader in &map.shards {
            led[usize::from(leader.0)] += 1;
        }
        let most = led.into_iter().max().unwrap_or(0);
        let of_one = pandofs_placement::Placer::new(map, ShardId(0), 1).memory_bytes();
        f64::from(most) * of_one as f64
    };
    let of_loads: Vec<f64> = maps.maps.iter().map(known).collect();
    figure.add("cluster map", zip(&maps.counts, of_maps.iter().copied()));
    figure.add(
        "what its shards know of all servers (adaptive policies only)",
        zip(&maps.counts, of_loads.iter().copied()),
    );
    let stored = maps.counts.iter();
    let stored: Vec<f64> = stored
        .map(|&count| FILES / f64::from(count) * BYTES_OF_A_FILE)
        .collect();
    figure.add(
        "on its disk, of a trillion files",
        zip(&maps.counts, stored.iter().copied()),
    );
    figure.note("connections are not counted: of those there are as many as others ask, at most one for each client and server");
    let last = maps.counts.len() - 1;
    let both = of_maps[last] + of_loads[last];
    figure.claim(
        "a server of 10,000 keeps less than a tenth of its memory for the others",
        both < 0.1 * DEFAULT_SERVER_MEMORY_BYTES as f64,
        format!(
            "{:.1} MB for the map and {:.1} MB for what adaptive shards know, of {:.0} MB that a server takes unless told. Its \
             part of the files is {:.0} GB, of which the block cache of {:.0} MB holds {:.1} %: what it takes does not grow with \
             the files, and what it has to read does",
            of_maps[last] / 1e6,
            of_loads[last] / 1e6,
            DEFAULT_SERVER_MEMORY_BYTES as f64 / 1e6,
            stored[last] / 1e9,
            DEFAULT_BLOCK_CACHE_BYTES as f64 / 1e6,
            100.0 * DEFAULT_BLOCK_CACHE_BYTES as f64 / stored[last]
        ),
    );
    figure
}

/// Operations that take several servers, from a sample of the name space.
fn distributed(options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-messages",
        "Objects whose creation takes two shards, by servers (one shard each)",
        Axis::logarithmic("servers"),
        Axis::logarithmic("per cent of the objects"),
    );
    let counts: &[u32] = if options.quick {
        &[64, SERVERS]
    } else {
        &[64, 256, 1_024, 4_096, SERVERS]
    };
    let kind = NAMESPACE_2.scaled_down(options.divisor());
    let space = Space::generate(kind, options.seed);
    let default = Policy::Running {
        directories: DirPolicy::default(),
        files: FilePolicy::default(),
    };
    let policies = [
        ("random", Policy::Random),
        ("ddg(4,16), files with their entries: the default", default),
        ("adaptive", Policy::adaptive()),
    ];
    let mut of_default = 0.0;
    for (name, policy) in policies {
        let points = counts.iter().map(|&count| {
            let rng = Rng::new(options.seed, 0x147);
            let every = between_tellings(count as usize, usize::MAX, options.costs);
            let mut placer = Placer::new(policy, count as usize, rng, every);
            placer.place_all(&space);
            let (directories, files) = placer.branch_points(&space);
            let share = (directories + files) as f64 / space.len() as f64;
            if policy == default {
                of_default = share;
            }
            100.0 * share
        });
        let points: Vec<f64> = points.collect();
        figure.add(name, zip(counts, points));
    }
    figure.note(format!(
        "a sample of {} objects with the shape of {}: what is a branch point follows from a directory and its parent alone, so \
         a sample shows it",
        space.len(),
        kind.name
    ));
    figure.claim(
        "with the default policy nearly all creations are ordinary operations at any size (95 %)",
        of_default < 0.05,
        format!(
            "{:.2} % take two shards, so a trillion creations send {:.1e} messages between servers (three each) instead of {:.1e} \
             with random placement",
            100.0 * of_default,
            3.0 * of_default * FILES,
            3.0 * FILES
        ),
    );
    figure
}

/// Messages that servers send each other for no operation: what each has, where a policy adapts.
fn loads(options: &Options, maps: &Maps) -> Figure {
    let mut figure = Figure::new(
        "internet-loads",
        "Servers tell each other what they have (adaptive policies only)",
        Axis::logarithmic("servers"),
        Axis::logarithmic("messages a second to each server"),
    );
    // Each asks each other one, and is asked by each, every time.
    let rates: Vec<f64> = maps
        .maps
        .iter()
        .map(|map| 2.0 * (map.leading_servers().len() as f64 - 1.0) / LOADS_INTERVAL.as_secs_f64())
        .collect();
    figure.add(
        "questions and answers",
        zip(&maps.counts, rates.iter().copied()),
    );
    let busy: Vec<f64> = rates
        .iter()
        .map(|rate| 100.0 * rate * options.costs.message_us / 1e6)
        .collect();
    figure.add(
        "per cent of a server's processor",
        zip(&maps.counts, busy.iter().copied()),
    );
    let fine = maps
        .counts
        .iter()
        .zip(&busy)
        .filter(|(_, busy)| **busy < 5.0);
    let fine = fine.map(|(count, _)| *count).max().unwrap_or(0);
    let last = busy.len() - 1;
    figure.claim(
        "telling each other takes less than a twentieth of each of 10,000 servers",
        busy[last] < 5.0,
        format!(
            "{:.0} % with {SERVERS}, less than 5 % up to {fine} servers of {:?}: all tell all. Beyond, each would have to hear \
             from a few, and from them of the others. The policies that do not adapt send none of it",
            busy[last], maps.counts
        ),
    );
    figure
}
