//! `pandofs model`

use crate::exit::Outcome;
use crate::new_cluster::parse_policy;
use crate::reports;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use pandofs_model::{Costs, Experiment, Live, Options, Took, beside};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pandofs model --quick
      everything, roughly, in some ten seconds
  pandofs model ddg --out figures
      the figures of Dynamic Dir-Grain as tables, with plots and JSON lines in the directory figures
  pandofs model giga orangefs --costs measured
      one directory over many servers, with the costs of this project's own parts
  pandofs model adaptive --costs my-costs.json
      with costs of your own; what there is to set: pandofs model --print-costs

The figures come from the code that places directories, partitions and shards in a running system;
no server is needed. Each says whether what its paper claims holds.";

/// The papers' figures again, from the placement code, without servers
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Model {
    /// What to model; everything unless given
    #[arg(value_enum)]
    experiments: Vec<What>,
    /// Smaller name spaces and fewer points
    #[arg(long)]
    quick: bool,
    /// Whatever is drawn at random follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What things cost: paper, measured, or a JSON file
    #[arg(long, value_name = "COSTS", default_value = "paper")]
    costs: String,
    /// Print the costs as JSON and stop
    #[arg(long)]
    print_costs: bool,
    /// Instead, the model beside what 'pandofs bench macro1 --json FILE' measured
    #[arg(long, value_name = "FILE", conflicts_with = "experiments")]
    live: Option<PathBuf>,
    /// Write plots (SVG), tables (report.txt) and points (report.jsonl) there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON lines instead of tables
    #[arg(long)]
    json: bool,
    /// The commit, for JSON lines
    #[arg(long, value_name = "ID", default_value = "unknown")]
    commit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Dynamic Dir-Grain: figures 5 to 13 of Xiong et al.
    Ddg,
    /// Dir-grain that adjusts itself, against fixed granularities
    Adaptive,
    /// GIGA+: growth, balance, stale maps, servers that join
    Giga,
    /// OrangeFS: creation and removal by servers and clients
    Orangefs,
    /// A trillion files on ten thousand servers
    Internet,
}

impl What {
    fn experiment(self) -> Experiment {
        match self {
            What::Ddg => Experiment::Ddg,
            What::Adaptive => Experiment::Adaptive,
            What::Giga => Experiment::Giga,
            What::Orangefs => Experiment::Orangefs,
            What::Internet => Experiment::Internet,
        }
    }
}

impl Model {
    /// # Errors
    /// When the costs cannot be read, or the figures not be written.
    pub fn run(&self) -> Result<Outcome> {
        let costs = costs(&self.costs)?;
        if self.print_costs {
            let text = serde_json::to_string_pretty(&costs).context("cannot write JSON")?;
            crate::print(&format!("{text}\n"))?;
            return Ok(Outcome::Done);
        }
        let mut report =
            reports::Report::new(self.out.as_deref(), self.json, &self.commit, self.seed)?;
        if let Some(path) = &self.live {
            report.add(&beside(&measured(path)?, costs))?;
            report.finish()?;
            return Ok(Outcome::Done);
        }
        let options = Options {
            seed: self.seed,
            costs,
            quick: self.quick,
        };
        let all: Vec<Experiment> = if self.experiments.is_empty() {
            Experiment::ALL.to_vec()
        } else {
            self.experiments
                .iter()
                .map(|what| what.experiment())
                .collect()
        };
        for experiment in all {
            for figure in experiment.figures(&options) {
                report.add(&figure)?;
            }
        }
        report.finish()?;
        Ok(Outcome::Done)
    }
}

fn costs(named: &str) -> Result<Costs> {
    match named {
        "paper" => Ok(Costs::PAPER),
        "measured" => Ok(Costs::MEASURED),
        path => {
            let text = std::fs::read_to_string(path).with_context(|| {
                format!("{path}: neither paper, measured nor a file that can be read")
            })?;
            serde_json::from_str(&text).with_context(|| format!("{path} is no file of costs"))
        }
    }
}

/// A line of `pandofs bench --json`.
#[derive(Deserialize)]
struct Line {
    workload: String,
    servers: Option<usize>,
    policy: Option<String>,
    clients: usize,
    files: u32,
    seed: u64,
    phase: String,
    #[serde(default)]
    operations: f64,
    #[serde(default)]
    seconds: f64,
    /// What the servers did, of all phases, in a line of its own.
    #[serde(default)]
    requests: Vec<u64>,
    #[serde(default)]
    distributed: u64,
    #[serde(default)]
    messages: u64,
}

