//! Yang et al.: creations and removals in one directory, figures 5 and 6.

use super::{Options, times, zip};
use crate::growth::{Growth, Learning, Setting, grow};
use crate::report::{Axis, Figure};
use pandofs_types::limits::DEFAULT_SPLIT_THRESHOLD;

/// First size of the directory, and its limit.
const WAYS: [(&str, u32, Option<u32>); 3] = [
    ("one partition for ever (vanilla)", 1, Some(1)),
    ("one partition, splitting", 1, None),
    ("all partitions from the start", 0, None),
];

fn run(servers: usize, clients: usize, way: usize, options: &Options) -> Growth {
    let (files, threshold) = if options.quick {
        (400, DEFAULT_SPLIT_THRESHOLD / 40)
    } else {
        (8_000, DEFAULT_SPLIT_THRESHOLD)
    };
    grow(&Setting {
        servers,
        clients,
        outstanding: 1,
        files: files * servers as u64,
        threshold,
        initial: WAYS[way].1,
        most: WAYS[way].2,
        learning: Learning::FromHome,
        // Its servers synchronize their database with the disk before they answer. (The paper's 64
        // servers remove 11,000 files a second: one in 6 ms each.)
        forced: true,
        removing: true,
        costs: options.costs,
        seed: options.seed,
    })
}

pub(crate) fn figures(options: &Options) -> Vec<Figure> {
    let mut figures = by_servers(options);
    figures.extend(by_clients(options));
    figures
}

/// Figure 5: twice as many clients as servers.
fn by_servers(options: &Options) -> Vec<Figure> {
    let servers: &[u32] = if options.quick {
        &[1, 8, 64]
    } else {
        &[1, 2, 4, 8, 16, 32, 64]
    };
    let runs: Vec<Vec<Growth>> = (0..WAYS.len())
        .map(|way| {
            let each = servers.iter().map(|&count| count as usize);
            each.map(|count| run(count, 2 * count, way, options))
                .collect()
        })
        .collect();
    let mut create = figure("orangefs-fig5a", "File creation by servers", "servers");
    let mut remove = figure("orangefs-fig5b", "File removal by servers", "servers");
    for (way, runs) in WAYS.iter().zip(&runs) {
        create.add(way.0, zip(servers, runs.iter().map(|run| run.create_rate)));
        remove.add(way.0, zip(servers, runs.iter().map(|run| run.remove_rate)));
    }
    let last = servers.len() - 1;
    let growth =
        |way: usize, rate: fn(&Growth) -> f64| rate(&runs[way][last]) / rate(&runs[way][0]);
    let count = servers[last];
    create.claim(
        "creation scales with the servers, and does not in the vanilla file system",
        growth(2, |run| run.create_rate) > 0.7 * f64::from(count)
            && growth(0, |run| run.create_rate) < 2.5,
        format!(
            "{count} servers over one: {} with all partitions, {} from one partition, {} vanilla",
            times(growth(2, |run| run.create_rate)),
            times(growth(1, |run| run.create_rate)),
            times(growth(0, |run| run.create_rate))
        ),
    );
    create.claim(
        "for a directory that will be large it is better to have all partitions from the start",
        runs[2][last].create_rate > runs[1][last].create_rate,
        format!(
            "{} the rate from one partition, which made {} splits that moved {} entries",
            times(runs[2][last].create_rate / runs[1][last].create_rate),
            runs[1][last].splits,
            runs[1][last].moved
        ),
    );
    remove.claim(
        "removal scales with the servers",
        growth(2, |run| run.remove_rate) > 0.7 * f64::from(count),
        format!(
            "{count} servers over one: {} with all partitions from the start, {} where it split, {} vanilla",
            times(growth(2, |run| run.remove_rate)),
            times(growth(1, |run| run.remove_rate)),
            times(growth(0, |run| run.remove_rate))
        ),
    );
    vec![create, remove]
}

/// Figure 6: 64 servers.
fn by_clients(options: &Options) -> Vec<Figure> {
    const SERVERS: usize = 64;
    let clients: &[u32] = if options.quick {
        &[1, 32, 128]
    } else {
        &[1, 4, 16, 32, 64, 128, 192, 256, 512]
    };
    let runs: Vec<Vec<Growth>> = (0..WAYS.len())
        .map(|way| {
            let each = clients.iter().map(|&count| count as usize);
            each.map(|count| run(SERVERS, count, way, options))
                .collect()
        })
        .collect();
    let mut create = figure(
        "orangefs-fig6a",
        "File creation by clients, 64 servers",
        "clients",
    );
    let mut remove = figure(
        "orangefs-fig6b",
        "File removal by clients, 64 servers",
        "clients",
    );
    for (way, runs) in WAYS.iter().zip(&runs) {
        create.add(way.0, zip(clients, runs.iter().map(|run| run.create_rate)));
        remove.add(way.0, zip(clients, runs.iter().map(|run| run.remove_rate)));
    }
    let at = |count: u32| {
        clients
            .iter()
            .position(|&clients| clients == count)
            .unwrap_or(0)
    };
    let growth =
        |way: usize, rate: fn(&Growth) -> f64| rate(&runs[way][at(128)]) / rate(&runs[way][at(32)]);
    create.claim(
        "with 64 servers creation scales up to 128 clients, and does not at all in the vanilla file system",
        growth(2, |run| run.create_rate) > 2.0 && growth(0, |run| run.create_rate) < 1.2,
        format!(
            "128 clients over 32: {} with all partitions, {} vanilla",
            times(growth(2, |run| run.create_rate)),
            times(growth(0, |run| run.create_rate))
        ),
    );
    let most = |runs: &[Growth]| runs.iter().map(|run| run.remove_rate).fold(0.0, f64::max);
    let last = runs[2].len() - 1;
    remove.claim(
        "with 192 and 256 clients removal drops (from 11,000 to 8,000 a second)",
        runs[2][last].remove_rate < 0.95 * most(&runs[2]),
        format!(
            "{:.0} a second with {} clients, {:.0} at most: here a server with many requests is as fast as one with few. The \
             paper itself puts the drop down to how its removal is implemented",
            runs[2][last].remove_rate,
            clients[last],
            most(&runs[2])
        ),
    );
    vec![create, remove]
}

fn figure(id: &str, title: &str, x: &str) -> Figure {
    let y = Axis::logarithmic("operations a second");
    let mut figure = Figure::new(id, title, Axis::logarithmic(x), y);
    figure.note("a request at a time from each client; the paper's machines were others, so only shapes compare");
    figure
}
