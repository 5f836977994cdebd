//! GIGA+: figures 2 and 3, table 1.

use super::{Options, times, within, zip};
use crate::cluster;
use crate::growth::{Growth, Learning, Setting, grow};
use crate::place::over_mean;
use crate::report::{Axis, Figure};
use crate::rng::Rng;
use pandofs_placement::{
    ClusterMap, DirMap, PartitionIndex, extended_slots, partitions_per_server, renewed_slots,
    slot_array,
};
use pandofs_types::limits::{DEFAULT_SPLIT_THRESHOLD, MAX_SERVER_OVERLOAD_PERCENT};
use pandofs_types::{Position, ServerId, ShardId};
use std::collections::BTreeMap;

/// Requests that a client node has under way: it has eight cores (GIGA+, "Experimental
/// Evaluation").
const OUTSTANDING: usize = 8;

pub(crate) fn figures(options: &Options) -> Vec<Figure> {
    let mut figures = scaling(options);
    figures.push(partitions_for_balance(options));
    figures.push(balance_by_partitions(options));
    figures.push(servers_added());
    figures
}

fn setting(servers: usize, learning: Learning, options: &Options) -> Setting {
    // The paper's directory has 400,000 files for each server; beyond its 32 servers there are
    // fewer, so that it ends.
    let (files, threshold) = match (options.quick, servers) {
        (true, _) => (4_000, 500),
        (false, 0..=32) => (400_000, DEFAULT_SPLIT_THRESHOLD),
        (false, 33..=256) => (50_000, DEFAULT_SPLIT_THRESHOLD),
        (false, _) => (10_000, DEFAULT_SPLIT_THRESHOLD),
    };
    Setting {
        servers,
        clients: servers.max(1),
        outstanding: OUTSTANDING,
        files: files * servers as u64,
        threshold,
        initial: 1,
        most: None,
        learning,
        // The prototype's servers leave that to the file system below them.
        forced: false,
        removing: false,
        costs: if options.quick {
            // As many fewer as there are files.
            options.costs.scaled_down(100)
        } else {
            options.costs
        },
        seed: options.seed,
    }
}

