//! Xiong et al., section 5.1: figures 5 to 13, table 2.

mod scale;
mod spread;
mod varied;

use super::{Options, from_to, within};
use crate::macro1::{Macro1, Order, macro1};
use crate::place::Policy;
use crate::report::{Axis, Figure};
use crate::space::{Kind, NAMESPACE_1, NAMESPACE_2, Space};
use varied::Varied;

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// Values that figures 6 to 11 leave unsaid: the two that stay the same while one changes.
const BASE: Granules = (4, 16, 2_048);

/// The granularity of figure 12.
const OF_FIGURE_12: Granules = (2, 16, 2_048);

/// DirDep, DirWid, FileWid.
type Granules = (u32, u32, u32);

/// Place where files begin: see [`Policy::DdgOwnFiles`].
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
pub(crate) fn figures(options: &Options) -> Vec<Figure> {
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
    figures.extend(
        Varied::ALL
            .iter()
            .flat_map(|&varied| spread::figures(varied, &studies, options)),
    );
    figures.push(comparison(&studies));
    figures.extend(scale::scalability(&spaces, options));
    figures.extend(scale::real_system(&spaces[0], options));
    figures
}

/// One name space, with the runs that all figures refer to.
struct Study<'a> {
    space: &'a Space,
    /// Inodes that a server keeps in memory.
    cached: u32,
    random: Macro1,
    subtree: Macro1,
    /// For each variant, of the granularities tried.
    ddg: [Vec<(Granules, Macro1)>; 2],
}

impl<'a> Study<'a> {
    fn new(space: &'a Space, kind: Kind, options: &Options) -> Study<'a> {
        let run = |policy| {
            let costs = options.scaled_costs();
            let size = (SERVERS, CLIENTS);
            macro1(space, policy, size, Order::OneClient, costs, options.seed)
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
            cached: options.scaled_costs().cached,
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

    /// The run of the granularity that does this best.
    fn best(&self, rate: impl Fn(&Macro1) -> f64) -> &Macro1 {
        let all = self.ddg.iter().flatten().map(|(_, run)| run);
        let best = all.max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.unwrap_or_else(|| unreachable!("no granularity was tried"))
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
        "over 70 % of directories and files are in several continuous levels (section 5.1.1)",
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
        "over 92 % of the directories have 0 to 4 child directories, over 86 % 0 to 32 child files (section 5.1.1)",
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

/// Comparison of DDG, Random and Subtree, as in section 5.1.3.
fn comparison(studies: &[Study]) -> Figure {
    let mut figure = Figure::of_categories(
        "ddg-comparison",
        "The best DDG policy against Random and Subtree",
        &["create", "stat", "delete"],
        Axis::logarithmic("throughput of DDG over that of the other"),
    );
    let (mut over_random, mut over_subtree) = (Vec::new(), Vec::new());
    // Of Subtree over Random.
    let mut baselines = Vec::new();
    let mut fewer_messages = Vec::new();
    for study in studies {
        let best_stat = study.best(|run| run.stat.rate());
        let best = Rates {
            create: study.best(|run| run.create.rate()).create.rate(),
            stat: best_stat.stat.rate(),
            delete: study.best(|run| run.delete.rate()).delete.rate(),
        };
        let random = best.over(Rates::of(&study.random));
        let subtree = best.over(Rates::of(&study.subtree));
        let values = |of: Rates| [of.create, of.stat, of.delete];
        figure.add_values(format!("{} over Random", study.space.name), &values(random));
        figure.add_values(
            format!("{} over Subtree", study.space.name),
            &values(subtree),
        );
        over_random.push(random);
        over_subtree.push(subtree);
        baselines.push(Rates::of(&study.subtree).over(Rates::of(&study.random)));
        let messages = |run: &Macro1| run.stat.messages.max(1) as f64;
        fewer_messages.push(messages(&study.random) / messages(best_stat));
    }
    figure.note(
        "a proper granularity is the best of those tried, for each name space and phase; the paper does not say which ones \
         its ranges are over",
    );
    let of =
        |all: &[Rates], rate: fn(&Rates) -> f64| -> Vec<f64> { all.iter().map(rate).collect() };
    let changes = |all: &[Rates]| [of(all, |one| one.create), of(all, |one| one.delete)].concat();
    let stat = |all: &[Rates]| of(all, |one| one.stat);
    let all = [&over_random, &over_subtree].map(|over| [changes(over), stat(over)].concat());
    let all = all.concat();
    figure.claim(
        "DDG with a proper granularity outperforms Random and Subtree by 40 % to 62 times (abstract)",
        within(&all, 1.4, 63.0),
        format!("it does {} as much", from_to(&all)),
    );
    let found = changes(&over_subtree);
    figure.claim(
        "its creation and deletion throughputs are 1.4 to 7 times Subtree's (section 5.1.3)",
        within(&found, 1.4, 7.0),
        from_to(&found),
    );
    let found = changes(&over_random);
    figure.claim(
        "and 1.5 to 63 times Random's (section 5.1.3)",
        within(&found, 1.5, 63.0),
        from_to(&found),
    );
    let uneven = "how even the children of the root happen to be decides it, of which the paper says nothing";
    for (what, paper, rates) in [
        ("creation", 8.0, of(&baselines, |one| one.create)),
        ("deletion", 6.0, of(&baselines, |one| one.delete)),
    ] {
        figure.claim(
            format!("Subtree's {what} throughput is over {paper} times Random's, which has the most branch points (section 5.1.3)"),
            rates.iter().all(|&rate| rate >= paper),
            format!("{}; {uneven}", from_to(&rates)),
        );
    }
    let found: Vec<f64> = baselines.iter().map(|one| 1.0 / one.stat).collect();
    figure.claim(
        "Random's stat throughput is over 15 times Subtree's, because it is even (section 5.1.3)",
        found.iter().all(|&ratio| ratio >= 15.0),
        format!("{}; {uneven}", from_to(&found)),
    );
    let found = stat(&over_random);
    figure.claim(
        "DDG outperforms Random at stat by about 10 % to 50 % (section 5.1.3)",
        within(&found, 1.1, 1.5),
        format!(
            "it does {} as much: a look at a branch point takes two messages between servers and the work of a second one, and \
             what these cost decides it",
            from_to(&found)
        ),
    );
    figure.claim(
        "and has 3 to 10 times fewer messages between servers than Random (section 5.1.3)",
        within(&fewer_messages, 3.0, 10.0),
        format!(
            "{} fewer with the granularity that is best at stat",
            from_to(&fewer_messages)
        ),
    );
    let found = stat(&over_subtree);
    figure.claim(
        "DDG achieves 3 to 24 times the stat throughput of Subtree (section 5.1.3)",
        within(&found, 3.0, 24.0),
        from_to(&found),
    );
    figure
}
