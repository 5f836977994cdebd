//! Table of the measurements of large files.

use crate::data::{DataRun, Phase};
use crate::report::{machine, spread};
use crate::target::Kind;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

/// The target that ratios are taken to.
const BASES: [Kind; 2] = [Kind::Ext4, Kind::Bindfs];

/// Rates of each round, in bytes a second.
type Rounds = BTreeMap<u32, f64>;

pub(crate) struct DataReport<'a> {
    run: &'a DataRun,
    is_ext4: bool,
    json: Option<File>,
    figures: BTreeMap<(Kind, u32, Phase), Rounds>,
}

#[derive(Serialize)]
struct Line<'a> {
    commit: &'a str,
    machine: String,
    target: Kind,
    round: u32,
    jobs: u32,
    phase: Phase,
    bytes: u64,
    bytes_per_second: f64,
}

impl<'a> DataReport<'a> {
    pub(crate) fn new(run: &'a DataRun, is_ext4: bool) -> Result<DataReport<'a>> {
        let json = run.json.as_ref().map(|path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        });
        Ok(DataReport {
            run,
            is_ext4,
            json: json.transpose()?,
            figures: BTreeMap::new(),
        })
    }

    pub(crate) fn add(
        &mut self,
        target: Kind,
        round: u32,
        jobs: u32,
        phase: Phase,
        rate: f64,
    ) -> Result<()> {
        if let Some(file) = &mut self.json {
            let line = Line {
                commit: &self.run.setup.commit,
                machine: machine(),
                target,
                round,
                jobs,
                phase,
                bytes: self.run.size << 20,
                bytes_per_second: rate,
            };
            writeln!(file, "{}", serde_json::to_string(&line)?)?;
        }
        self.figures
            .entry((target, jobs, phase))
            .or_default()
            .insert(round, rate);
        Ok(())
    }

    pub(crate) fn print(&self) {
        println!(
            "commit {}, {}, {} MiB a round in requests of {}, {} rounds; MiB a second: median (least to most)",
            self.run.setup.commit,
            machine(),
            self.run.size,
            self.run.block,
            self.run.rounds
        );
        if !self.is_ext4 {
            println!("what is called ext4 here is another file system: that of the scratch folder");
        }
        for &jobs in &self.run.jobs {
            println!("\n{jobs} jobs, each with a file of its own");
            let names = Phase::ALL
                .map(|phase| format!("{:>24}", phase.name()))
                .concat();
            println!("{:<9}{names}   in this order, against ext4, bindfs", "");
            for &target in &self.run.targets {
                let columns = Phase::ALL
                    .map(|phase| self.column(target, jobs, phase))
                    .concat();
                let ratios: Vec<String> = BASES
                    .iter()
                    .filter(|&&base| base != target && self.run.targets.contains(&base))
                    .map(|&base| {
                        let ratios = Phase::ALL
                            .map(|phase| format!("{:.2}", self.ratio(target, base, jobs, phase)));
                        format!("{base}: {}", ratios.join(" / "))
                    })
                    .collect();
                println!(
                    "{:<9}{columns}   {}",
                    target.to_string(),
                    ratios.join("   ")
                );
            }
        }
    }

    fn column(&self, target: Kind, jobs: u32, phase: Phase) -> String {
        let rates = self.figures.get(&(target, jobs, phase));
        let rates = rates.map(|rounds| rounds.values().copied().collect());
        let mib = (1_u32 << 20) as f64;
        let (low, middle, high) = spread(rates.unwrap_or_default());
        let text = format!(
            "{:.0} ({:.0} to {:.0})",
            middle / mib,
            low / mib,
            high / mib
        );
        format!("{text:>24}")
    }

    /// The median of the ratios of each round.
    fn ratio(&self, target: Kind, base: Kind, jobs: u32, phase: Phase) -> f64 {
        let of = |kind| self.figures.get(&(kind, jobs, phase));
        let (Some(ours), Some(theirs)) = (of(target), of(base)) else {
            return f64::NAN;
        };
        let ratios = ours
            .iter()
            .filter_map(|(round, rate)| Some(rate / theirs.get(round)?));
        spread(ratios.collect()).1
    }
}