/// Figure 3, and table 1's second line.
fn scaling(options: &Options) -> Vec<Figure> {
    let servers: &[u32] = if options.quick {
        &[1, 4, 16, 64]
    } else {
        &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]
    };
    let within = |count: &&u32| **count <= 32;
    let grown = |learning, counts: &[u32]| -> Vec<(u32, Growth)> {
        let each = counts.iter();
        each.map(|&count| (count, grow(&setting(count as usize, learning, options))))
            .collect()
    };
    let small: Vec<u32> = servers.iter().filter(within).copied().collect();
    let both = grown(Learning::Both, servers);
    let asked = grown(Learning::FromAsked, &small);
    let home = grown(Learning::FromHome, &small);

    let mut scaling = Figure::new(
        "giga-fig3",
        "File creations in one directory that begins on one server",
        Axis::logarithmic("servers"),
        Axis::logarithmic("creations a second"),
    );
    let rates: Vec<f64> = both.iter().map(|(_, growth)| growth.create_rate).collect();
    scaling.add("creations", zip(servers, rates.iter().copied()));
    let linear = servers.iter().map(|&count| rates[0] * f64::from(count));
    scaling.add("linear", zip(servers, linear));
    scaling.note(format!(
        "as many client nodes as servers, {OUTSTANDING} requests under way each; {} files for each server up to 32, fewer \
         beyond",
        setting(1, Learning::Both, options).files
    ));
    let efficiency = |at: usize| rates[at] / rates[0] / f64::from(servers[at]);
    let at_paper = small.len() - 1;
    scaling.claim(
        "a directory scales linearly up to 32 servers",
        efficiency(at_paper) > 0.85,
        format!(
            "{:.0} % of linear with {} servers, {:.0} % with {}. What is lost is the time until the directory has split over \
             all servers, so it depends on the files for each server",
            100.0 * efficiency(at_paper),
            servers[at_paper],
            100.0 * efficiency(rates.len() - 1),
            servers[rates.len() - 1]
        ),
    );
    let uneven = both.iter().map(|(_, growth)| growth.imbalance);
    let worst = uneven.fold(1.0, f64::max);
    scaling.claim(
        "entries are spread evenly",
        worst <= 1.0 + MAX_SERVER_OVERLOAD_PERCENT as f64 / 100.0,
        format!("the fullest server has at most {worst:.3} times the mean"),
    );

    let mut stale = Figure::new(
        "giga-misdirected",
        "Requests to a wrong server while the directory grows",
        Axis::logarithmic("servers"),
        Axis::linear("per cent of the requests"),
    );
    let mut probes = Figure::new(
        "giga-probes",
        "Requests for each operation, questions to the home included",
        Axis::logarithmic("servers"),
        Axis::linear("requests"),
    );
    for (name, runs) in [
        ("PandoFS: the asked, then the home", &both),
        ("GIGA+: the asked", &asked),
        ("OrangeFS: the home", &home),
    ] {
        let counts: Vec<u32> = runs.iter().map(|(count, _)| *count).collect();
        let wrong = runs.iter().map(|(_, growth)| share(growth));
        stale.add(name, zip(&counts, wrong));
        let sent = runs.iter().map(|(_, growth)| growth.probes());
        probes.add(name, zip(&counts, sent));
    }
    let late = grow(&Setting {
        removing: true,
        ..setting(small[at_paper] as usize, Learning::Both, options)
    });
    let worst = both[..=at_paper]
        .iter()
        .map(|(_, growth)| share(growth))
        .fold(0.0, f64::max);
    let last = &both[both.len() - 1];
    stale.claim(
        "fewer than 0.1 % of the requests are misdirected",
        worst < 0.1,
        format!(
            "at most {worst:.4} % up to {} servers; {:.3} % with {} servers and fewer files each. Each client learns each split at \
             most once, so the share falls with the files for each client{}",
            servers[at_paper],
            share(&last.1),
            last.0,
            if options.quick { "; the quick run has a hundredth of the paper's" } else { "" }
        ),
    );
    stale.claim(
        "and none any more once the directory stops growing",
        late.misdirected_late == 0,
        format!(
            "{} in the second half of a removal of all files by the same clients",
            late.misdirected_late
        ),
    );
    let most = |runs: &[(u32, Growth)]| runs.iter().map(|(_, growth)| growth.most_probes).max();
    probes.claim(
        "OrangeFS: a client needs at most two probes, as the home knows of every split",
        most(&home) <= Some(2),
        format!(
            "at most {:?} probes when the home is asked, {:?} with GIGA+'s way, {:?} with both. The home hears of a split a \
             message later than it happened: who asks within that time is told the old map",
            most(&home).unwrap_or(0),
            most(&asked).unwrap_or(0),
            most(&both[..=at_paper]).unwrap_or(0)
        ),
    );
    let mean = |runs: &[(u32, Growth)]| runs[at_paper].1.probes();
    probes.claim(
        "asking the home costs more requests on the average than learning from the server that was asked",
        mean(&home) > mean(&both),
        format!(
            "{:.5}, {:.5} and {:.5} requests for each operation with {} servers: home, asked, both",
            mean(&home),
            mean(&asked),
            mean(&both),
            servers[at_paper]
        ),
    );
    vec![scaling, stale, probes]
}

/// Per cent.
fn share(growth: &Growth) -> f64 {
    100.0 * growth.misdirected as f64 / growth.requests as f64
}

/// The largest part of the hash space on one server over the mean, of a directory with so many
/// partitions.
fn radix_imbalance(servers: usize, partitions: u32) -> f64 {
    let map = cluster::map(servers);
    let slots = slot_array(&map, ShardId(0), partitions, 1);
    let directory = DirMap::with_slots(slots, partitions);
    let mut load = vec![0_u64; servers];
    for (index, start, end) in directory.in_order() {
        let server = map.server_of(directory.shard_of_partition(index));
        load[usize::from(server.0)] += end.0 - start.0;
    }
    // The hash space is 2^63, which over_mean multiplies by the servers.
    over_mean(&load.iter().map(|part| part >> 20).collect::<Vec<_>>())
}

/// The same with consistent hashing: each server has so many points on a ring and what follows
/// each.
fn ring_imbalance(servers: usize, points: u32, rng: &mut Rng) -> f64 {
    let mut ring: Vec<(u64, usize)> = (0..servers)
        .flat_map(|server| (0..points).map(move |_| server))
        .map(|server| (rng.next_u64(), server))
        .collect();
    ring.sort_unstable();
    let mut load = vec![0_u64; servers];
    for (at, &(point, server)) in ring.iter().enumerate() {
        let next = ring[(at + 1) % ring.len()].0;
        load[server] += next.wrapping_sub(point) >> 20;
    }
    over_mean(&load)
}

fn mean_ring_imbalance(servers: usize, points: u32, options: &Options) -> f64 {
    let draws = if options.quick { 5 } else { 20 };
    let mut rng = Rng::new(options.seed, 0x416 + u64::from(points));
    (0..draws)
        .map(|_| ring_imbalance(servers, points, &mut rng))
        .sum::<f64>()
        / f64::from(draws)
}