/// Which of the model's phases a line is a part of.
enum Part {
    Phase(usize),
    Servers,
}

impl Line {
    fn part(&self) -> Option<Part> {
        match self.phase.as_str() {
            "mkdir" | "create" => Some(Part::Phase(0)),
            "stat" => Some(Part::Phase(1)),
            "unlink" | "rmdir" => Some(Part::Phase(2)),
            "servers" => Some(Part::Servers),
            _ => None,
        }
    }
}

/// What is known of one setting so far.
struct Sums {
    /// Without figures.
    live: Live,
    /// Operations and seconds of each.
    phases: [(f64, f64); 3],
    took: Option<Took>,
}

/// The measurements of macro1 through the library; several of one setting are added up.
fn measured(path: &Path) -> Result<Vec<Live>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let mut all: Vec<Sums> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("{shown}: line {} is no measurement", number + 1))?;
        let (Some(servers), Some(policy), Some(part)) = (line.servers, &line.policy, line.part())
        else {
            continue;
        };
        if line.workload != "macro1" {
            continue;
        }
        let live = Live {
            policy: parse_policy(policy).map_err(anyhow::Error::msg)?,
            servers,
            clients: line.clients,
            files: line.files,
            seed: line.seed,
            rates: [0.0; 3],
            took: None,
        };
        let at = match all.iter().position(|sums| sums.live == live) {
            Some(at) => at,
            None => {
                all.push(Sums {
                    live,
                    phases: [(0.0, 0.0); 3],
                    took: None,
                });
                all.len() - 1
            }
        };
        match part {
            Part::Phase(phase) => {
                let sum = &mut all[at].phases[phase];
                sum.0 += line.operations;
                sum.1 += line.seconds;
            }
            // Of several measurements the last.
            Part::Servers => {
                all[at].took = Some(Took {
                    requests: line.requests,
                    distributed: line.distributed,
                    messages: line.messages,
                });
            }
        }
    }
    ensure!(
        !all.is_empty(),
        "{shown} has no measurement of macro1 through the library"
    );
    Ok(all
        .into_iter()
        .map(|sums| Live {
            rates: sums
                .phases
                .map(|(operations, seconds)| operations / seconds),
            took: sums.took,
            ..sums.live
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_placement::DirPolicy;

    #[test]
    fn phases_of_a_measurement_are_added_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("live.jsonl");
        let line = |workload: &str, phase: &str, operations: u32| {
            format!(
                "{{\"workload\":\"{workload}\",\"servers\":4,\"policy\":\"random\",\"clients\":8,\"files\":100,\
                 \"seed\":1,\"phase\":\"{phase}\",\"operations\":{operations},\"seconds\":2.0}}\n"
            )
        };
        let phases = [
            ("mkdir", 10),
            ("create", 90),
            ("stat", 50),
            ("unlink", 70),
            ("rmdir", 10),
        ];
        let mut text: String = phases
            .map(|(phase, count)| line("macro1", phase, count))
            .concat();
        text += &line("tree", "stat", 1_000);
        text += "{\"workload\":\"macro1\",\"servers\":4,\"policy\":\"random\",\"clients\":8,\"files\":100,\"seed\":1,\
                 \"phase\":\"servers\",\"requests\":[1,2,3,4],\"distributed\":5,\"messages\":6}\n";
        std::fs::write(&path, &text).unwrap();
        let all = measured(&path).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].rates, [25.0, 25.0, 20.0]);
        assert_eq!((all[0].policy, all[0].servers), (DirPolicy::Random, 4));
        let took = Took {
            requests: vec![1, 2, 3, 4],
            distributed: 5,
            messages: 6,
        };
        assert_eq!(all[0].took, Some(took));
        std::fs::write(&path, line("tree", "stat", 1)).unwrap();
        assert!(measured(&path).is_err());
    }

    #[test]
    fn costs_by_name_and_by_file() {
        assert_eq!(costs("paper").unwrap(), Costs::PAPER);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("costs.json");
        let text = serde_json::to_string(&Costs::MEASURED).unwrap();
        std::fs::write(&path, text).unwrap();
        assert_eq!(costs(path.to_str().unwrap()).unwrap(), Costs::MEASURED);
        std::fs::write(&path, "{\"force\": 1}").unwrap();
        assert!(costs(path.to_str().unwrap()).is_err());
        assert!(costs("no-such-file").is_err());
    }
}
