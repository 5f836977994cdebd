//! Simulated runs that were done before, in a file.
//!
//! All of them at the paper's sizes take long, and can be interrupted so.

use anyhow::{Context, Result};
use pandofs_walk::RankId;
use pandofs_walk_bench::sim::{Components, RankReport, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// By what says all about a run.
#[derive(Default)]
pub(crate) struct Kept {
    runs: BTreeMap<String, Report>,
    file: Option<File>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    run: String,
    elapsed_ns: u64,
    /// Callback, lstat, readdir, communication.
    components_ns: [u64; 4],
    /// Of each rank nodes, messages, bytes and items at most.
    ranks: Vec<[u64; 4]>,
    /// From, to, how many.
    bytes: Vec<(u32, u32, u64)>,
}

impl Kept {
    /// # Errors
    /// When the file cannot be read or made, or holds something else.
    pub(crate) fn open(path: &Path) -> Result<Kept> {
        let mut runs = BTreeMap::new();
        if path.exists() {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            for line in text.lines() {
                let line: Line =
                    serde_json::from_str(line).with_context(|| path.display().to_string())?;
                let (run, report) = read(line);
                runs.insert(run, report);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = Some(file.with_context(|| path.display().to_string())?);
        Ok(Kept { runs, file })
    }

    /// The run of this name; `simulate` does it if it was not done yet.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn run(&mut self, run: &str, simulate: impl FnOnce() -> Report) -> Result<Report> {
        if let Some(report) = self.runs.get(run) {
            return Ok(report.clone());
        }
        let report = simulate();
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&write(run, &report))? + "\n";
            file.write_all(line.as_bytes())?;
        }
        self.runs.insert(run.to_owned(), report.clone());
        Ok(report)
    }
}

fn write(run: &str, report: &Report) -> Line {
    let parts = report.components;
    let ranks = report.ranks.iter();
    let bytes = report.bytes.iter();
    Line {
        run: run.to_owned(),
        elapsed_ns: report.elapsed_ns,
        components_ns: [
            parts.callback_ns,
            parts.lstat_ns,
            parts.readdir_ns,
            parts.communication_ns,
        ],
        ranks: ranks
            .map(|it| [it.nodes, it.sent_messages, it.sent_bytes, it.longest_queue])
            .collect(),
        bytes: bytes
            .map(|((from, to), bytes)| (from.0, to.0, *bytes))
            .collect(),
    }
}

fn read(line: Line) -> (String, Report) {
    let [callback_ns, lstat_ns, readdir_ns, communication_ns] = line.components_ns;
    let ranks = line.ranks.into_iter();
    let bytes = line.bytes.into_iter();
    let report = Report {
        elapsed_ns: line.elapsed_ns,
        components: Components {
            callback_ns,
            lstat_ns,
            readdir_ns,
            communication_ns,
        },
        ranks: ranks
            .map(
                |[nodes, sent_messages, sent_bytes, longest_queue]| RankReport {
                    nodes,
                    sent_messages,
                    sent_bytes,
                    longest_queue,
                },
            )
            .collect(),
        bytes: bytes
            .map(|(from, to, bytes)| ((RankId(from), RankId(to)), bytes))
            .collect(),
    };
    (line.run, report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_done_once_and_read_as_it_was() {
        let dir = std::env::temp_dir().join(format!("pandofs-kept-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join("kept");
        let rank = RankReport {
            nodes: 5,
            sent_messages: 6,
            sent_bytes: 7,
            longest_queue: 8,
        };
        let report = Report {
            elapsed_ns: u64::MAX,
            components: Components {
                callback_ns: 1,
                lstat_ns: 2,
                readdir_ns: 3,
                communication_ns: 4,
            },
            ranks: vec![rank, RankReport::default()],
            bytes: BTreeMap::from([((RankId(0), RankId(1)), 7)]),
        };
        let first = Kept::open(&path).unwrap().run("a", || report.clone());
        assert_eq!(first.unwrap(), report);
        let again = Kept::open(&path)
            .unwrap()
            .run("a", || unreachable!("it is kept"));
        assert_eq!(again.unwrap(), report);
        std::fs::write(&path, "something else\n").unwrap();
        assert!(Kept::open(&path).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
