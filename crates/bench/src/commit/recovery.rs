//! How long a killed server takes until it serves again, by the length of its log.

use super::Options;
use super::cluster::{CALLER, Cluster, name, statuses};
use anyhow::{Context, Result, bail};
use pandofs_api::NewNode;
use pandofs_report::{Axis, Figure};
use pandofs_types::{Ino, ServerId};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The paper's table 4: MB of log and seconds, with 721 undecided operations in each.
const PAPER: [(f64, f64); 5] = [
    (10.0, 4.14),
    (20.0, 7.87),
    (30.0, 11.65),
    (40.0, 15.73),
    (50.0, 19.26),
];
const BACK_LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);
const MIB: f64 = (1 << 20) as f64;

struct Recovery {
    mib: f64,
    records: u64,
    took: Duration,
}

/// Fills the log of one of the servers, kills it, and waits until it answers.
fn recover(options: &Options, scratch: &Path, mib: f64) -> Result<Recovery> {
    let cluster = Cluster::start(&options.setup, scratch, &[], true)?;
    let observer = cluster.client()?;
    let full = AtomicBool::new(false);
    let (victim, log_bytes, records) = std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..options.clients)
            .map(|rank| {
                let (cluster, full) = (&cluster, &full);
                scope.spawn(move || fill(cluster, rank, full))
            })
            .collect();
        let found = (|| loop {
            let all = statuses(&observer)?;
            if let Some(status) = all
                .iter()
                .find(|status| status.log_bytes as f64 >= mib * MIB)
            {
                return anyhow::Ok((status.id, status.log_bytes, status.log_records));
            }
            if fillers.iter().any(|filler| filler.is_finished()) {
                bail!("a client that fills the log has ended");
            }
            std::thread::sleep(PAUSE);
        })();
        full.store(true, Ordering::SeqCst);
        for filler in fillers {
            match filler.join() {
                Ok(filled) => filled?,
                Err(_) => bail!("a client panicked"),
            }
        }
        found
    })?;
    let pid = |server: ServerId| {
        let all = observer.status();
        let found = all.into_iter().find(|(id, _)| *id == server);
        found
            .and_then(|(_, status)| status.ok())
            .map(|status| status.pid)
    };
    let old = pid(victim).context("the server does not answer")?;
    kill_process(
        Pid::from_raw(old.cast_signed()).context("no process")?,
        Signal::KILL,
    )?;
    let begun = Instant::now();
    while pid(victim).is_none_or(|new| new == old) {
        if begun.elapsed() > BACK_LIMIT {
            bail!(
                "server {victim} is not back after {} s",
                BACK_LIMIT.as_secs()
            );
        }
        std::thread::sleep(PAUSE);
    }
    let took = begun.elapsed();
    cluster.stop()?;
    Ok(Recovery {
        mib: log_bytes as f64 / MIB,
        records,
        took,
    })
}

/// Makes empty files until it is told that there are enough.
fn fill(cluster: &Cluster, rank: u64, full: &AtomicBool) -> Result<()> {
    let client = cluster.client()?;
    let dir = client.mkdir(&CALLER, Ino::ROOT, &name(&format!("filled-{rank}"))?, 0o755)?;
    let mut number = 0_u64;
    while !full.load(Ordering::Relaxed) {
        number += 1;
        let name = name(&format!("file-{number:09}"))?;
        client.mknod(&CALLER, dir.ino, &name, NewNode::File, 0o644)?;
    }
    Ok(())
}

/// Table 4 of the paper.
pub fn by_length(options: &Options, scratch: &Path) -> Result<Figure> {
    let mut figure = Figure::new(
        "commit-recovery",
        "Recovery of a killed server by the length of its log",
        Axis::linear("MiB of log"),
        Axis::linear("seconds until it answers"),
    );
    let mut points = Vec::new();
    for &mib in &options.log {
        eprintln!("recovery from {mib} MiB");
        let found = recover(options, scratch, mib)?;
        figure.note(format!(
            "{:.1} MiB: about {} records since the start, {:.2} s from the kill until it answers, the start of the process \
             included",
            found.mib,
            found.records,
            found.took.as_secs_f64()
        ));
        points.push((found.mib, found.took.as_secs_f64()));
    }
    figure.add("measured", points);
    figure.add("Xiong et al., table 4", PAPER.to_vec());
    figure.note("the paper's logs had 721 undecided operations each; these have what was under way at the kill");
    Ok(figure)
}
