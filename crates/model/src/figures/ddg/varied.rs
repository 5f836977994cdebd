//! Figures 6 to 11: one value of the granularity varies.

use super::{BASE, CLIENTS, Granules, Rates, SERVERS, Study, VARIANT_NOTE, VARIANTS, Variant};
use crate::figures::{Options, times, zip};
use pandofs_report::{Axis, Figure};

const FILE_WIDTHS: [u32; 7] = [128, 256, 512, 1_024, 2_048, 4_096, 8_192];
const DIR_WIDTHS: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];
const DIR_DEPTHS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];

/// What a figure shows of one name space: creation and deletion together, and stat, by the value that varies.
struct Curves {
    changes: Vec<f64>,
    stat: Vec<f64>,
}

/// The value that a figure varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varied {
    FileWidth,
    DirWidth,
    DirDepth,
}

impl Varied {
    pub const ALL: [Varied; 3] = [Varied::FileWidth, Varied::DirWidth, Varied::DirDepth];

    pub fn values(self, options: &Options) -> Vec<u32> {
        let all = match self {
            Varied::FileWidth => FILE_WIDTHS,
            Varied::DirWidth => DIR_WIDTHS,
            Varied::DirDepth => DIR_DEPTHS,
        };
        let step = if options.quick { 2 } else { 1 };
        all.into_iter().step_by(step).collect()
    }

    pub fn set(self, value: u32) -> Granules {
        let (dir_depth, dir_width, file_width) = BASE;
        match self {
            Varied::FileWidth => (dir_depth, dir_width, value),
            Varied::DirWidth => (dir_depth, value, file_width),
            Varied::DirDepth => (value, dir_width, file_width),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Varied::FileWidth => "FileWid",
            Varied::DirWidth => "DirWid",
            Varied::DirDepth => "DirDep",
        }
    }

    /// Its figure of creation and deletion, and its figure of stat.
    fn numbers(self) -> (u32, u32) {
        match self {
            Varied::FileWidth => (6, 9),
            Varied::DirWidth => (7, 10),
            Varied::DirDepth => (8, 11),
        }
    }

    pub fn figures(self, studies: &[Study], options: &Options) -> [Figure; 2] {
        let values = self.values(options);
        let (changes, stat) = self.numbers();
        let figure = |number: u32, what: &str| {
            let title = format!(
                "{what} against {}, Subtree = 1 (macrobenchmark 1)",
                self.name()
            );
            let id = format!("ddg-fig{number:02}");
            let y = Axis::logarithmic("throughput over that of Subtree");
            let mut figure = Figure::new(&id, title, Axis::logarithmic(self.name()), y);
            figure.note(format!(
                "{SERVERS} servers, {CLIENTS} clients; what does not vary is as in <{},{},{}>",
                BASE.0, BASE.1, BASE.2
            ));
            figure.note(VARIANT_NOTE);
            figure
        };
        let mut of_changes = figure(changes, "File creation and deletion");
        let mut of_stat = figure(stat, "File stat");
        // By name space, of the variant that agrees with the paper: creation and deletion together, stat.
        let mut curves = Vec::new();
        for study in studies {
            let base = Rates::of(&study.subtree);
            let name = &study.space.name;
            for (at, variant) in VARIANTS.iter().enumerate() {
                let rates: Vec<Rates> = values
                    .iter()
                    .map(|&value| Rates::of(study.at(at, self.set(value))).over(base))
                    .collect();
                let series = |what: &str| format!("{name} {what} ({})", variant.name());
                let of = |rate: fn(&Rates) -> f64| zip(&values, rates.iter().map(rate));
                of_changes.add(series("create"), of(|rates| rates.create));
                of_changes.add(series("delete"), of(|rates| rates.delete));
                of_stat.add(series("stat"), of(|rates| rates.stat));
                if *variant == Variant::OwnFiles {
                    let changes: Vec<f64> = rates.iter().map(|rates| rates.changes()).collect();
                    let stats: Vec<f64> = rates.iter().map(|rates| rates.stat).collect();
                    curves.push(Curves {
                        changes,
                        stat: stats,
                    });
                }
            }
            let random = Rates::of(&study.random).over(base);
            let flat = |rate: f64| zip(&values, values.iter().map(|_| rate));
            of_changes.add(format!("{name} random create"), flat(random.create));
            of_stat.add(format!("{name} random stat"), flat(random.stat));
        }
        self.claim(&mut of_changes, &mut of_stat, &values, &curves);
        [of_changes, of_stat]
    }

