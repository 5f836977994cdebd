//! Macrobenchmark 1 as it was measured on a running system, beside the model of the same.

use super::times;
use crate::costs::Costs;
use crate::macro1::{Macro1, Order, macro1};
use crate::place::Policy;
use crate::space::{NAMESPACE_1, Space};
use pandofs_placement::{DirPolicy, FilePolicy};
use pandofs_report::{Axis, Figure};
use std::fmt;

/// A measurement. All was below one directory, whose policy this is; files were with their entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    pub policy: DirPolicy,
    pub servers: usize,
    pub clients: usize,
    /// Files of the name space, about.
    pub files: u32,
    pub seed: u64,
    /// Operations a second: files and directories made, looked at, removed.
    pub rates: [f64; 3],
    /// What that took of the servers, if they were asked.
    pub took: Option<Took>,
}

/// What operations took of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Of clients, to each server.
    pub requests: Vec<u64>,
    /// Operations on more than one shard; in the model, on more than one server.
    pub distributed: u64,
    /// Between servers.
    pub messages: u64,
}

impl Took {
    fn of(run: &Macro1) -> Took {
        let mut took = Took::default();
        for phase in [&run.create, &run.stat, &run.delete] {
            took.requests.resize(phase.requests.len(), 0);
            for (sum, requests) in took.requests.iter_mut().zip(&phase.requests) {
                *sum += requests;
            }
            took.distributed += phase.distributed;
            took.messages += phase.messages;
        }
        took
    }

    /// The part of the requests that the server had which had most.
    fn largest_part(&self) -> f64 {
        let most = self.requests.iter().max().copied().unwrap_or(0);
        most as f64 / self.requests.iter().sum::<u64>().max(1) as f64
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} distributed operations, {} messages between servers, {:.0} % of the requests to one server",
            self.distributed,
            self.messages,
            100.0 * self.largest_part()
        )
    }
}

impl Live {
    fn name(&self) -> String {
        let policy = crate::place::name(self.policy);
        format!(
            "{policy}, {} servers, {} clients",
            self.servers, self.clients
        )
    }

    /// The same in the model.
    fn modelled(&self) -> Policy {
        let directories = match self.policy {
            // It is all one child of the root.
            DirPolicy::Subtree => DirPolicy::Ddg {
                dir_depth: u32::MAX,
                dir_width: u32::MAX,
            },
            other => other,
        };
        Policy::Running {
            directories,
            files: FilePolicy::WithEntry,
        }
    }

    fn model(&self, costs: Costs) -> Macro1 {
        let space = Space::generate(NAMESPACE_1.with_files(self.files), self.seed);
        macro1(
            &space,
            self.modelled(),
            (self.servers, self.clients),
            Order::DirectoriesFirst,
            costs,
            self.seed,
        )
    }
}

const PHASES: [&str; 3] = ["create", "stat", "delete"];

/// A column live and one modelled for each phase.
pub fn beside(live: &[Live], costs: Costs) -> Figure {
    let names: Vec<String> = live.iter().map(Live::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut figure = Figure::of_categories(
        "live-and-model",
        "Macrobenchmark 1, live and modelled",
        &names,
        Axis::logarithmic("operations a second"),
    );
    let runs: Vec<Macro1> = live.iter().map(|one| one.model(costs)).collect();
    let rates = |run: &Macro1| [run.create.rate(), run.stat.rate(), run.delete.rate()];
    let modelled: Vec<[f64; 3]> = runs.iter().map(rates).collect();
    for (phase, name) in PHASES.iter().enumerate() {
        let column =
            |rates: &[[f64; 3]]| -> Vec<f64> { rates.iter().map(|of_all| of_all[phase]).collect() };
        let measured: Vec<[f64; 3]> = live.iter().map(|one| one.rates).collect();
        let (measured, modelled) = (column(&measured), column(&modelled));
        figure.add_values(format!("{name} live"), &measured);
        figure.add_values(format!("{name} modelled"), &modelled);
        let ratios: Vec<f64> = measured
            .iter()
            .zip(&modelled)
            .map(|(live, model)| live / model)
            .collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        figure.claim(
            format!("{name}: the model says which of two settings is faster, where they differ by half or more"),
            same_order(&measured, &modelled),
            format!("live over modelled: {} to {}", times(least), times(most)),
        );
    }
    for (one, run) in live.iter().zip(&runs) {
        if let Some(took) = &one.took {
            figure.note(format!(
                "{}: live {took}; modelled {}",
                one.name(),
                Took::of(run)
            ));
        }
    }
    figure.note(
        "where they differ: in the model each server has a processor and a disk of its own and clients cost nothing but \
         their pause, while live servers and clients on one machine share its processors, so that more servers do not \
         help there and messages between them take what requests could use; live shards are more than servers, so that \
         two directories on different shards of one server take a distributed operation without a message between \
         machines; forced writes of all servers go to one disk",
    );
    figure
}

/// Whether no pair is clearly one way in the first and clearly the other way in the second.
fn same_order(first: &[f64], second: &[f64]) -> bool {
    let clearly = |a: f64, b: f64| a > 1.5 * b;
    let pairs = (0..first.len()).flat_map(|a| (0..first.len()).map(move |b| (a, b)));
    let mut pairs = pairs.filter(|(a, b)| a != b);
    !pairs.any(|(a, b)| clearly(first[a], first[b]) && clearly(second[b], second[a]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_placement::DirBounds;

    #[test]
    fn what_contradicts_is_found() {
        assert!(same_order(&[1.0, 2.0], &[5.0, 50.0]));
        assert!(same_order(&[1.0, 2.0], &[5.0, 4.0]));
        assert!(!same_order(&[1.0, 2.0], &[5.0, 1.0]));
    }

    #[test]
    fn each_measurement_has_its_model_beside_it() {
        let live = |policy| Live {
            policy,
            servers: 4,
            clients: 8,
            files: 2_000,
            seed: 1,
            rates: [1_000.0; 3],
            took: None,
        };
        let adaptive = DirPolicy::Adaptive(DirBounds::default());
        let (ddg, random, subtree) = (DirPolicy::default(), DirPolicy::Random, DirPolicy::Subtree);
        let mut all = [ddg, random, subtree, adaptive].map(live);
        all[1].took = Some(Took {
            requests: vec![1_000, 1_000, 2_000, 0],
            distributed: 7,
            messages: 21,
        });
        let figure = beside(&all, Costs::MEASURED);
        assert_eq!(figure.series.len(), 2 * PHASES.len());
        assert_eq!(figure.categories[1], "random, 4 servers, 8 clients");
        let modelled = &figure.series[1].points;
        assert_eq!(modelled.len(), all.len());
        // What was asked of the servers is beside what the model takes of its own.
        let notes = &figure.notes;
        let start = "random, 4 servers, 8 clients: live 7 distributed operations, 21 messages between servers, 50 % of the \
                     requests to one server; modelled ";
        let modelled_random = notes[0].strip_prefix(start).expect(&notes[0]);
        assert!(
            !modelled_random.starts_with("0 ") && notes.len() == 2,
            "{notes:?}"
        );
        // Subtree leaves what is below one directory to one server, so that the others have less to do.
        assert!(modelled[0].1 > modelled[2].1, "{modelled:?}");
    }
}
