//! A trillion files on ten thousand servers: what of that the code allows, and what it would cost.

use super::Options;
use crate::cluster;
use crate::place::{Placer, Policy};
use crate::rng::Rng;
use crate::space::{NAMESPACE_2, Space};
use pandofs_placement::{Bounds, DirMap, ServerInfo, crush_map, slot_array};
use pandofs_report::{Axis, Figure};
use pandofs_types::limits::{MAX_CACHED_DIR_MAPS, MAX_PARTITIONS, MAX_SERVERS, MAX_SHARDS};
use pandofs_types::{ServerId, ShardId};

const FILES: f64 = 1e12;
const SERVERS: usize = 10_000;
/// Servers of a failure domain: a rack.
const RACK: usize = 40;
/// Bytes of an inode and its entry in the store, keys included: two records of docs/data-layout.md.
const BYTES_OF_A_FILE: f64 = 300.0;
/// Bytes a second of each server for moving shards, so that it still serves.
const MOVING_RATE: f64 = 100e6;

pub fn figures(options: &Options) -> Vec<Figure> {
    vec![
        balance(options),
        maps(options),
        joining(options),
        messages(options),
    ]
}

fn servers(count: usize) -> Vec<ServerInfo> {
    let mut servers = cluster::servers(count);
    for (number, server) in servers.iter_mut().enumerate() {
        server.domain = format!("rack-{}", number / RACK);
    }
    servers
}

fn counts(leaders: &[ServerId], servers: usize) -> Vec<u64> {
    let mut counts = vec![0; servers];
    for leader in leaders {
        counts[usize::from(leader.0)] += 1;
    }
    counts
}

/// How evenly shards spread, by their number.
fn balance(options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-balance",
        "Shards of the server that leads most, over the mean",
        Axis::logarithmic("shards"),
        Axis::linear("largest over mean"),
    );
    let sizes: &[usize] = if options.quick {
        &[1_000]
    } else {
        &[100, 1_000, 10_000]
    };
    let mut at_most = 0.0;
    for &size in sizes {
        let all = servers(size);
        let points = (12..=16)
            .map(|power| ((1_u32 << power) - 1) as u16)
            .filter(|&shards| usize::from(shards) >= size)
            .map(|shards| {
                let loads = counts(&crush_map(shards, &all), size);
                at_most = crate::place::over_mean(&loads);
                (f64::from(shards) + 1.0, at_most)
            })
            .collect();
        figure.add(format!("{size} servers"), points);
    }
    figure.note(format!(
        "CRUSH over racks of {RACK}; powers of two, less one (a shard's number has 16 bits)"
    ));
    figure.claim(
        "10,000 servers fit the limits of the code",
        SERVERS <= MAX_SERVERS,
        format!(
            "limits.rs has {MAX_SERVERS} servers and {MAX_SHARDS} shards. The arithmetic goes further, up to 65,535 shards, but that is \
             6.5 shards for each of {SERVERS} servers"
        ),
    );
    figure.claim(
        "as many shards as 16 bits can number spread evenly over the largest of these clusters",
        at_most <= 1.25,
        format!(
            "the fullest server leads {at_most:.2} times the mean: shards are balls thrown into servers, and about a hundred for each \
             server are needed for 1.25. Shard numbers of 32 bits, or placement that corrects what CRUSH drew, would do"
        ),
    );
    figure
}

/// Memory for maps.
fn maps(options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-maps",
        "Bytes of the maps",
        Axis::logarithmic("servers"),
        Axis::logarithmic("bytes"),
    );
    let counts: &[u32] = if options.quick {
        &[16, 256]
    } else {
        &[16, 64, 256, 1_024]
    };
    let mut cluster_bytes = Vec::new();
    let mut directory_bytes = Vec::new();
    for &count in counts {
        let mut map = cluster::map(count as usize);
        for (number, server) in map.servers.iter_mut().enumerate() {
            let host = format!("tcp:server-{number:05}.example.org:7070");
            server.addresses = vec![host];
        }
        let encoded = postcard::to_stdvec(&map).map_or(0, |bytes| bytes.len());
        cluster_bytes.push(encoded as f64);
        let partitions = count.min(MAX_PARTITIONS as u32);
        let slots = slot_array(&map, ShardId(0), partitions, 1);
        let directory = DirMap::with_slots(slots, partitions);
        let encoded = postcard::to_stdvec(&directory).map_or(0, |bytes| bytes.len());
        directory_bytes.push(encoded as f64);
    }
    figure.add(
        "cluster map",
        super::zip(counts, cluster_bytes.iter().copied()),
    );
    figure.add(
        "map of a directory on all servers",
        super::zip(counts, directory_bytes.iter().copied()),
    );
    figure.note("encoded as on the wire; in memory a map of a directory takes 2 bytes a slot and 4 a partition besides");
    let last = counts.len() - 1;
    let per_server = cluster_bytes[last] / f64::from(counts[last]);
    let whole = per_server * SERVERS as f64;
    let small =
        postcard::to_stdvec(&DirMap::single(ShardId(0))).map_or(0, |bytes| bytes.len()) + 64;
    let client = whole + (MAX_CACHED_DIR_MAPS * small) as f64;
    figure.claim(
        "what a client keeps does not grow with the files",
        client < 64e6,
        format!(
            "{:.1} MB: a cluster map of {:.1} MB for {SERVERS} servers ({per_server:.0} bytes each) and {MAX_CACHED_DIR_MAPS} maps of \
             directories of one partition; one of a directory on all servers adds {:.1} KB",
            client / 1e6,
            whole / 1e6,
            directory_bytes[last] / 1e3
        ),
    );
    figure
}

