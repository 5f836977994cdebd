//! Output of `pandofs bench --json`, as far as the model has the same.

use crate::new_cluster::{parse_file_policy, parse_policy};
use anyhow::{Context, Result, ensure};
use pandofs_model::{Bench, Live, Took};
use pandofs_placement::FilePolicy;
use serde::Deserialize;
use std::path::Path;

/// A line of it.
#[derive(Deserialize)]
struct Line {
    workload: String,
    servers: Option<usize>,
    policy: Option<String>,
    /// Missing in lines of earlier versions, which knew no other than the default.
    file_policy: Option<String>,
    clients: usize,
    files: u32,
    seed: u64,
    phase: String,
    #[serde(default)]
    operations: f64,
    #[serde(default)]
    seconds: f64,
    /// Work of the servers, in all phases, on a line of its own.
    #[serde(default)]
    requests: Vec<u64>,
    #[serde(default)]
    distributed: u64,
    #[serde(default)]
    messages: u64,
}

/// The kind of measurement that a line is a part of.
enum Part {
    /// One of [`Bench::phases`].
    Phase(usize),
    Servers,
}

impl Line {
    fn bench(&self) -> Option<Bench> {
        match self.workload.as_str() {
            "macro1" => Some(Bench::Macro1),
            "metarates" => Some(Bench::Metarates),
            "macro2" => Some(Bench::Macro2),
            _ => None,
        }
    }

    fn part(&self, bench: Bench) -> Option<Part> {
        let phase = match (bench, self.phase.as_str()) {
            (_, "servers") => return Some(Part::Servers),
            (Bench::Macro1, "mkdir" | "create") => 0,
            (Bench::Macro1, "stat") => 1,
            (Bench::Macro1, "unlink" | "rmdir") => 2,
            (Bench::Metarates, "create") => 0,
            (Bench::Metarates, "unlink") => 1,
            (Bench::Macro2, "mix") => 0,
            _ => return None,
        };
        Some(Part::Phase(phase))
    }

    /// Without figures.
    fn live(&self, bench: Bench, servers: usize, policy: &str) -> Result<Live> {
        let file_policy = match &self.file_policy {
            Some(text) => parse_file_policy(text).map_err(anyhow::Error::msg)?,
            None => FilePolicy::WithEntry,
        };
        Ok(Live {
            bench,
            policy: parse_policy(policy).map_err(anyhow::Error::msg)?,
            file_policy,
            servers,
            clients: self.clients,
            files: self.files,
            seed: self.seed,
            rates: Vec::new(),
            took: None,
        })
    }
}

/// Sums of one setting so far.
struct Sums {
    /// Without figures.
    live: Live,
    /// Operations and seconds of each phase.
    phases: Vec<(f64, f64)>,
    took: Option<Took>,
}

impl Sums {
    fn add(&mut self, part: Part, line: Line) {
        match part {
            Part::Phase(phase) => {
                let sum = &mut self.phases[phase];
                sum.0 += line.operations;
                sum.1 += line.seconds;
            }
            // Of several measurements the last.
            Part::Servers => {
                self.took = Some(Took {
                    requests: line.requests,
                    distributed: line.distributed,
                    messages: line.messages,
                });
            }
        }
    }
}