/// Table 1, first line.
fn partitions_for_balance(options: &Options) -> Figure {
    let servers: &[u32] = if options.quick {
        &[5, 8, 32]
    } else {
        &[4, 5, 8, 12, 16, 24, 31, 32, 48, 64]
    };
    let limit = 1.0 + MAX_SERVER_OVERLOAD_PERCENT as f64 / 100.0;
    let mut figure = Figure::new(
        "giga-partitions",
        format!("Partitions of each server until the fullest has at most {limit} times the mean"),
        Axis::logarithmic("servers"),
        Axis::logarithmic("partitions of each server"),
    );
    let radix: Vec<f64> = servers
        .iter()
        .map(|&count| f64::from(partitions_per_server(count as usize)))
        .collect();
    let ring: Vec<f64> = servers
        .iter()
        .map(|&count| {
            // The imbalance falls with the square root, so steps of a tenth are fine enough.
            let mut points = 1_u32;
            while mean_ring_imbalance(count as usize, points, options) > limit {
                points = (points + points / 10).max(points + 1);
            }
            f64::from(points)
        })
        .collect();
    let ratios: Vec<f64> = radix
        .iter()
        .zip(&ring)
        .map(|(radix, ring)| ring / radix)
        .collect();
    figure.add("radix splitting (GIGA+, PandoFS)", zip(servers, radix));
    figure.add("consistent hashing", zip(servers, ring));
    figure.add(
        "the second over the first",
        zip(servers, ratios.iter().copied()),
    );
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    figure.claim(
        "10 to 100 times fewer partitions than consistent hashing for the same balance",
        within(&ratios, 10.0, 100.0),
        format!(
            "{} to {}: most for powers of two, for which one partition each is exact",
            times(least),
            times(most)
        ),
    );
    figure
}

/// Balance against the number of partitions, with and without virtual servers.
fn balance_by_partitions(options: &Options) -> Figure {
    let each: &[u32] = if options.quick {
        &[1, 4, 16]
    } else {
        &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    };
    let mut figure = Figure::new(
        "giga-balance",
        "The fullest server over the mean, by partitions (virtual servers) of each",
        Axis::logarithmic("partitions of each server"),
        Axis::linear("fullest over mean"),
    );
    for servers in [24_usize, 32] {
        let radix = each
            .iter()
            .map(|&count| radix_imbalance(servers, count * servers as u32));
        figure.add(
            format!("radix splitting, {servers} servers"),
            zip(each, radix),
        );
        let ring = each
            .iter()
            .map(|&points| mean_ring_imbalance(servers, points, options));
        figure.add(
            format!("consistent hashing, {servers} servers"),
            zip(each, ring),
        );
    }
    let value = |series: usize, at: usize| figure.series[series].points[at].1;
    let (plain, virtual_servers) = (value(3, 0), value(3, each.len() - 1));
    let radix = value(2, 0);
    figure.claim(
        "consistent hashing has a high variance of load even with virtual servers",
        virtual_servers > 1.1,
        format!(
            "32 servers: {plain:.2} with one point each, {virtual_servers:.2} with {}; radix splitting {radix:.2} with one partition each",
            each[each.len() - 1]
        ),
    );
    figure
}

/// Figure 2.
fn servers_added() -> Figure {
    let mut figure = Figure::new(
        "giga-fig2",
        "Servers join: part of the entries that move, with three partitions each before",
        Axis::linear("servers before, of which each third one more joins (at least one)"),
        Axis::linear("per cent of the entries"),
    );
    let before: Vec<u32> = vec![2, 3, 4, 5, 8, 12, 16, 24, 32, 64];
    let all: Vec<Added> = before.iter().map(|&count| added(count as usize)).collect();
    let column = |of: fn(&Added) -> f64| zip(&before, all.iter().map(of));
    figure.add(
        "sequential rule",
        column(|added| 100.0 * added.sequential.moved),
    );
    figure.add("PandoFS", column(|added| 100.0 * added.renewed.moved));
    figure.add("round robin anew", column(|added| 100.0 * added.naive));
    figure.add(
        "least that can balance",
        column(|added| 100.0 * added.least),
    );
    figure.add(
        "fullest over mean after, sequential (x 100)",
        column(|added| 100.0 * added.sequential.imbalance),
    );
    figure.add(
        "fullest over mean after, PandoFS (x 100)",
        column(|added| 100.0 * added.renewed.imbalance),
    );
    let most = |of: fn(&Added) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let (worst, ours) = (
        most(|added| added.sequential.moved / added.naive),
        most(|added| added.renewed.moved / added.naive),
    );
    let (more, ours_more) = (
        most(|added| added.sequential.moved / added.least),
        most(|added| added.renewed.moved / added.least),
    );
    figure.claim(
        "only a small part moves, where naive rehashing would move nearly all",
        all.iter().all(|added| added.naive > 0.5) && worst.max(ours) < 0.6,
        format!(
            "the sequential rule moves at most {worst:.2} of what round robin anew moves, and at most {more:.2} times the least \
             that can balance; PandoFS {ours:.2} and {ours_more:.2}"
        ),
    );
    let uneven = most(|added| added.sequential.imbalance);
    figure.claim(
        "and the load is balanced afterwards",
        uneven < 1.1,
        format!(
            "the fullest server has up to {uneven:.2} times the mean: a number of partitions that is no power of two leaves some \
             of them twice as large as others, and what the new servers get is taken from those that come first. To even that \
             out takes more partitions for each server"
        ),
    );
    let uneven = most(|added| added.renewed.imbalance);
    let bound = 1.0 + MAX_SERVER_OVERLOAD_PERCENT as f64 / 100.0;
    figure.claim(
        "and it is with the further slots that PandoFS gives",
        uneven <= bound,
        format!(
            "the fullest server has up to {uneven:.2} times the mean when all partitions are active that the directory may have \
             then, of {} to {} for each server",
            all.iter().map(|added| added.renewed.each).min().unwrap_or(0),
            all.iter().map(|added| added.renewed.each).max().unwrap_or(0)
        ),
    );
    figure
}

