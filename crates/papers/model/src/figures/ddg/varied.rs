//! Figures 6 to 11: one value of the granularity varies.

use super::{BASE, CLIENTS, Granules, Rates, SERVERS, Study, VARIANT_NOTE, VARIANTS, Variant};
use crate::figures::{Options, range, times, zip};
use crate::report::{Axis, Figure};

const FILE_WIDTHS: [u32; 7] = [128, 256, 512, 1_024, 2_048, 4_096, 8_192];
const DIR_WIDTHS: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];
const DIR_DEPTHS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];

/// Curves of one name space, with files that begin where their directory is, by the value that
/// varies.
struct Curves {
    create: Vec<f64>,
    delete: Vec<f64>,
    /// Both together.
    changes: Vec<f64>,
    stat: Vec<f64>,
}

/// The value that a figure varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Varied {
    FileWidth,
    DirWidth,
    DirDepth,
}

impl Varied {
    pub(super) const ALL: [Varied; 3] = [Varied::FileWidth, Varied::DirWidth, Varied::DirDepth];

    pub(super) fn values(self, options: &Options) -> Vec<u32> {
        let all = match self {
            Varied::FileWidth => FILE_WIDTHS,
            Varied::DirWidth => DIR_WIDTHS,
            Varied::DirDepth => DIR_DEPTHS,
        };
        let step = if options.quick { 2 } else { 1 };
        all.into_iter().step_by(step).collect()
    }

    pub(super) fn set(self, value: u32) -> Granules {
        let (dir_depth, dir_width, file_width) = BASE;
        match self {
            Varied::FileWidth => (dir_depth, dir_width, value),
            Varied::DirWidth => (dir_depth, value, file_width),
            Varied::DirDepth => (value, dir_width, file_width),
        }
    }

    pub(super) fn name(self) -> &'static str {
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

    pub(super) fn figures(self, studies: &[Study], options: &Options) -> [Figure; 2] {
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
        // By name space, of the variant that agrees with the paper.
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
                    curves.push(Curves::new(&rates));
                }
            }
            let random = Rates::of(&study.random).over(base);
            let flat = |rate: f64| zip(&values, values.iter().map(|_| rate));
            of_changes.add(format!("{name} random create"), flat(random.create));
            of_stat.add(format!("{name} random stat"), flat(random.stat));
        }
        match self {
            Varied::FileWidth => of_file_width(&mut of_changes, &mut of_stat, &values, &curves),
            Varied::DirWidth => {
                let file_widths = Varied::FileWidth.values(options);
                let by_file_width: Vec<Rates> = file_widths
                    .iter()
                    .map(|&value| Rates::of(studies[0].at(0, Varied::FileWidth.set(value))))
                    .collect();
                let by_file_width = Curves::new(&by_file_width);
                let all = (&values[..], &curves[..]);
                of_dir_width(&mut of_changes, &mut of_stat, all, &by_file_width);
            }
            Varied::DirDepth => of_dir_depth(&mut of_changes, &mut of_stat, &values, &curves),
        }
        [of_changes, of_stat]
    }
}

impl Curves {
    fn new(rates: &[Rates]) -> Curves {
        let of = |rate: fn(&Rates) -> f64| rates.iter().map(rate).collect();
        Curves {
            create: of(|rates| rates.create),
            delete: of(|rates| rates.delete),
            changes: of(|rates| rates.changes()),
            stat: of(|rates| rates.stat),
        }
    }
}

/// Returns whether each is larger than the one before, or nearly as large.
fn rising(curve: &[f64]) -> bool {
    curve.windows(2).all(|pair| pair[1] > pair[0] * 0.95)
}

/// The best over the worst.
fn spread(curve: &[f64]) -> f64 {
    let (least, most) = range(curve);
    most / least
}

