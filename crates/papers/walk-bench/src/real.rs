//! Runs of real ranks over MPI.
//!
//! The processes are counted as the simulated ones are: two are taken to be on each host, and the
//! hybrid has one process a host with two threads.

use crate::figures::{CP, Curve, DEQS, DRQS, Figures, H, PA, Traffic, components_of, traffic_of};
use crate::launch::{Launched, mpirun};
use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use pandofs_walk::{Algorithm, RankId};
use pandofs_walk_bench::sim::{Components, RankReport, Report};
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const TIMED: [Algorithm; 4] = [CP, DRQS, DEQS, H];

pub(crate) struct Real {
    /// The largest of the trees, and its entries.
    pub tree: String,
    pub entries: u64,
    pub processors: usize,
    pub rounds: usize,
    /// Processes that wanted a processor before and after, of whatever program: the system's load.
    pub loads: [String; 2],
    pub figures: Figures,
    /// How many times as long the centralized walk takes as drqs and h-drqs, with the most
    /// processes.
    pub faster: [Spread; 2],
}

/// Runs that are to be done.
pub(crate) struct Runs<'r> {
    pub program: &'r Path,
    /// From the smallest to the largest.
    pub trees: &'r [PathBuf],
    /// Numbers of processes, from the least to the most.
    pub processes: &'r [u32],
    pub rounds: usize,
}

/// Output of `pandofs-mpi measure`.
#[derive(Deserialize)]
struct Measured {
    seconds: f64,
    ranks: Vec<Share>,
}

#[derive(Deserialize)]
struct Share {
    entries: u64,
    callback_ns: u64,
    lstat_ns: u64,
    readdir_ns: u64,
    working_ns: u64,
    speaking_ns: u64,
    sent: Vec<Sent>,
}

#[derive(Deserialize)]
struct Sent {
    messages: u64,
    bytes: u64,
}

impl Runs<'_> {
    /// # Errors
    /// When a run fails, or does not find what the others do.
    pub(crate) fn run(&self) -> Result<Real> {
        let before = load();
        let most = self.processes.last().copied();
        let most = most.context("no number of processes")?;
        let tree = self.trees.last().context("no tree")?;
        let (times, faster) = self.times(tree, most)?;
        let mut components = Vec::new();
        for processes in self.processes.iter().copied().filter(|it| *it > 1) {
            let report = self.measure(H, processes, tree)?;
            components.push((processes, components_of(&report)));
        }
        let mut exchanges = Vec::new();
        for algorithm in [CP, DRQS, PA, H] {
            exchanges.push((algorithm, self.measure(algorithm, most, tree)?));
        }
        let mut traffic = Vec::new();
        for algorithm in [CP, PA, H] {
            let mut points = Vec::new();
            for tree in self.trees {
                points.push(self.traffic(algorithm, most, tree)?);
            }
            traffic.push((algorithm, points));
        }
        let mut shares = Vec::new();
        for algorithm in [DRQS, DEQS, PA, H] {
            shares.push((algorithm, self.measure(algorithm, most, tree)?));
        }
        let entries = shares.first().map_or(0, |(_, report)| report.nodes());
        let all = exchanges.iter().chain(&shares);
        for (algorithm, report) in all {
            let seen = report.nodes();
            ensure!(
                seen == entries,
                "{algorithm}: {seen} entries, not {entries}"
            );
        }
        Ok(Real {
            tree: tree.display().to_string(),
            entries,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: self.rounds,
            loads: [before, load()],
            figures: Figures {
                times,
                components,
                traffic,
                processes: most,
                exchanges,
                sharing: (most, entries),
                shares,
            },
            faster,
        })
    }

    /// Figure 3a by `walk` itself. Each round runs all, one after the other.
    fn times(&self, tree: &Path, most: u32) -> Result<(Vec<Curve>, [Spread; 2])> {
        let mut seconds = vec![vec![Vec::new(); self.processes.len()]; TIMED.len()];
        let mut entries = None;
        for _ in 0..self.rounds {
            for (at, processes) in self.processes.iter().enumerate() {
                for (algorithm, seconds) in TIMED.iter().zip(&mut seconds) {
                    let how = ["walk".as_ref(), "--json".as_ref()];
                    let launched = self.launch(*algorithm, *processes, &how, tree)?;
                    let counts: serde_json::Value = serde_json::from_slice(&launched.stdout)?;
                    let seen = counts["entries"].as_u64().context("no count")?;
                    let known = *entries.get_or_insert(seen);
                    ensure!(known == seen, "{known} entries, then {seen}");
                    seconds[at].push(counts["seconds"].as_f64().context("no time")?);
                }
            }
        }
        let at_most = |algorithm: Algorithm| {
            let row = TIMED.iter().position(|it| *it == algorithm);
            let column = self.processes.iter().position(|it| *it == most);
            let values = row.zip(column).map(|(row, column)| &seconds[row][column]);
            values.cloned().unwrap_or_default()
        };
        let faster = [DRQS, H].map(|it| Spread::of_ratios(&at_most(CP), &at_most(it)));
        let curves = TIMED.iter().zip(&seconds).map(|(algorithm, of_each)| {
            let points = self.processes.iter().zip(of_each);
            let points = points.map(|(processes, seconds)| {
                (f64::from(*processes), Spread::of(seconds.clone()).median)
            });
            (*algorithm, points.collect())
        });
        Ok((curves.collect(), faster))
    }

    /// The run with as many messages as half of them have at most.
    fn traffic(&self, algorithm: Algorithm, processes: u32, tree: &Path) -> Result<Traffic> {
        let mut all = Vec::new();
        for _ in 0..self.rounds {
            all.push(traffic_of(&self.measure(algorithm, processes, tree)?));
        }
        all.sort_by(|one, other| one.1.total_cmp(&other.1));
        let middle = all.len().saturating_sub(1) / 2;
        all.get(middle).copied().context("no round")
    }

    fn measure(&self, algorithm: Algorithm, processes: u32, tree: &Path) -> Result<Report> {
        let per_host = if algorithm.shares_queue() { "1" } else { "2" };
        let how = ["measure", "--ranks-per-host", per_host].map(OsStr::new);
        let launched = self.launch(algorithm, processes, &how, tree)?;
        Ok(report(&serde_json::from_slice(&launched.stdout)?))
    }

    fn launch(
        &self,
        algorithm: Algorithm,
        processes: u32,
        how: &[&OsStr],
        tree: &Path,
    ) -> Result<Launched> {
        let mut arguments = how.to_vec();
        arguments.extend(["--algorithm", algorithm.name()].map(OsStr::new));
        let mut ranks = processes;
        if algorithm.shares_queue() {
            ranks = processes.div_ceil(2);
            let threads = if processes > 1 { "2" } else { "1" };
            arguments.extend(["--threads", threads].map(OsStr::new));
        }
        arguments.push(tree.as_os_str());
        mpirun(ranks, self.program, &arguments)
    }
}

