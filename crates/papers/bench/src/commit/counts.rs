//! Messages, records and forces of one operation over two servers.

use super::cluster::{CALLER, Cluster, at_rest, ended, name};
use super::{Options, PROTOCOLS};
use crate::report::spread;
use crate::rounds::Rounds;
use anyhow::{Result, ensure};
use pandofs_api::ServerStatus;
use pandofs_model::report::Figure;
use pandofs_types::Ino;
use std::path::Path;
use std::time::Instant;

/// Forces come at the protocols' wish only.
const NO_FORCES: &str = "1h";

/// Of all servers together.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    records: u64,
    forces: u64,
}

impl Counts {
    fn of(statuses: &[ServerStatus]) -> Counts {
        let sum = |of: fn(&ServerStatus) -> u64| statuses.iter().map(of).sum();
        Counts {
            messages: sum(|status| status.peer_messages),
            records: sum(|status| status.log_records),
            forces: sum(|status| status.log_syncs),
        }
    }
}

/// The measurements of each protocol, in this order.
const COLUMNS: [&str; 4] = [
    "messages",
    "log records",
    "forced writes",
    "ms until answered",
];

/// Of the operations of one round that needed both servers.
struct Round {
    /// Means, and of the time the median.
    columns: Vec<f64>,
    /// Milliseconds of each that one shard did alone.
    ordinary: Vec<f64>,
}

fn measure(options: &Options, scratch: &Path, protocol: &str) -> Result<Round> {
    let flags = ["--commit-protocol", protocol, "--flush-interval", NO_FORCES];
    let cluster = Cluster::start(&options.setup, scratch, &flags, true)?;
    let client = cluster.client()?;
    let map = client.cluster_map();
    let mut sum = Counts::default();
    let (mut distributed, mut ordinary) = (Vec::new(), Vec::new());
    let mut number = 0;
    let mut statuses = at_rest(&client, 0)?;
    while (distributed.len() as u64) < options.operations {
        number += 1;
        let name = name(&format!("dir-{number:07}"))?;
        let begun = Instant::now();
        let made = client.mkdir(&CALLER, Ino::ROOT, &name, 0o755)?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let (entry, inode) = (Ino::ROOT.birth_shard(), made.ino.birth_shard());
        let before = Counts::of(&statuses);
        statuses = at_rest(&client, ended(&statuses) + u64::from(entry != inode))?;
        let after = Counts::of(&statuses);
        if map.server_of(entry) != map.server_of(inode) {
            sum.messages += after.messages - before.messages;
            sum.records += after.records - before.records;
            sum.forces += after.forces - before.forces;
            distributed.push(took);
        } else if entry == inode {
            ordinary.push(took);
        }
        ensure!(
            number < 100 * options.operations,
            "directories are all on one server"
        );
    }
    cluster.stop()?;
    let mean = |sum: u64| sum as f64 / distributed.len() as f64;
    let mut columns = vec![mean(sum.messages), mean(sum.records), mean(sum.forces)];
    columns.push(spread(distributed).1);
    Ok(Round { columns, ordinary })
}

pub(super) fn of_protocols(options: &Options, scratch: &Path) -> Result<[Figure; 2]> {
    let mut rounds = Rounds::new(PROTOCOLS.to_vec(), &COLUMNS);
    let mut ordinary = Vec::new();
    for round in 1..=options.rounds {
        for (kind, protocol) in PROTOCOLS.iter().enumerate() {
            eprintln!("counting {protocol}, round {round}");
            let found = measure(options, scratch, protocol)?;
            rounds.add(kind, found.columns);
            ordinary.extend(found.ordinary);
        }
    }
    let mut figure = rounds.figure(
        "commit-counts",
        "One mkdir whose entry and inode are on two servers",
        "for each operation",
    );
    figure.note(format!(
        "in each round {} operations, one after the other, each until it had ended everywhere: their mean, and of the time \
         their median",
        options.operations
    ));
    if !ordinary.is_empty() {
        figure.note(format!(
            "a mkdir that one shard did alone was answered after {:.3} ms, the median of {}",
            spread(ordinary.clone()).1,
            ordinary.len()
        ));
    }
    figure.note("the paper: s2pc-mp 3 messages and 4 forced records, 2pc as its figure 3(b) has it 5 messages");
    let median = |kind, column| rounds.of(kind, column).1;
    figure.claim(
        "three messages (Xiong et al., 4.2)",
        (median(0, 0) - 3.0).abs() < 0.05,
        format!("{:.2} with s2pc-mp", median(0, 0)),
    );
    figure.claim(
        "five messages without the improvement (figure 3(b))",
        (median(1, 0) - 5.0).abs() < 0.05,
        format!("{:.2} with 2pc", median(1, 0)),
    );
    figure.claim(
        "four records (4.3.1)",
        (median(0, 1) - 4.0).abs() < 0.05,
        format!("{:.2} with s2pc-mp", median(0, 1)),
    );
    figure.claim(
        "each of the records is written through to disk (4.3.1)",
        median(0, 2) + 0.05 > median(0, 1),
        format!(
            "{:.2} forces of {:.2} records with s2pc-mp: the rest may wait for the next force, as nothing acts on it",
            median(0, 2),
            median(0, 1)
        ),
    );
    let ratios = rounds.ratios("commit-counts-ratios", "The same, compared");
    Ok([figure, ratios])
}
