//! Branch points and evenness of the distribution, against each value of the granularity.
//!
//! Figures 6 to 11 do not show them, and section 5.1.3 explains those by them.

use super::varied::Varied;
use super::{CLIENTS, SERVERS, Study, VARIANT_NOTE, VARIANTS};
use crate::figures::{Options, zip};
use crate::macro1::Macro1;
use crate::report::{Axis, Figure};

/// Of one name space, with files that begin where their directory is, by the value that varies.
struct Curves {
    directories: Vec<f64>,
    files: Vec<f64>,
    imbalance: Vec<f64>,
    /// Inodes of the fullest server over those that it keeps in memory.
    over_cache: f64,
}

/// Branch points, and distribution.
pub(super) fn figures(varied: Varied, studies: &[Study], options: &Options) -> [Figure; 2] {
    let values = varied.values(options);
    let figure = |id: &str, what: &str, y: Axis| {
        let id = format!("ddg-{id}-{}", varied.name().to_lowercase());
        let title = format!("{what} against {} (macrobenchmark 1)", varied.name());
        let mut figure = Figure::new(&id, title, Axis::logarithmic(varied.name()), y);
        figure.note(format!(
            "{SERVERS} servers, {CLIENTS} clients; the granularities of figures 6 to 11"
        ));
        figure.note(VARIANT_NOTE);
        figure
    };
    let mut points = figure(
        "branch-points",
        "Branch points",
        Axis::logarithmic("objects on another server than their parent, plus 1"),
    );
    let mut evenness = figure(
        "distribution",
        "Distribution of objects",
        Axis::logarithmic("objects of the fullest server over the mean"),
    );
    let mut curves = Vec::new();
    for study in studies {
        let name = &study.space.name;
        for (at, variant) in VARIANTS.iter().enumerate() {
            let runs: Vec<&Macro1> = values
                .iter()
                .map(|&value| study.at(at, varied.set(value)))
                .collect();
            let of =
                |of: fn(&Macro1) -> f64| -> Vec<f64> { runs.iter().map(|run| of(run)).collect() };
            let directories = of(|run| run.branch_points.0 as f64);
            let files = of(|run| run.branch_points.1 as f64);
            let imbalance = of(|run| run.imbalance);
            let plus_1 = |counts: &[f64]| zip(&values, counts.iter().map(|count| count + 1.0));
            let variant = variant.name();
            points.add(
                format!("{name} directories ({variant})"),
                plus_1(&directories),
            );
            points.add(format!("{name} files ({variant})"), plus_1(&files));
            evenness.add(
                format!("{name} ({variant})"),
                zip(&values, imbalance.iter().copied()),
            );
            if at == 0 {
                let mean = study.space.len() as f64 / SERVERS as f64;
                let most = imbalance.iter().copied().fold(0.0, f64::max);
                curves.push(Curves {
                    directories,
                    files,
                    imbalance,
                    over_cache: most * mean / f64::from(study.cached),
                });
            }
        }
        for (what, run) in [("random", &study.random), ("subtree", &study.subtree)] {
            let flat = |value: f64| zip(&values, values.iter().map(|_| value));
            let all = run.branch_points.0 + run.branch_points.1;
            points.add(format!("{name} {what}"), flat(all as f64 + 1.0));
            evenness.add(format!("{name} {what}"), flat(run.imbalance));
        }
    }
    claims(varied, &mut points, &mut evenness, &curves);
    [points, evenness]
}

fn listed(curve: &[f64]) -> String {
    let all: Vec<String> = curve.iter().map(|value| format!("{value:.4}")).collect();
    let short = all
        .iter()
        .map(|one| one.trim_end_matches('0').trim_end_matches('.'));
    short.collect::<Vec<_>>().join(", ")
}

/// Texts about each name space.
fn each(curves: &[Curves], of: &dyn Fn(&Curves) -> String) -> String {
    let all: Vec<String> = curves.iter().map(of).collect();
    all.join("; ")
}

