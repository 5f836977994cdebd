//! Measurements taken round by round, of kinds that take turns.

use crate::report::{machine, spread};
use anyhow::Result;
use pandofs_model::report::{Axis, Context, Figure, json_lines, text};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Each has a value for each column in each round. Ratios are to the first.
pub(crate) struct Rounds<'a> {
    kinds: Vec<&'a str>,
    columns: &'a [&'a str],
    /// By kind and round.
    values: Vec<Vec<Vec<f64>>>,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(kinds: Vec<&'a str>, columns: &'a [&'a str]) -> Rounds<'a> {
        Rounds {
            values: vec![Vec::new(); kinds.len()],
            kinds,
            columns,
        }
    }

    pub(crate) fn add(&mut self, kind: usize, values: Vec<f64>) {
        assert_eq!(values.len(), self.columns.len());
        self.values[kind].push(values);
    }

    /// Least, median and most of a column.
    pub(crate) fn of(&self, kind: usize, column: usize) -> (f64, f64, f64) {
        spread(
            self.values[kind]
                .iter()
                .map(|round| round[column])
                .collect(),
        )
    }

    /// Of what a kind has for each that the first has, within a round: machines drift.
    pub(crate) fn ratio(&self, kind: usize, column: usize) -> (f64, f64, f64) {
        let pairs = self.values[kind].iter().zip(&self.values[0]);
        spread(
            pairs
                .map(|(round, first)| round[column] / first[column])
                .collect(),
        )
    }

    /// The medians.
    pub(crate) fn figure(&self, id: &str, title: &str, axis: &str) -> Figure {
        let mut figure = Figure::of_categories(id, title, self.columns, Axis::linear(axis));
        for (number, kind) in self.kinds.iter().enumerate() {
            figure.add_values(*kind, &self.row(|column| self.of(number, column).1));
            let spreads = self.columns.iter().enumerate().map(|(column, name)| {
                let (least, _, most) = self.of(number, column);
                format!("{name} {least:.3} to {most:.3}")
            });
            figure.note(format!(
                "{kind}, least to most: {}",
                Vec::from_iter(spreads).join(", ")
            ));
        }
        figure.note(format!("the median of {} rounds", self.values[0].len()));
        figure
    }

    pub(crate) fn ratios(&self, id: &str, title: &str) -> Figure {
        let axis = format!("for each of {}", self.kinds[0]);
        let mut figure = Figure::of_categories(id, title, self.columns, Axis::linear(&axis));
        for (number, kind) in self.kinds.iter().enumerate().skip(1) {
            let rows = [
                self.row(|column| self.ratio(number, column).0),
                self.row(|column| self.ratio(number, column).1),
                self.row(|column| self.ratio(number, column).2),
            ];
            for (which, row) in ["least", "median", "most"].iter().zip(rows) {
                figure.add_values(format!("{kind}, {which}"), &row);
            }
        }
        figure.note("the ratio of a round is of what was measured in that round");
        figure
    }

    fn row(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..self.columns.len()).map(of).collect()
    }
}

/// Prints figures of this commit, and writes them to a file if there is to be one, a JSON object a line.
///
/// # Errors
/// The file's.
pub(crate) fn print(commit: &str, json: Option<&Path>, figures: &[Figure]) -> Result<()> {
    let context = Context {
        commit: commit.to_owned(),
        machine: machine(),
        // Nothing is drawn.
        seed: 0,
    };
    println!("commit {}, {}", context.commit, context.machine);
    let mut json = json.map(File::create).transpose()?;
    for figure in figures {
        println!("\n{}", text(figure));
        if let Some(file) = &mut json {
            file.write_all(json_lines(figure, &context)?.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_within_a_round() {
        let mut rounds = Rounds::new(vec!["one", "other"], &["a", "b"]);
        // The machine is twice as fast in the second round.
        for (one, other) in [(10.0, 20.0), (20.0, 40.0), (10.0, 30.0)] {
            rounds.add(0, vec![one, 1.0]);
            rounds.add(1, vec![other, 1.0]);
        }
        assert_eq!(rounds.of(0, 0), (10.0, 10.0, 20.0));
        assert_eq!(rounds.ratio(1, 0), (2.0, 2.0, 3.0));
        assert_eq!(rounds.ratio(1, 1), (1.0, 1.0, 1.0));
        let figure = rounds.ratios("ratios", "Ratios");
        let names: Vec<&str> = figure
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["other, least", "other, median", "other, most"]);
        assert_eq!(rounds.figure("values", "Values", "things").series.len(), 2);
    }
}
