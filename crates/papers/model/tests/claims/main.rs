//! Claims about the figures, each as docs/placement.md has it.
//!
//! They are checked in the quick run or, with `PANDOFS_MODEL=full`, at the papers' sizes (`make
//! model`).

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod verdicts;

use pandofs_model::report::{Figure, svg};
use pandofs_model::{Costs, Experiment, Options};

/// The seed of the table.
const SEED: u64 = 1;

fn options(quick: bool) -> Options {
    Options {
        seed: SEED,
        costs: Costs::PAPER,
        quick,
    }
}

/// An experiment's figures, as every other test of the table makes them.
fn run(experiment: Experiment, name: &str) -> Vec<Figure> {
    let figures = experiment.figures(&options(!verdicts::is_full()));
    check(&figures);
    verdicts::check(name, &figures);
    figures
}

fn find<'a>(figures: &'a [Figure], id: &str) -> &'a Figure {
    let found = figures.iter().find(|figure| figure.id == id);
    found.unwrap_or_else(|| panic!("no figure {id}"))
}

fn series<'a>(figures: &'a [Figure], id: &str, name: &str) -> &'a [(f64, f64)] {
    let figure = find(figures, id);
    let found = figure
        .series
        .iter()
        .find(|series| series.name.contains(name));
    let names: Vec<&String> = figure.series.iter().map(|series| &series.name).collect();
    &found
        .unwrap_or_else(|| panic!("{id}: {name} of {names:?}"))
        .points
}

fn last(points: &[(f64, f64)]) -> f64 {
    points[points.len() - 1].1
}

fn check(figures: &[Figure]) {
    for figure in figures {
        assert!(
            !figure.series.is_empty() && !figure.claims.is_empty(),
            "{}",
            figure.id
        );
        for claim in &figure.claims {
            assert!(!claim.found.is_empty(), "{}: {}", figure.id, claim.claim);
        }
        svg(figure).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn dynamic_dir_grain() {
    let figures = run(Experiment::Ddg, "ddg");
    // Branch points and distribution against each value of the granularity.
    for value in ["filewid", "dirwid", "dirdep"] {
        for what in ["branch-points", "distribution"] {
            let figure = find(&figures, &format!("ddg-{what}-{value}"));
            assert!(figure.series.len() > 6, "{}", figure.id);
        }
    }
    let random = last(series(
        &figures,
        "ddg-distribution-filewid",
        "Namespace1 random",
    ));
    assert!((1.0..1.01).contains(&random), "in turn is even: {random}");
}

#[test]
fn adaptive_granularity() {
    let figures = run(Experiment::Adaptive, "adaptive");
    assert_eq!(series(&figures, "adaptive", "adaptive").len(), 3);
}

#[test]
fn one_directory_grows_over_all_servers() {
    let figures = run(Experiment::Giga, "giga");
    // As far as the paper goes; beyond its 32 servers there are fewer files for each.
    let at_most_32 = |figure: &str, name: &str| {
        let points = series(&figures, figure, name).iter();
        points.rev().find(|point| point.0 <= 32.0).unwrap().1
    };
    let (real, linear) = (
        at_most_32("giga-fig3", "creations"),
        at_most_32("giga-fig3", "linear"),
    );
    assert!(real > 0.5 * linear, "{real} of {linear}");
    let probes = at_most_32("giga-probes", "PandoFS");
    assert!((1.0..1.05).contains(&probes), "{probes}");
    // Figure 2: five servers with three partitions each, and one that joins (a third of five).
    let moved = series(&figures, "giga-fig2", "sequential rule");
    let of_five = moved.iter().find(|point| point.0 == 5.0).unwrap().1;
    assert!((of_five - 12.5).abs() < 1e-9, "{of_five}");
}

#[test]
fn partitions_from_the_start_save_the_splits() {
    run(Experiment::Orangefs, "orangefs");
}

#[test]
fn ten_thousand_servers() {
    let figures = run(Experiment::Internet, "internet");
    // All of it is of maps with so many servers, not of smaller ones and a factor.
    for id in [
        "internet-balance",
        "internet-maps",
        "internet-joining",
        "internet-rebalance",
        "internet-memory",
        "internet-messages",
        "internet-loads",
    ] {
        let xs = find(&figures, id).xs();
        assert_eq!(xs[xs.len() - 1], 10_000.0, "{id}");
    }
    // Each asks 9,999 others twice a second, and is asked.
    let told = last(series(&figures, "internet-loads", "questions"));
    assert_eq!(told, 2.0 * 9_999.0 * 2.0);
}

/// Another seed gives other numbers and the same answers to what matters.
#[test]
fn what_matters_does_not_hang_on_the_seed() {
    let options = Options {
        seed: SEED + 1,
        ..options(true)
    };
    let giga = Experiment::Giga.figures(&options);
    let claim = &find(&giga, "giga-fig3").claims[1];
    assert!(
        claim.claim.starts_with("entries are spread") && claim.holds,
        "{claim:?}"
    );
    let internet = Experiment::Internet.figures(&options);
    let claim = &find(&internet, "internet-messages").claims[0];
    assert!(
        claim.claim.starts_with("with the default") && claim.holds,
        "{claim:?}"
    );
}