/// Claims of this section of the paper about larger units of what is varied.
fn fewer_branch_directories(varied: Varied, section: &str, points: &mut Figure, curves: &[Curves]) {
    points.claim(
        format!(
            "a larger {} makes fewer branch directories (section {section})",
            varied.name()
        ),
        curves
            .iter()
            .all(|one| falling(&one.directories) && falls(&one.directories)),
        format!(
            "branch directories: {}",
            each(curves, &|one| listed(&one.directories))
        ),
    );
}

fn claims(varied: Varied, points: &mut Figure, evenness: &mut Figure, curves: &[Curves]) {
    let each = |of: &dyn Fn(&Curves) -> String| each(curves, of);
    match varied {
        Varied::FileWidth => {
            points.claim(
                "a smaller FileWid makes more branch points (section 5.1.3)",
                curves
                    .iter()
                    .all(|one| falling(&one.files) && falls(&one.files)),
                format!("branch files: {}", each(&|one| listed(&one.files))),
            );
            evenness.claim(
                "the skew that FileWid causes is not beyond the caches (section 5.1.3)",
                curves.iter().all(|one| one.over_cache <= 1.0),
                format!(
                    "the fullest server has at most {} of what its cache holds",
                    each(&|one| format!("{:.2}", one.over_cache))
                ),
            );
        }
        Varied::DirWidth => {
            fewer_branch_directories(varied, "5.1.3", points, curves);
            let shares = |one: &Curves| -> Vec<f64> {
                let both = one.directories.iter().zip(&one.files);
                both.map(|(directories, files)| directories / (directories + files).max(1.0))
                    .collect()
            };
            points.claim(
                "branch directories are a quarter to an eighth of the branch points in Namespace1, and all in Namespace2 \
                 (section 5.1.3)",
                shares(&curves[0])
                    .iter()
                    .all(|share| (0.125..=0.25).contains(share))
                    && curves[1].files.iter().all(|&files| files == 0.0),
                format!(
                    "their share, from the least DirWid on: {}",
                    each(&|one| listed(&shares(one)))
                ),
            );
            evenness.claim(
                "distribution is uneven with a large DirWid (section 5.1.3)",
                curves.iter().all(|one| uneven_at_the_end(&one.imbalance)),
                format!(
                    "the fullest over the mean: {}",
                    each(&|one| listed(&one.imbalance))
                ),
            );
        }
        Varied::DirDepth => {
            fewer_branch_directories(varied, "3.2", points, curves);
            evenness.claim(
                "distribution is much skewed with a large DirDep (section 5.1.3)",
                curves.iter().all(|one| uneven_at_the_end(&one.imbalance)),
                format!(
                    "the fullest over the mean: {}",
                    each(&|one| listed(&one.imbalance))
                ),
            );
        }
    }
}

/// Returns whether each is smaller than the one before, or hardly larger.
fn falling(curve: &[f64]) -> bool {
    curve.windows(2).all(|pair| pair[1] <= pair[0] * 1.05)
}

/// Returns whether there is less in the end.
fn falls(curve: &[f64]) -> bool {
    curve[curve.len() - 1] < curve[0]
}

/// Returns whether the fullest has more than twice the mean in the end, and more than with the most
/// even.
fn uneven_at_the_end(imbalance: &[f64]) -> bool {
    let last = imbalance[imbalance.len() - 1];
    let least = imbalance.iter().copied().fold(f64::INFINITY, f64::min);
    last > 2.0 && last > 1.5 * least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_and_what_is_uneven() {
        assert!(falling(&[9.0, 9.3, 4.0]) && falls(&[9.0, 9.3, 4.0]));
        assert!(!falling(&[9.0, 9.6, 4.0]));
        assert!(!falls(&[9.0, 9.0]));
        assert!(uneven_at_the_end(&[1.1, 1.2, 2.1]));
        assert!(!uneven_at_the_end(&[1.1, 1.2, 1.9]));
        assert!(!uneven_at_the_end(&[2.0, 2.2, 2.4]));
    }

    #[test]
    fn numbers_are_listed_without_what_says_nothing() {
        assert_eq!(listed(&[12.0, 1.25, 0.0]), "12, 1.25, 0");
    }
}
