//! `pandofs model`

use crate::exit::Outcome;
use crate::measured::measured;
use crate::reports;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pandofs_model::{Costs, Experiment, Options, beside};
use std::path::PathBuf;

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
pub(crate) struct Model {
    /// Experiments to model; all unless given
    #[arg(value_enum)]
    experiments: Vec<What>,
    /// Smaller name spaces and fewer points
    #[arg(long)]
    quick: bool,
    /// Seed from which all random choices follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Costs of operations: paper, measured, or a JSON file
    #[arg(long, value_name = "COSTS", default_value = "paper")]
    costs: String,
    /// Print the costs as JSON and stop
    #[arg(long)]
    print_costs: bool,
    /// Instead, the model beside what 'pandofs bench --json FILE' measured of macro1, metarates and macro2
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
    pub(crate) fn run(&self) -> Result<Outcome> {
        let costs = costs(&self.costs)?;
        if self.print_costs {
            let text = serde_json::to_string_pretty(&costs).context("cannot write JSON")?;
            crate::print(&format!("{text}\n"))?;
            return Ok(Outcome::Done);
        }
        let mut report =
            reports::Report::new(self.out.as_deref(), self.json, &self.commit, self.seed)?;
        if let Some(path) = &self.live {
            for figure in beside(&measured(path)?, costs) {
                report.add(&figure)?;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

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
