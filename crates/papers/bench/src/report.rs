//! Table of the measurements: medians, spreads and ratios.

use crate::Run;
use crate::target::Kind;
use crate::worker::Figures;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// The target that ratios are taken to.
const BASES: [Kind; 3] = [Kind::Ext4, Kind::Bindfs, Kind::Memfs];

pub(crate) struct Report {
    figures: BTreeMap<(Kind, u32), BTreeMap<u32, Figures>>,
    json: Option<std::fs::File>,
    run: Run,
}

#[derive(Serialize)]
struct Line<'a> {
    commit: &'a str,
    machine: String,
    target: Kind,
    round: u32,
    processes: u32,
    files: u64,
    #[serde(flatten)]
    figures: Figures,
}

impl Report {
    pub(crate) fn new(run: &Run) -> Report {
        Report {
            figures: BTreeMap::new(),
            json: None,
            run: run.clone(),
        }
    }

    pub(crate) fn add(
        &mut self,
        target: Kind,
        round: u32,
        processes: u32,
        figures: Figures,
    ) -> Result<()> {
        if let Some(path) = &self.run.json {
            let file = match &mut self.json {
                Some(file) => file,
                none => none.insert(
                    std::fs::File::create(path)
                        .with_context(|| format!("cannot write {}", path.display()))?,
                ),
            };
            let line = Line {
                commit: &self.run.setup.commit,
                machine: machine(),
                target,
                round,
                processes,
                files: self.run.files,
                figures,
            };
            writeln!(file, "{}", serde_json::to_string(&line)?)?;
        }
        self.figures
            .entry((target, processes))
            .or_default()
            .insert(round, figures);
        Ok(())
    }

    pub(crate) fn print(&self, targets: &[Kind], processes: &[u32]) {
        println!(
            "commit {}, {}, {} files a round, {} rounds; thousands a second: median (least to most)",
            self.run.setup.commit,
            machine(),
            self.run.files,
            self.run.rounds
        );
        for &count in processes {
            println!("\n{count} processes, one shared directory");
            println!(
                "{:<9}{:>24}{:>24}{:>24}   create / stat / remove against ext4, bindfs, memfs",
                "", "create", "stat", "remove"
            );
            for &target in targets {
                let columns: Vec<String> = PHASES
                    .iter()
                    .map(|phase| self.column(target, count, phase.1))
                    .collect();
                let ratios: Vec<String> = BASES
                    .iter()
                    .filter(|&&base| base != target && targets.contains(&base))
                    .map(|&base| {
                        let ratio = PHASES.map(|phase| {
                            format!("{:.2}", self.ratio(target, base, count, phase.1))
                        });
                        format!("{base}: {}", ratio.join(" / "))
                    })
                    .collect();
                println!(
                    "{:<9}{:>24}{:>24}{:>24}   {}",
                    target.to_string(),
                    columns[0],
                    columns[1],
                    columns[2],
                    ratios.join("   ")
                );
            }
        }
    }

    fn column(&self, target: Kind, processes: u32, phase: fn(&Figures) -> f64) -> String {
        let rates: Vec<f64> = self
            .figures
            .get(&(target, processes))
            .map(|rounds| rounds.values().map(phase).collect())
            .unwrap_or_default();
        let (low, middle, high) = spread(rates);
        format!(
            "{:.1} ({:.1} to {:.1})",
            middle / 1e3,
            low / 1e3,
            high / 1e3
        )
    }

    /// The median of the ratios of each round.
    fn ratio(&self, target: Kind, base: Kind, processes: u32, phase: fn(&Figures) -> f64) -> f64 {
        let (Some(ours), Some(theirs)) = (
            self.figures.get(&(target, processes)),
            self.figures.get(&(base, processes)),
        ) else {
            return f64::NAN;
        };
        let ratios = ours
            .iter()
            .filter_map(|(round, figures)| Some(phase(figures) / phase(theirs.get(round)?)))
            .collect();
        spread(ratios).1
    }
}

/// A phase's name and its figure.
type Phase = (&'static str, fn(&Figures) -> f64);

const PHASES: [Phase; 3] = [
    ("create", |f| f.create),
    ("stat", |f| f.stat),
    ("remove", |f| f.remove),
];

/// Least, median and most.
pub(crate) fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let Some((&low, &high)) = values.first().zip(values.last()) else {
        return (f64::NAN, f64::NAN, f64::NAN);
    };
    let half = values.len() / 2;
    let middle = if values.len() % 2 == 1 {
        values[half]
    } else {
        (values[half - 1] + values[half]) / 2.0
    };
    (low, middle, high)
}

/// Processors and their kind.
pub(crate) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        text.lines()
            .filter(|line| line.starts_with(key))
            .filter_map(|line| Some(line.split_once(':')?.1.trim().to_string()))
            .collect::<Vec<_>>()
    };
    let model = of("model name")
        .into_iter()
        .next()
        .unwrap_or_else(|| "unknown".to_string());
    format!("{} processors, {model}", of("processor").len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between() {
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert!(spread(vec![]).1.is_nan());
    }
}