/// Of the last minute.
fn load() -> String {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads
        .split_whitespace()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

/// With more threads than processors the clock runs on while a thread waits for one. So what the
/// threads took of processors is told, divided between what they did as the clock has it.
fn report(measured: &Measured) -> Report {
    let mut report = Report {
        elapsed_ns: (measured.seconds * 1e9) as u64,
        ..Report::default()
    };
    for (from, share) in (0..).map(RankId).zip(&measured.ranks) {
        let parts = [share.callback_ns, share.lstat_ns, share.readdir_ns];
        let clock = parts.iter().sum::<u64>().max(1) as f64;
        let of = |ns: u64| (ns as f64 / clock * share.working_ns as f64) as u64;
        let Components {
            callback_ns,
            lstat_ns,
            readdir_ns,
            communication_ns,
        } = &mut report.components;
        *callback_ns += of(share.callback_ns);
        *lstat_ns += of(share.lstat_ns);
        *readdir_ns += of(share.readdir_ns);
        *communication_ns += share.speaking_ns;
        for (to, sent) in (0..).map(RankId).zip(&share.sent) {
            if sent.bytes > 0 {
                report.bytes.insert((from, to), sent.bytes);
            }
        }
        report.ranks.push(RankReport {
            nodes: share.entries,
            sent_messages: share.sent.iter().map(|it| it.messages).sum(),
            sent_bytes: share.sent.iter().map(|it| it.bytes).sum(),
            longest_queue: 0,
        });
    }
    report
}

/// Returns the processor time of so many processes, as `walk` runs without options, in turns:
/// seconds of each number in each round. The launcher is included.
///
/// # Errors
/// When a run fails.
pub(crate) fn processor_seconds(
    program: &Path,
    tree: &Path,
    processes: &[u32],
    rounds: usize,
) -> Result<Vec<Vec<f64>>> {
    let mut seconds = vec![Vec::new(); processes.len()];
    let arguments = ["walk".as_ref(), "--json".as_ref(), tree.as_os_str()];
    // The first round warms the caches.
    for round in 0..=rounds {
        for (processes, seconds) in processes.iter().zip(&mut seconds) {
            let launched = mpirun(*processes, program, &arguments)?;
            if round > 0 {
                seconds.push(launched.processor_seconds);
            }
        }
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_tell_becomes_a_report() {
        let json = r#"{"seconds": 1.5, "ranks": [
            {"entries": 7, "callback_ns": 10, "lstat_ns": 60, "readdir_ns": 30, "working_ns": 50,
             "speaking_ns": 4, "sent": [{"messages": 0, "bytes": 0}, {"messages": 2, "bytes": 9}]},
            {"entries": 3, "callback_ns": 0, "lstat_ns": 0, "readdir_ns": 0, "working_ns": 0,
             "speaking_ns": 1, "sent": [{"messages": 1, "bytes": 5}, {"messages": 0, "bytes": 0}]}]}"#;
        let report = report(&serde_json::from_str(json).unwrap());
        assert_eq!(report.elapsed_ns, 1_500_000_000);
        assert_eq!(traffic_of(&report), (10.0, 3.0, 14.0));
        let parts = components_of(&report).map(|seconds| (seconds * 1e9).round());
        assert_eq!(parts, [5.0, 30.0, 15.0, 5.0]);
        let bytes: Vec<_> = report.bytes.into_iter().collect();
        assert_eq!(
            bytes,
            [((RankId(0), RankId(1)), 9), ((RankId(1), RankId(0)), 5)]
        );
    }
}