/// Servers join a directory with three partitions on each, a third as many as there are.
struct Added {
    /// GIGA+'s sequential rule by itself: those that join get as many partitions as the others
    /// have.
    sequential: Spread,
    /// Spread in the running system: the same rule, with as many further partitions as it takes.
    renewed: Spread,
    /// The part that moves if all is dealt out again in turn.
    naive: f64,
    /// The part that the new servers must get.
    least: f64,
}

/// Spread of a directory that had spread over fewer servers, when all its partitions are active.
struct Spread {
    /// The part of its entries that changes servers.
    moved: f64,
    /// The fullest server over the mean.
    imbalance: f64,
    /// Partitions of a server.
    each: usize,
}

fn added(before: usize) -> Added {
    const EACH: u32 = 3;
    let joining = (before / 3).max(1);
    let after = cluster::joined_by(&cluster::map(before), joining);
    let shard_of = |server: usize| after.shards_of(ServerId(server as u16))[0];
    let count = EACH * before as u32;
    let slots: Vec<ShardId> = (0..count as usize)
        .map(|slot| shard_of(slot % before))
        .collect();
    let old = DirMap::with_slots(slots.clone(), count);
    let naive = old
        .active()
        .filter(|index| index.0 as usize % before != index.0 as usize % (before + joining))
        .map(|index| size(&old, index))
        .sum();
    let renewed = renewed_slots(&after, &old, None, (0, before as u64));
    let renewed = renewed.unwrap_or_else(|| slots.clone());
    Added {
        sequential: spread(&after, &old, extended_slots(&slots, &after, 0)),
        renewed: spread(&after, &old, renewed),
        naive,
        least: joining as f64 / (before + joining) as f64,
    }
}

/// A partition's part of the hash space.
fn size(map: &DirMap, index: PartitionIndex) -> f64 {
    let (start, end) = map.range_of(index);
    (end.0 - start.0) as f64 / Position::END.0 as f64
}

fn spread(cluster: &ClusterMap, old: &DirMap, slots: Vec<ShardId>) -> Spread {
    let count = slots.len();
    let new = DirMap::with_slots(slots, count as u32);
    let mut moved = 0.0;
    let mut load: BTreeMap<ServerId, f64> = BTreeMap::new();
    for index in new.active() {
        let server = cluster.server_of(new.shard_of_partition(index));
        let (start, _) = new.range_of(index);
        let had_it = cluster.server_of(old.shard_of(start));
        if server != had_it {
            moved += size(&new, index);
        }
        *load.entry(server).or_default() += size(&new, index);
    }
    let servers = cluster.leading_servers().len();
    Spread {
        moved,
        imbalance: load.values().copied().fold(0.0, f64::max) * servers as f64,
        each: count.div_ceil(servers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_two_of_servers_is_exactly_even() {
        assert!((radix_imbalance(8, 8) - 1.0).abs() < 1e-6);
        assert!((radix_imbalance(8, 12) - 4.0 / 3.0).abs() < 0.34);
    }

    #[test]
    fn a_ring_gets_more_even_with_points() {
        let mut rng = Rng::new(1, 1);
        let few = ring_imbalance(16, 1, &mut rng);
        let many = ring_imbalance(16, 1_000, &mut rng);
        assert!(few > 1.8 && many < 1.2, "{few} {many}");
    }
}
