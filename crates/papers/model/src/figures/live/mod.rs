//! Workloads as they were measured on a running system, beside the model of the same.

mod words;

use super::times;
use crate::costs::Costs;
use crate::growth::{Learning, Setting, grow};
use crate::macro1::{Macro1, Order, macro1};
use crate::macro2::macro2;
use crate::place::Policy;
use crate::report::{Axis, Figure};
use crate::space::{NAMESPACE_1, Space};
use pandofs_placement::{DirPolicy, FilePolicy};
use pandofs_types::limits::DEFAULT_SPLIT_THRESHOLD;
use std::fmt;

/// Live benchmarks that can be modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// A name space is made, looked at and removed.
    Macro1,
    /// Files are made in one directory and removed.
    Metarates,
    /// A mix of operations.
    Macro2,
}

impl Bench {
    /// In the order of the paper.
    pub const ALL: [Bench; 3] = [Bench::Macro1, Bench::Metarates, Bench::Macro2];

    /// Returns the phases that the model has a rate of.
    pub fn phases(self) -> &'static [&'static str] {
        match self {
            Bench::Macro1 => &["create", "stat", "delete"],
            Bench::Metarates => &["create", "remove"],
            Bench::Macro2 => &["mix"],
        }
    }
}

/// A measurement. All was below one directory, whose policies these are.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The workload.
    pub bench: Bench,
    /// Of directories.
    pub policy: DirPolicy,
    /// Of files.
    pub file_policy: FilePolicy,
    /// Of the running system.
    pub servers: usize,
    /// Threads of the driver.
    pub clients: usize,
    /// Files of the name space, about; of macrobenchmark 2 operations of all clients together.
    pub files: u32,
    /// Of the name space and of the order of operations.
    pub seed: u64,
    /// Operations a second of each of [`Bench::phases`].
    pub rates: Vec<f64>,
    /// Work of the servers for that, if they were asked.
    pub took: Option<Took>,
}

/// Work of the servers for operations.
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

/// Modelled counterpart of a measurement.
struct Modelled {
    rates: Vec<f64>,
    /// If it is of the same operations as what was asked of the live servers.
    took: Option<Took>,
}

impl Live {
    fn name(&self) -> String {
        let policy = crate::place::name(self.policy);
        let files = match self.file_policy {
            FilePolicy::WithEntry => String::new(),
            FilePolicy::Ddg { file_width } => format!(", files ddg({file_width})"),
            FilePolicy::Adaptive(_) => ", files adaptive".to_owned(),
        };
        format!(
            "{policy}{files}, {} servers, {} clients",
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
            files: self.file_policy,
        }
    }

    fn model(&self, costs: Costs) -> Modelled {
        match self.bench {
            Bench::Macro1 => {
                let run = macro1(
                    &Space::generate(NAMESPACE_1.with_files(self.files), self.seed),
                    self.modelled(),
                    (self.servers, self.clients),
                    Order::DirectoriesFirst,
                    costs,
                    self.seed,
                );
                Modelled {
                    rates: vec![run.create.rate(), run.stat.rate(), run.delete.rate()],
                    took: Some(Took::of(&run)),
                }
            }
            Bench::Metarates => {
                let growth = grow(&Setting {
                    servers: self.servers,
                    clients: self.clients,
                    outstanding: 1,
                    files: u64::from(self.files),
                    threshold: DEFAULT_SPLIT_THRESHOLD,
                    initial: 1,
                    most: None,
                    learning: Learning::Both,
                    forced: false,
                    removing: true,
                    costs,
                    seed: self.seed,
                });
                Modelled {
                    rates: vec![growth.create_rate, growth.remove_rate],
                    took: None,
                }
            }
            Bench::Macro2 => {
                // A quarter as many files as operations, as in the plan of the workload.
                let files = (self.files / 4).max(100);
                let each = (u64::from(self.files) / self.clients as u64).max(1);
                let run = macro2(
                    &Space::generate(NAMESPACE_1.with_files(files), self.seed),
                    self.modelled(),
                    self.servers,
                    self.clients,
                    each,
                    costs,
                    self.seed,
                );
                Modelled {
                    rates: vec![run.rate()],
                    took: None,
                }
            }
        }
    }
}

/// A figure for each workload that was measured.
pub fn beside(live: &[Live], costs: Costs) -> Vec<Figure> {
    let of = |bench| -> Vec<&Live> { live.iter().filter(|one| one.bench == bench).collect() };
    let measured = Bench::ALL.map(|bench| (bench, of(bench)));
    let measured = measured.iter().filter(|(_, all)| !all.is_empty());
    measured
        .map(|(bench, all)| figure(*bench, all, costs))
        .collect()
}