/// The values at which this holds of a curve.
fn some(values: &[u32], curve: &[f64], which: impl Fn(u32) -> bool) -> Vec<f64> {
    let both = values.iter().zip(curve);
    both.filter(|(value, _)| which(**value))
        .map(|(_, rate)| *rate)
        .collect()
}

fn best(curve: &[f64]) -> f64 {
    range(curve).1
}

fn value_at_best(values: &[u32], curve: &[f64]) -> u32 {
    let best = (0..curve.len()).max_by(|&a, &b| curve[a].total_cmp(&curve[b]));
    values[best.unwrap_or(0)]
}

/// Of each name space.
fn each<T: ToString>(curves: &[Curves], of: impl Fn(&Curves) -> T) -> String {
    let all: Vec<String> = curves.iter().map(|one| of(one).to_string()).collect();
    all.join(" and ")
}

/// The least value from which on it is better than Subtree, both at creation and at deletion.
fn better_from(values: &[u32], curves: &Curves) -> Option<u32> {
    let both = curves.create.iter().zip(&curves.delete);
    let better: Vec<bool> = both
        .map(|(create, delete)| create.min(*delete) > 1.0)
        .collect();
    let worse = better.iter().rposition(|better| !better);
    values.get(worse.map_or(0, |at| at + 1)).copied()
}

fn of_file_width(changes: &mut Figure, stat: &mut Figure, values: &[u32], curves: &[Curves]) {
    let last = values.len() - 1;
    changes.claim(
        "both creation and deletion throughput increase with FileWid",
        curves
            .iter()
            .all(|one| rising(&one.create) && rising(&one.delete)),
        format!(
            "from the least to the largest FileWid {}",
            each(curves, |one| times(one.changes[last] / one.changes[0]))
        ),
    );
    // The paper's values, or the next that were tried.
    let paper = [4_096, 512].map(|from| values.iter().copied().find(|&value| value >= from));
    let found: Vec<Option<u32>> = curves.iter().map(|one| better_from(values, one)).collect();
    let say = |from: Option<u32>| from.map_or("nowhere".to_owned(), |from| format!("from {from}"));
    changes.claim(
        "DDG outperforms Subtree from FileWid 4,096 on for Namespace1, from 512 on for Namespace2, and not below",
        found == paper,
        format!(
            "{} and {}, of {values:?}. Subtree's own rate, which all is measured by, hangs on how even the children of the \
             root happen to be",
            say(found[0]),
            say(found[1])
        ),
    );
    stat.claim(
        "stat throughput is not sensitive to FileWid (less than half as much again)",
        curves.iter().all(|one| spread(&one.stat) < 1.5),
        format!(
            "the best over the worst: {}",
            each(curves, |one| times(spread(&one.stat)))
        ),
    );
}