    fn claim(self, changes: &mut Figure, stat: &mut Figure, values: &[u32], curves: &[Curves]) {
        let ends = |curve: &[f64]| -> (f64, f64) {
            let last = curve.len() - 1;
            (curve[0], curve[last])
        };
        let spread = |curve: &[f64]| {
            let most = curve.iter().copied().fold(0.0, f64::max);
            most / curve.iter().copied().fold(f64::INFINITY, f64::min)
        };
        let at_best = |curve: &[f64]| {
            let best = (0..curve.len()).max_by(|&a, &b| curve[a].total_cmp(&curve[b]));
            values[best.unwrap_or(0)]
        };
        match self {
            Varied::FileWidth => {
                let rising = |curve: &[f64]| {
                    let pairs = curve.windows(2);
                    pairs.clone().all(|pair| pair[1] > pair[0] * 0.95)
                };
                let holds = curves.iter().all(|Curves { changes, .. }| rising(changes));
                let growth: Vec<String> = curves
                    .iter()
                    .map(|Curves { changes, .. }| times(ends(changes).1 / ends(changes).0))
                    .collect();
                changes.claim(
                    "creation and deletion throughput increase with FileWid",
                    holds,
                    format!(
                        "from the least to the largest FileWid {}",
                        growth.join(" and ")
                    ),
                );
                let spreads: Vec<String> = curves
                    .iter()
                    .map(|Curves { stat, .. }| times(spread(stat)))
                    .collect();
                stat.claim(
                    "stat throughput is not sensitive to FileWid",
                    curves.iter().all(|Curves { stat, .. }| spread(stat) < 2.0),
                    format!("the best over the worst: {}", spreads.join(" and ")),
                );
            }
            Varied::DirWidth => {
                let least: Vec<String> = curves
                    .iter()
                    .map(|Curves { changes, .. }| at_best(changes).to_string())
                    .collect();
                changes.claim(
                    "DirWid matters less than FileWid, and a value around 16 is preferable",
                    curves.iter().all(|Curves { changes, .. }| {
                        let best = changes.iter().copied().fold(0.0, f64::max);
                        let near = values.iter().zip(changes);
                        near.filter(|(value, _)| (8..=32).contains(*value))
                            .any(|(_, rate)| *rate > best * 0.8)
                    }),
                    format!(
                        "best at {}; within 20 % of that at 8 to 32",
                        least.join(" and ")
                    ),
                );
                let last: Vec<String> = curves
                    .iter()
                    .map(|Curves { stat, .. }| {
                        times(1.0 / (ends(stat).1 / stat.iter().copied().fold(0.0, f64::max)))
                    })
                    .collect();
                stat.claim(
                    "stat is very poor with a large DirWid, because distribution is uneven",
                    curves.iter().all(|Curves { stat, .. }| {
                        ends(stat).1 < stat.iter().copied().fold(0.0, f64::max) / 2.0
                    }),
                    format!(
                        "the best is {} the widest; at depth 4 units this wide still fit the caches where it is \
                         less than twice",
                        last.join(" and ")
                    ),
                );
            }
            Varied::DirDepth => {
                let steep = |curve: &[f64]| {
                    let deep = values.iter().zip(curve).filter(|(value, _)| **value >= 8);
                    let shallow = values
                        .iter()
                        .zip(curve)
                        .filter(|(value, _)| (2..=6).contains(*value));
                    let best = shallow.map(|(_, rate)| *rate).fold(0.0, f64::max);
                    best / deep.map(|(_, rate)| *rate).fold(0.0, f64::max)
                };
                let found = |which: fn(&Curves) -> &Vec<f64>| {
                    let falls: Vec<String> = curves
                        .iter()
                        .map(|both| times(steep(which(both))))
                        .collect();
                    format!(
                        "the best of 2 to 6 over the best of 8 and more: {}",
                        falls.join(" and ")
                    )
                };
                changes.claim(
                    "creation and deletion decline steeply beyond DirDep 6; 2 to 6 are preferable",
                    curves
                        .iter()
                        .all(|Curves { changes, .. }| steep(changes) > 1.5),
                    found(|both| &both.changes),
                );
                stat.claim(
                    "stat is very poor with a large DirDep",
                    curves.iter().all(|Curves { stat, .. }| steep(stat) > 2.0),
                    found(|both| &both.stat),
                );
            }
        }
    }
}
