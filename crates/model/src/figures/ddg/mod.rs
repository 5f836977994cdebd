//! Xiong et al., section 5.1: figures 5 to 13, table 2.

mod scale;
mod varied;

use super::{Options, times};
use crate::macro1::{Macro1, macro1};
use crate::place::Policy;
use crate::space::{Kind, NAMESPACE_1, NAMESPACE_2, Space};
use pandofs_report::{Axis, Figure};
use varied::Varied;

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// What figures 6 to 11 leave unsaid: the two values that stay the same while one changes.
const BASE: Granules = (4, 16, 2_048);

/// The granularity of figure 12.
const OF_FIGURE_12: Granules = (2, 16, 2_048);

/// DirDep, DirWid, FileWid.
type Granules = (u32, u32, u32);

/// Whose files begin where: see [`Policy::DdgOwnFiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    AsPrinted,
    OwnFiles,
}

impl Variant {
    fn policy(self, (dir_depth, dir_width, file_width): Granules) -> Policy {
        match self {
            Variant::AsPrinted => Policy::Ddg {
                dir_depth,
                dir_width,
                file_width,
            },
            Variant::OwnFiles => Policy::DdgOwnFiles {
                dir_depth,
                dir_width,
                file_width,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Variant::AsPrinted => "figure 2 as printed",
            Variant::OwnFiles => "own files",
        }
    }
}

const VARIANTS: [Variant; 2] = [Variant::OwnFiles, Variant::AsPrinted];

const VARIANT_NOTE: &str = "figure 2 of the paper, as printed, has the files of a new directory begin where the \
     last file of its parent went; with \"own files\" they begin where the directory itself is. Only the \
     second agrees with what section 5.1.4 counts (42,000 branch files in Namespace1, none in Namespace2)";

/// Throughput of the three phases.
#[derive(Clone, Copy, Debug)]
struct Rates {
    create: f64,
    stat: f64,
    delete: f64,
}

impl Rates {
    fn of(run: &Macro1) -> Rates {
        Rates {
            create: run.create.rate(),
            stat: run.stat.rate(),
            delete: run.delete.rate(),
        }
    }

    fn over(self, base: Rates) -> Rates {
        Rates {
            create: self.create / base.create,
            stat: self.stat / base.stat,
            delete: self.delete / base.delete,
        }
    }

    /// Of creation and deletion, the geometric mean.
    fn changes(self) -> f64 {
        libm::sqrt(self.create * self.delete)
    }
}

/// Everything that section 5.1 shows.
pub fn figures(options: &Options) -> Vec<Figure> {
    let kinds = [NAMESPACE_1, NAMESPACE_2].map(|kind| kind.scaled_down(options.divisor()));
    let spaces = kinds.map(|kind| Space::generate(kind, options.seed));
    let studies: Vec<Study> = spaces
        .iter()
        .zip(kinds)
        .map(|(space, kind)| Study::new(space, kind, options))
        .collect();
    let mut figures = vec![levels(&spaces), fan_out(&spaces)];
    figures.push(branch_points(&studies));
    figures.extend(
        Varied::ALL
            .iter()
            .flat_map(|varied| varied.figures(&studies, options)),
    );
    figures.push(comparison(&studies));
    figures.extend(scale::scalability(&spaces, options));
    figures.extend(scale::real_system(&spaces[0], options));
    figures
}

/// One name space, with the runs that all figures refer to.
struct Study<'a> {
    space: &'a Space,
    random: Macro1,
    subtree: Macro1,
    /// For each variant, of the granularities tried.
    ddg: [Vec<(Granules, Macro1)>; 2],
}