/// A rack joins.
fn joining(options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-joining",
        "A rack of servers joins: part of the shards that move",
        Axis::logarithmic("servers before"),
        Axis::logarithmic("per cent of the shards"),
    );
    let before: &[u32] = if options.quick {
        &[200, 1_000]
    } else {
        &[200, 1_000, 5_000, 10_000]
    };
    let shards = u16::MAX;
    let mut moved = Vec::new();
    for &count in before {
        let count = count as usize;
        let (old, new) = (servers(count), servers(count + RACK));
        let (old, new) = (crush_map(shards, &old), crush_map(shards, &new));
        let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
        moved.push(changed as f64 / f64::from(shards));
    }
    let percent = moved.iter().map(|share| 100.0 * share);
    figure.add("CRUSH", super::zip(before, percent));
    let least = |count: u32| RACK as f64 / (f64::from(count) + RACK as f64);
    let ideal = before.iter().map(|&count| 100.0 * least(count));
    figure.add("the new servers' part", super::zip(before, ideal));
    let naive = before
        .iter()
        .map(|&count| 100.0 * (1.0 - 1.0 / (f64::from(count) + RACK as f64)));
    figure.add("shard modulo servers", super::zip(before, naive));
    let more = moved
        .iter()
        .zip(before)
        .map(|(share, &count)| share / least(count))
        .fold(0.0, f64::max);
    figure.claim(
        "what moves is about what the new servers are to have",
        more < 1.6,
        format!(
            "at most {more:.2} times that. (As long as there are few shards for a server, each server that drew none is given one, \
             and a rack that joins changes who that is)"
        ),
    );
    let last = moved.len() - 1;
    let bytes = moved[last] * FILES * BYTES_OF_A_FILE;
    let to_each = bytes / RACK as f64 / MOVING_RATE;
    figure.note(format!(
        "a trillion files, {} servers: {:.0} TB move to {RACK} servers, {:.1} hours at {:.0} MB/s each",
        before[last],
        bytes / 1e12,
        to_each / 3_600.0,
        MOVING_RATE / 1e6
    ));
    figure
}

/// Operations that take several servers, from a sample of the name space.
fn messages(options: &Options) -> Figure {
    let mut figure = Figure::new(
        "internet-messages",
        "Objects whose creation takes two shards, by shards",
        Axis::logarithmic("shards"),
        Axis::logarithmic("per cent of the objects"),
    );
    let shards: &[u32] = if options.quick {
        &[64, 1_024]
    } else {
        &[64, 1_024, 16_384, 65_535]
    };
    let kind = NAMESPACE_2.scaled_down(options.divisor());
    let space = Space::generate(kind, options.seed);
    let policies = [
        ("random", Policy::Random),
        (
            "ddg(4,16), files with their entries",
            Policy::DdgOwnFiles {
                dir_depth: 4,
                dir_width: 16,
                file_width: u32::MAX,
            },
        ),
        ("adaptive", Policy::Adaptive(Bounds::default())),
    ];
    let mut of_default = 0.0;
    for (name, policy) in policies {
        let points = shards.iter().map(|&count| {
            let rng = Rng::new(options.seed, 0x147);
            let mut placer = Placer::new(policy, count as usize, rng);
            placer.place_all(&space);
            let (directories, files) = placer.branch_points(&space);
            let share = (directories + files) as f64 / space.len() as f64;
            if name.starts_with("ddg") {
                of_default = share;
            }
            100.0 * share
        });
        let points: Vec<f64> = points.collect();
        figure.add(name, super::zip(shards, points));
    }
    figure.note(format!(
        "a sample of {} objects with the shape of {}: what is a branch point follows from a directory and its parent alone, so \
         a sample shows it",
        space.len(),
        kind.name
    ));
    figure.claim(
        "with the default policy nearly all creations are ordinary operations at any size",
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