/// A column live and one modelled for each phase.
fn figure(bench: Bench, live: &[&Live], costs: Costs) -> Figure {
    let names: Vec<String> = live.iter().map(|one| one.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut figure = Figure::of_categories(
        words::id(bench),
        words::title(bench),
        &names,
        Axis::logarithmic("operations a second"),
    );
    let runs: Vec<Modelled> = live.iter().map(|one| one.model(costs)).collect();
    for (phase, name) in bench.phases().iter().enumerate() {
        let measured: Vec<f64> = live.iter().map(|one| one.rates[phase]).collect();
        let modelled: Vec<f64> = runs.iter().map(|run| run.rates[phase]).collect();
        figure.add_values(format!("{name} live"), &measured);
        figure.add_values(format!("{name} modelled"), &modelled);
        let ratios = || {
            let both = measured.iter().zip(&modelled);
            both.map(|(live, model)| live / model)
        };
        let least = ratios().fold(f64::INFINITY, f64::min);
        let most = ratios().fold(0.0, f64::max);
        let found = format!("live over modelled: {} to {}", times(least), times(most));
        if live.len() == 1 {
            figure.note(format!("{name}: {found}"));
            continue;
        }
        figure.claim(
            format!("{name}: the model says which of two settings is faster, where they differ by half or more"),
            same_order(&measured, &modelled),
            found,
        );
    }
    for (one, run) in live.iter().zip(&runs) {
        if let (Some(took), Some(modelled)) = (&one.took, &run.took) {
            figure.note(format!("{}: live {took}; modelled {modelled}", one.name()));
        }
    }
    figure.note(words::why_they_differ(bench));
    figure
}

/// Returns whether no pair is clearly one way in the first and clearly the other way in the second.
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
            bench: Bench::Macro1,
            policy,
            file_policy: FilePolicy::WithEntry,
            servers: 4,
            clients: 8,
            files: 2_000,
            seed: 1,
            rates: vec![1_000.0; 3],
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
        let figures = beside(&all, Costs::MEASURED);
        let [figure] = figures.as_slice() else {
            panic!("{figures:?}");
        };
        assert_eq!(figure.series.len(), 2 * Bench::Macro1.phases().len());
        assert_eq!(figure.categories[1], "random, 4 servers, 8 clients");
        let modelled = &figure.series[1].points;
        assert_eq!(modelled.len(), all.len());
        // The servers' work stands beside that of the model.
        let notes = &figure.notes;
        let start = "random, 4 servers, 8 clients: live 7 distributed operations, 21 messages between servers, 50 % of the \
                     requests to one server; modelled ";
        let modelled_random = notes[0].strip_prefix(start).expect(&notes[0]);
        assert!(
            !modelled_random.starts_with("0 ") && notes.len() == 2,
            "{notes:?}"
        );
        // Subtree leaves what is below one directory to one server, so that the others have less to
        // do.
        assert!(modelled[0].1 > modelled[2].1, "{modelled:?}");
    }
    fn crowd(bench: Bench, servers: usize, clients: usize) -> Live {
        Live {
            bench,
            policy: DirPolicy::default(),
            file_policy: FilePolicy::WithEntry,
            servers,
            clients,
            files: 4_000,
            seed: 1,
            rates: vec![1_000.0; bench.phases().len()],
            took: None,
        }
    }

    #[test]
    fn each_workload_has_a_figure_of_its_own() {
        let all = [
            crowd(Bench::Macro2, 4, 1),
            crowd(Bench::Metarates, 1, 8),
            crowd(Bench::Macro2, 4, 8),
            crowd(Bench::Metarates, 4, 8),
        ];
        let figures = beside(&all, Costs::MEASURED);
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["live-metarates", "live-macro2"]);
        let modelled = |figure: &Figure, phase: usize| -> Vec<f64> {
            let points = &figure.series[2 * phase + 1].points;
            points.iter().map(|point| point.1).collect()
        };
        for (figure, bench) in figures.iter().zip([Bench::Metarates, Bench::Macro2]) {
            assert_eq!(figure.categories.len(), 2);
            assert_eq!(figure.series.len(), 2 * bench.phases().len());
        }
        // More clients get more done.
        let mixed = modelled(&figures[1], 0);
        assert!(mixed[1] > 2.0 * mixed[0], "{mixed:?}");
    }

    #[test]
    fn files_of_their_own_width_are_modelled_as_branch_files() {
        let with_entry = crowd(Bench::Macro1, 4, 8);
        let narrow = Live {
            file_policy: FilePolicy::Ddg { file_width: 4 },
            ..with_entry.clone()
        };
        let figures = beside(&[with_entry, narrow], Costs::MEASURED);
        assert_eq!(
            figures[0].categories[1],
            "ddg(4,16), files ddg(4), 4 servers, 8 clients"
        );
        let created = &figures[0].series[1].points;
        assert!(created[0].1 > created[1].1, "{created:?}");
    }

    #[test]
    fn one_setting_is_compared_with_no_other() {
        let figures = beside(&[crowd(Bench::Macro2, 4, 8)], Costs::MEASURED);
        assert!(figures[0].claims.is_empty());
        assert!(figures[0].notes[0].starts_with("mix: live over modelled: "));
    }
}