fn of_dir_width(
    changes: &mut Figure,
    stat: &mut Figure,
    (values, curves): (&[u32], &[Curves]),
    by_file_width: &Curves,
) {
    let (mine, of_files) = (spread(&curves[0].changes), spread(&by_file_width.changes));
    changes.claim(
        "for Namespace1 DirWid has less effect than FileWid",
        mine < of_files,
        format!(
            "the best over the worst: {} with DirWid, {} with FileWid",
            times(mine),
            times(of_files)
        ),
    );
    let second = &curves[1].changes;
    let narrow = some(values, second, |value| value <= 16);
    let wide = some(values, second, |value| value >= 32);
    changes.claim(
        "for Namespace2 throughput increases with DirWid and declines slightly from 32 on (by less than a third)",
        rising(&narrow) && best(&wide) < best(&narrow) && range(&wide).0 > best(&narrow) / 1.5,
        format!(
            "with {values:?}: {}",
            second
                .iter()
                .map(|rate| format!("{rate:.2}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    );
    changes.claim(
        "a DirWid around 16 is preferable (8 to 32: at most a fifth below the best)",
        curves.iter().all(|one| {
            let near = some(values, &one.changes, |value| (8..=32).contains(&value));
            best(&near) > best(&one.changes) * 0.8
        }),
        format!(
            "best at {}",
            each(curves, |one| value_at_best(values, &one.changes))
        ),
    );
    let last = values.len() - 1;
    stat.claim(
        "stat is very poor with a large DirWid, because distribution is uneven (less than half of the best)",
        curves
            .iter()
            .all(|one| one.stat[last] < best(&one.stat) / 2.0),
        format!(
            "the best is {} the widest; at depth 4 units this wide still fit the caches where it is less than twice",
            each(curves, |one| times(best(&one.stat) / one.stat[last]))
        ),
    );
}

fn of_dir_depth(changes: &mut Figure, stat: &mut Figure, values: &[u32], curves: &[Curves]) {
    let steep = |curve: &[f64]| {
        let deep = some(values, curve, |value| value >= 8);
        let shallow = some(values, curve, |value| (2..=6).contains(&value));
        best(&shallow) / best(&deep)
    };
    let found = |which: fn(&Curves) -> &Vec<f64>| {
        format!(
            "the best of 2 to 6 over the best of 8 and more: {}",
            each(curves, |one| times(steep(which(one))))
        )
    };
    changes.claim(
        "creation and deletion increase until DirDep gets 6, and then decline steeply (to two thirds and less)",
        curves.iter().all(|one| {
            rising(&some(values, &one.changes, |value| value <= 6)) && steep(&one.changes) > 1.5
        }),
        format!(
            "{}; best at {}",
            found(|one| &one.changes),
            each(curves, |one| value_at_best(values, &one.changes))
        ),
    );
    changes.claim(
        "a DirDep of 2 to 6 is preferable",
        curves
            .iter()
            .all(|one| (2..=6).contains(&value_at_best(values, &one.changes))),
        format!(
            "best at {}",
            each(curves, |one| value_at_best(values, &one.changes))
        ),
    );
    stat.claim(
        "stat is very poor with a large DirDep (less than half of the best)",
        curves.iter().all(|one| steep(&one.stat) > 2.0),
        found(|one| &one.stat),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(create: &[f64], delete: &[f64]) -> Curves {
        let both = create.iter().zip(delete);
        let rates = both.map(|(&create, &delete)| Rates {
            create,
            stat: 1.0,
            delete,
        });
        Curves::new(&rates.collect::<Vec<_>>())
    }

    #[test]
    fn it_is_better_from_where_both_stay_better() {
        let values = [128, 256, 512, 1_024];
        let from = |create: &[f64], delete: &[f64]| better_from(&values, &curves(create, delete));
        assert_eq!(from(&[0.5, 1.1, 1.2, 1.3], &[2.0; 4]), Some(256));
        assert_eq!(
            from(&[0.5, 1.1, 1.2, 1.3], &[2.0, 0.9, 2.0, 2.0]),
            Some(512)
        );
        assert_eq!(from(&[1.5, 0.9, 1.2, 1.3], &[2.0; 4]), Some(512));
        assert_eq!(from(&[2.0; 4], &[2.0; 4]), Some(128));
        assert_eq!(from(&[2.0, 2.0, 2.0, 0.9], &[2.0; 4]), None);
    }

    #[test]
    fn a_small_dip_does_not_end_a_rise() {
        assert!(rising(&[1.0, 2.0, 1.95, 3.0]));
        assert!(!rising(&[1.0, 2.0, 1.8, 3.0]));
        assert!(rising(&[1.0]));
    }

    #[test]
    fn of_a_curve_the_values_that_are_asked_for() {
        let values = [2, 8, 32];
        assert_eq!(
            some(&values, &[1.0, 3.0, 2.0], |value| value >= 8),
            [3.0, 2.0]
        );
        assert_eq!(value_at_best(&values, &[1.0, 3.0, 2.0]), 8);
        assert_eq!(spread(&[1.0, 3.0, 2.0]), 3.0);
    }
}