/// The measurements through the library; several of one setting are added up.
///
/// # Errors
/// When there are none, or the file is something else.
pub(crate) fn measured(path: &Path) -> Result<Vec<Live>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let mut all: Vec<Sums> = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let number = number + 1;
        let line: Line = serde_json::from_str(text)
            .with_context(|| format!("{shown}: line {number} is no measurement"))?;
        let (Some(servers), Some(policy), Some(bench)) = (line.servers, &line.policy, line.bench())
        else {
            continue;
        };
        let Some(part) = line.part(bench) else {
            continue;
        };
        ensure!(
            line.clients > 0 && servers > 0,
            "{shown}: line {number} has no clients or no servers"
        );
        let live = line
            .live(bench, servers, policy)
            .with_context(|| format!("{shown}: line {number}"))?;
        let at = match all.iter().position(|sums| sums.live == live) {
            Some(at) => at,
            None => {
                all.push(Sums {
                    phases: vec![(0.0, 0.0); bench.phases().len()],
                    live,
                    took: None,
                });
                all.len() - 1
            }
        };
        all[at].add(part, line);
    }
    ensure!(
        !all.is_empty(),
        "{shown} has no measurement of macro1, metarates or macro2 through the library"
    );
    let rate = |(operations, seconds): &(f64, f64)| operations / seconds;
    all.into_iter()
        .map(|sums| {
            let missing = sums.phases.iter().position(|phase| phase.1 == 0.0);
            if let Some(phase) = missing {
                anyhow::bail!(
                    "{shown}: there is no '{}' of {:?} with {} clients",
                    sums.live.bench.phases()[phase],
                    sums.live.bench,
                    sums.live.clients
                );
            }
            Ok(Live {
                rates: sums.phases.iter().map(rate).collect(),
                took: sums.took,
                ..sums.live
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_placement::DirPolicy;

    fn line(workload: &str, phase: &str, operations: u32) -> String {
        format!(
            "{{\"workload\":\"{workload}\",\"servers\":4,\"policy\":\"random\",\"clients\":8,\"files\":100,\
             \"seed\":1,\"phase\":\"{phase}\",\"operations\":{operations},\"seconds\":2.0}}\n"
        )
    }

    fn read(text: &str) -> Result<Vec<Live>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("live.jsonl");
        std::fs::write(&path, text).unwrap();
        measured(&path)
    }

    const MACRO1: [(&str, u32); 5] = [
        ("mkdir", 10),
        ("create", 90),
        ("stat", 50),
        ("unlink", 70),
        ("rmdir", 10),
    ];

    #[test]
    fn phases_of_a_measurement_are_added_up() {
        let mut text = MACRO1
            .map(|(phase, count)| line("macro1", phase, count))
            .concat();
        text += &line("tree", "stat", 1_000);
        text += "{\"workload\":\"macro1\",\"servers\":4,\"policy\":\"random\",\"clients\":8,\"files\":100,\"seed\":1,\
                 \"phase\":\"servers\",\"requests\":[1,2,3,4],\"distributed\":5,\"messages\":6}\n";
        let all = read(&text).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].rates, [25.0, 25.0, 20.0]);
        assert_eq!((all[0].policy, all[0].servers), (DirPolicy::Random, 4));
        assert_eq!(all[0].file_policy, FilePolicy::WithEntry);
        let took = Took {
            requests: vec![1, 2, 3, 4],
            distributed: 5,
            messages: 6,
        };
        assert_eq!(all[0].took, Some(took));
        assert!(read(&line("tree", "stat", 1)).is_err());
    }

    #[test]
    fn each_workload_has_its_phases() {
        let text = [
            line("metarates", "create", 10),
            line("metarates", "stat", 1),
            line("metarates", "unlink", 30),
            line("macro2", "warm-up", 1),
            line("macro2", "mix", 50),
        ];
        let all = read(&text.concat()).unwrap();
        let benches: Vec<_> = all
            .iter()
            .map(|live| (live.bench, live.rates.clone()))
            .collect();
        let wanted = [
            (Bench::Metarates, vec![5.0, 15.0]),
            (Bench::Macro2, vec![25.0]),
        ];
        assert_eq!(benches, wanted);
    }

    #[test]
    fn policies_of_files_are_settings_of_their_own() {
        let narrow = |text: String| text.replace("\"seed\"", "\"file_policy\":\"ddg:64\",\"seed\"");
        let both = MACRO1.map(|(phase, count)| {
            let line = line("macro1", phase, count);
            line.clone() + &narrow(line)
        });
        let all = read(&both.concat()).unwrap();
        let policies: Vec<FilePolicy> = all.iter().map(|live| live.file_policy).collect();
        let ddg = FilePolicy::Ddg { file_width: 64 };
        assert_eq!(policies, [FilePolicy::WithEntry, ddg]);
        assert!(read(&line("macro1", "stat", 1).replace("random", "wild")).is_err());
    }

    #[test]
    fn a_measurement_that_broke_off_is_an_error() {
        let error = read(&line("macro1", "stat", 1)).unwrap_err().to_string();
        assert!(
            error.ends_with("there is no 'create' of Macro1 with 8 clients"),
            "{error}"
        );
        assert!(read(&line("macro2", "mix", 1).replace(":8,", ":0,")).is_err());
    }
}