impl<'a> Study<'a> {
    fn new(space: &'a Space, kind: Kind, options: &Options) -> Study<'a> {
        let run = |policy| {
            let costs = options.scaled_costs();
            macro1(space, policy, SERVERS, CLIENTS, costs, options.seed)
        };
        let mut tried: Vec<Granules> = Varied::ALL
            .iter()
            .flat_map(|varied| {
                varied
                    .values(options)
                    .into_iter()
                    .map(|value| varied.set(value))
            })
            .collect();
        tried.push(OF_FIGURE_12);
        tried.sort_unstable();
        tried.dedup();
        assert!(kind.files > 0, "a name space without files");
        Study {
            space,
            random: run(Policy::Random),
            subtree: run(Policy::Subtree),
            ddg: VARIANTS.map(|variant| {
                let each = tried.iter();
                each.map(|&set| (set, run(variant.policy(set)))).collect()
            }),
        }
    }

    fn at(&self, variant: usize, set: Granules) -> &Macro1 {
        let found = self.ddg[variant].iter().find(|(tried, _)| *tried == set);
        match found {
            Some((_, run)) => run,
            None => unreachable!("the granularity {set:?} was not tried"),
        }
    }

    fn best(&self, rate: impl Fn(&Macro1) -> f64) -> f64 {
        let all = self.ddg.iter().flatten().map(|(_, run)| rate(run));
        all.fold(0.0, f64::max)
    }
}

/// Figure 5 (a).
fn levels(spaces: &[Space]) -> Figure {
    let mut figure = Figure::new(
        "ddg-fig05a",
        "Directories and files by level",
        Axis::linear("level"),
        Axis::linear("per cent"),
    );
    let mut widths = Vec::new();
    for space in spaces {
        for wanted in [true, false] {
            let mut counts: Vec<u32> = Vec::new();
            for object in 0..space.len() {
                let level = usize::from(space.levels[object]);
                if space.is_dir[object] == wanted {
                    counts.resize(counts.len().max(level + 1), 0);
                    counts[level] += 1;
                }
            }
            let total: u32 = counts.iter().sum();
            let shares: Vec<f64> = counts
                .iter()
                .map(|&count| 100.0 * f64::from(count) / f64::from(total))
                .collect();
            // Levels in a row that have 70 %.
            let width = (1..=shares.len()).find(|&width| {
                shares
                    .windows(width)
                    .any(|some| some.iter().sum::<f64>() > 70.0)
            });
            widths.push(width.unwrap_or(0));
            let what = if wanted { "directories" } else { "files" };
            let points = shares.into_iter().enumerate();
            figure.add(
                format!("{} {what}", space.name),
                points.map(|(level, share)| (level as f64, share)).collect(),
            );
        }
    }
    figure.claim(
        "over 70 % of directories and files are in several continuous levels",
        widths.iter().all(|width| (2..=8).contains(width)),
        format!("70 % are in {widths:?} levels in a row"),
    );
    figure
}

/// Figure 5 (b).
fn fan_out(spaces: &[Space]) -> Figure {
    let mut figure = Figure::new(
        "ddg-fig05b",
        "Directories with at most so many children (cumulative)",
        Axis::logarithmic("children, plus 1"),
        Axis::linear("per cent of the directories"),
    );
    let (mut few_dirs, mut few_files) = (Vec::new(), Vec::new());
    for space in spaces {
        let fan_out = space.fan_out();
        let share = |within: &dyn Fn(&(u32, u32)) -> bool| {
            let some = fan_out.iter().filter(|counts| within(counts)).count();
            100.0 * some as f64 / fan_out.len() as f64
        };
        let steps: Vec<u32> = (0..14).map(|power| (1 << power) - 1).collect();
        let at = |step: u32| f64::from(step) + 1.0;
        let dirs = steps
            .iter()
            .map(|&most| (at(most), share(&|counts| counts.0 <= most)));
        figure.add(format!("{} child directories", space.name), dirs.collect());
        let files = steps
            .iter()
            .map(|&most| (at(most), share(&|counts| counts.1 <= most)));
        figure.add(format!("{} child files", space.name), files.collect());
        few_dirs.push(share(&|counts| counts.0 <= 4));
        few_files.push(share(&|counts| counts.1 <= 32));
    }
    figure.claim(
        "over 92 % of the directories have 0 to 4 child directories, over 86 % 0 to 32 child files",
        few_dirs.iter().all(|share| *share > 92.0) && few_files.iter().all(|share| *share > 86.0),
        format!("{few_dirs:.1?} % and {few_files:.1?} %"),
    );
    figure
}

fn branch_points(studies: &[Study]) -> Figure {
    let mut figure = Figure::of_categories(
        "ddg-branch-points",
        "Branch points and evenness (16 servers)",
        &[
            "random",
            "subtree",
            "ddg-2-16-2048",
            "ddg-2-16-2048, own files",
            "ddg-4-16-2048, own files",
        ],
        Axis::logarithmic(""),
    );
    for study in studies {
        let runs = [
            &study.random,
            &study.subtree,
            study.at(1, OF_FIGURE_12),
            study.at(0, OF_FIGURE_12),
            study.at(0, BASE),
        ];
        let name = &study.space.name;
        let directories = runs.map(|run| run.branch_points.0 as f64 + 1.0);
        let files = runs.map(|run| run.branch_points.1 as f64 + 1.0);
        figure.add_values(format!("{name} branch directories + 1"), &directories);
        figure.add_values(format!("{name} branch files + 1"), &files);
        figure.add_values(
            format!("{name} largest server over mean"),
            &runs.map(|run| run.imbalance),
        );
    }
    figure.note(VARIANT_NOTE);
    let files =
        |study: usize, variant: usize| studies[study].at(variant, OF_FIGURE_12).branch_points.1;
    let full = studies[0].space.len() > 500_000;
    figure.claim(
        "ddg-2-16-2048: over 42 thousand branch files in Namespace1, none in Namespace2 (section 5.1.4), with \
         own files",
        files(1, 0) == 0 && (!full || (38_000..48_000).contains(&files(0, 0))),
        format!("{} and {}", files(0, 0), files(1, 0)),
    );
    figure.claim(
        "the same with figure 2 as printed",
        files(1, 1) == 0,
        format!(
            "{} and {}: a directory that is in the unit of its parent's latest child directory, and that unit not \
             its parent's, has all its files on another server than itself",
            files(0, 1),
            files(1, 1)
        ),
    );
    figure
}

/// "40 % to 62 times."
fn comparison(studies: &[Study]) -> Figure {
    let mut figure = Figure::of_categories(
        "ddg-comparison",
        "The best DDG policy against Random and Subtree",
        &["create", "stat", "delete"],
        Axis::logarithmic("throughput of DDG over that of the other"),
    );
    let (mut over_random, mut over_subtree) = (Vec::new(), Vec::new());
    let mut random_over_subtree = Vec::new();
    for study in studies {
        let best = Rates {
            create: study.best(|run| run.create.rate()),
            stat: study.best(|run| run.stat.rate()),
            delete: study.best(|run| run.delete.rate()),
        };
        let ratios = |base: &Macro1| {
            let over = best.over(Rates::of(base));
            [over.create, over.stat, over.delete]
        };
        let (random, subtree) = (ratios(&study.random), ratios(&study.subtree));
        figure.add_values(format!("{} over Random", study.space.name), &random);
        figure.add_values(format!("{} over Subtree", study.space.name), &subtree);
        over_random.push(random);
        over_subtree.push(subtree);
        random_over_subtree.push(Rates::of(&study.random).over(Rates::of(&study.subtree)));
    }
    let all: Vec<f64> = over_random
        .iter()
        .chain(&over_subtree)
        .flatten()
        .copied()
        .collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    figure.claim(
        "DDG with a proper granularity outperforms Random and Subtree by 40 % to 62 times",
        least >= 1.4,
        format!("by {} to {}", times(least), times(most)),
    );
    let range = |values: Vec<f64>| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (least, values.iter().copied().fold(0.0, f64::max))
    };
    let (least, most) = range(
        random_over_subtree
            .iter()
            .map(|rates| rates.create)
            .collect(),
    );
    figure.claim(
        "Subtree creates over 8 times as fast as Random, because it has the fewest branch points",
        1.0 / most >= 8.0,
        format!(
            "{} to {} as fast; the factor is decided by how even the children of the root happen to be, of which the paper \
             says nothing",
            times(1.0 / most),
            times(1.0 / least)
        ),
    );
    let (least, most) = range(random_over_subtree.iter().map(|rates| rates.stat).collect());
    figure.claim(
        "Random is over 15 times as fast as Subtree at stat, because it is even",
        least >= 15.0,
        format!("{} to {}", times(least), times(most)),
    );
    let (least, most) = range(over_random.iter().map(|of| of[1]).collect());
    figure.claim(
        "DDG outperforms Random at stat by 10 % to 50 %, having fewer messages",
        least >= 1.1,
        format!("by {} to {}", times(least), times(most)),
    );
    figure
}
