//! Time until a killed server serves again, by the length of its log.

use super::Options;
use super::cluster::{CALLER, Cluster, name, signal, status_of, statuses};
use crate::report::spread;
use anyhow::{Result, bail};
use pandofs_api::{NewNode, ServerStatus};
use pandofs_client::Client;
use pandofs_model::report::{Axis, Figure};
use pandofs_types::{Ino, ServerId};
use rustix::process::Signal;
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
pub(super) const BACK_LIMIT: Duration = Duration::from_secs(120);
pub(super) const PAUSE: Duration = Duration::from_millis(2);
/// Of a server here: with less the store writes to its files by itself before the log is long, and
/// what it has there is not replayed.
const MEMORY: &str = "4G";
/// Number of times that a log is filled that the store takes up too early.
const MOST_FILLINGS: u32 = 10;
pub(super) const MIB: f64 = (1 << 20) as f64;

struct Recovery {
    mib: f64,
    records: u64,
    took: Duration,
}

/// Makes files until the log of a server is as long as that: that server.
pub(super) fn fill_log(
    options: &Options,
    cluster: &Cluster,
    observer: &Client,
    mib: f64,
) -> Result<ServerStatus> {
    for attempt in 0..MOST_FILLINGS {
        let filled = fill_once(options, cluster, observer, mib, attempt)?;
        // The store takes up the log at a moment of its own, which may be just now.
        if filled.log_bytes as f64 >= mib * MIB {
            return Ok(filled);
        }
    }
    bail!("the store took up the log each of {MOST_FILLINGS} times that it was {mib} MiB long")
}

/// That server once its log is not filled any more.
fn fill_once(
    options: &Options,
    cluster: &Cluster,
    observer: &Client,
    mib: f64,
    attempt: u32,
) -> Result<ServerStatus> {
    let full = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..options.clients)
            .map(|rank| {
                let full = &full;
                scope.spawn(move || fill(cluster, rank, attempt, full))
            })
            .collect();
        let found = (|| loop {
            let all = statuses(observer)?;
            if let Some(status) = all
                .into_iter()
                .find(|status| status.log_bytes as f64 >= mib * MIB)
            {
                return anyhow::Ok(status);
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
        status_of(observer, found?.id)
    })
}

/// Kills a server, which is started again at once.
pub(super) struct Killed {
    server: ServerId,
    old_pid: u32,
    begun: Instant,
}

impl Killed {
    pub(super) fn now(victim: &ServerStatus) -> Result<Killed> {
        signal(victim, Signal::KILL)?;
        Ok(Killed {
            server: victim.id,
            old_pid: victim.pid,
            begun: Instant::now(),
        })
    }

    /// The time until the new process is as it is waited for.
    pub(super) fn until(
        &self,
        observer: &Client,
        wanted: impl Fn(&ServerStatus) -> bool,
    ) -> Result<Duration> {
        loop {
            if let Ok(status) = status_of(observer, self.server)
                && status.pid != self.old_pid
                && wanted(&status)
            {
                return Ok(self.begun.elapsed());
            }
            if self.begun.elapsed() > BACK_LIMIT {
                bail!(
                    "server {} is not back after {} s",
                    self.server,
                    BACK_LIMIT.as_secs()
                );
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn recover(options: &Options, scratch: &Path, mib: f64) -> Result<Recovery> {
    let cluster = Cluster::start(&options.setup, scratch, &["--memory", MEMORY], true)?;
    let observer = cluster.client()?;
    let victim = fill_log(options, &cluster, &observer, mib)?;
    let took = Killed::now(&victim)?.until(&observer, |_| true)?;
    cluster.stop()?;
    Ok(Recovery {
        mib: victim.log_bytes as f64 / MIB,
        records: victim.log_records,
        took,
    })
}

/// Makes empty files until there are enough.
fn fill(cluster: &Cluster, rank: u64, attempt: u32, full: &AtomicBool) -> Result<()> {
    let client = cluster.client()?;
    let name_of_dir = name(&format!("filled-{attempt}-{rank}"))?;
    let dir = client.mkdir(&CALLER, Ino::ROOT, &name_of_dir, 0o755)?;
    let mut number = 0_u64;
    while !full.load(Ordering::Relaxed) {
        number += 1;
        let name = name(&format!("file-{number:09}"))?;
        client.mknod(&CALLER, dir.ino, &name, NewNode::File, 0o644)?;
    }
    Ok(())
}

/// Table 4 of the paper.
pub(super) fn by_length(options: &Options, scratch: &Path) -> Result<Figure> {
    let mut figure = Figure::new(
        "commit-recovery",
        "Recovery of a killed server by the length of its log",
        Axis::linear("MiB of log"),
        Axis::linear("seconds until it answers"),
    );
    let mut points = Vec::new();
    for &mib in &options.log {
        eprintln!("recovery from {mib} MiB");
        let rounds = (0..options.recoveries)
            .map(|_| recover(options, scratch, mib))
            .collect::<Result<Vec<_>>>()?;
        let (least, median, most) = seconds(&rounds, |round| round.took);
        let records = rounds.iter().map(|round| round.records).max();
        let lengths = spread(rounds.iter().map(|round| round.mib).collect());
        figure.note(format!(
            "{:.1} to {:.1} MiB, up to {} records since the start: {least:.2} to {most:.2} s",
            lengths.0,
            lengths.2,
            records.unwrap_or(0)
        ));
        points.push((mib, median));
    }
    figure.add("measured", points);
    figure.add("Xiong et al., table 4", PAPER.to_vec());
    figure.note(format!(
        "from the kill on, the start of the process included: the median of {}, least and most in the notes",
        options.recoveries
    ));
    figure.note(format!(
        "servers with --memory {MEMORY}: with the default the store has files of its own from about 25 MiB of log on, and \
         what they hold is not replayed"
    ));
    figure.note("the paper's logs had 721 undecided operations each; these have none: what was asked for had been answered");
    Ok(figure)
}

/// Least, median and most of a time.
pub(super) fn seconds<T>(rounds: &[T], of: impl Fn(&T) -> Duration) -> (f64, f64, f64) {
    spread(rounds.iter().map(|round| of(round).as_secs_f64()).collect())
}
