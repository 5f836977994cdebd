//! Claims of the paper, and whether they hold here.

use crate::figures::{CP, DRQS, Figures, H, PA, Traffic};
use crate::real::Real;
use crate::svg::number;
use pandofs_walk::Algorithm;
use pandofs_walk_bench::sim::Report;

/// A claim with what was found of it.
pub(crate) struct Claim {
    pub text: &'static str,
    pub simulated: Found,
    pub real: Option<Found>,
}

pub(crate) struct Found {
    pub text: String,
    pub holds: bool,
}

pub(crate) fn claims(simulated: &Figures, real: Option<&Real>) -> Vec<Claim> {
    let of = |text, found: fn(&Figures) -> Found| Claim {
        text,
        simulated: found(simulated),
        real: real.map(|it| found(&it.figures)),
    };
    vec![
        Claim {
            text: "Distributed walks are more than 300 % faster than the centralized one.",
            simulated: faster(simulated),
            real: real.map(|it| {
                let holds = it.faster.iter().all(|it| it.median >= 3.0);
                let text = format!(
                    "With {} processes on {} processors the centralized walk takes {} times as long as drqs and {} \
                     times as long as h-drqs: median of {} rounds (least to most).",
                    it.figures.processes, it.processors, it.faster[0], it.faster[1], it.rounds
                );
                Found { text, holds }
            }),
        },
        of(
            "They send an order of magnitude fewer messages.",
            |figures| fewer(figures, 10.0, |point| point.1),
        ),
        of(
            "They send two orders of magnitude fewer bytes.",
            |figures| fewer(figures, 100.0, |point| point.2),
        ),
        of(
            "With more processes the time for communication does not grow.",
            communication,
        ),
        of(
            "Work is shared best by h-drqs: the span from the least to the most is smaller.",
            spans,
        ),
    ]
}

/// The same for a terminal.
pub(crate) fn lines(simulated: &Figures, real: Option<&Real>) -> Vec<String> {
    let mut lines = Vec::new();
    for claim in claims(simulated, real) {
        lines.push(claim.text.to_owned());
        let sides = [("simulated", Some(claim.simulated)), ("real", claim.real)];
        for (name, found) in sides {
            if let Some(Found { text, holds }) = found {
                let holds = if holds { "holds" } else { "does not hold" };
                lines.push(format!("  {name}: {holds}. {text}"));
            }
        }
    }
    lines
}

fn faster(figures: &Figures) -> Found {
    let at = |algorithm: Algorithm, processes: f64| {
        let runs = figures.times.iter().find(|it| it.0 == algorithm);
        let point = runs.and_then(|it| it.1.iter().find(|it| it.0 == processes));
        point.map_or(f64::NAN, |it| it.1)
    };
    let most = f64::from(figures.processes);
    let faster = [DRQS, H].map(|algorithm| at(CP, most) / at(algorithm, most));
    let few = at(CP, 8.0) / at(DRQS, 8.0);
    Found {
        text: format!(
            "With {most} processes the centralized walk takes {:.2} times as long as drqs and {:.2} times as long as \
             h-drqs; with 8 processes {few:.2} times as long as drqs. In this model the master does nothing but send, \
             so that it is no bottleneck before it has more messages than it can take up: see what a message may cost, below.",
            faster[0], faster[1]
        ),
        holds: faster.iter().all(|it| *it >= 3.0),
    }
}

/// Returns how many times fewer than the centralized walk, over all sizes of trees.
fn fewer(figures: &Figures, times: f64, of: fn(&Traffic) -> f64) -> Found {
    let points = |wanted| figures.traffic.iter().find(|it| it.0 == wanted);
    let ratios = |algorithm: Algorithm| match (points(CP), points(algorithm)) {
        (Some((_, cp)), Some((_, other))) => {
            let pairs = cp.iter().zip(other);
            pairs.map(|(cp, other)| of(cp) / of(other)).collect()
        }
        _ => Vec::new(),
    };
    let list = |ratios: &[f64]| {
        let ratios: Vec<String> = ratios.iter().copied().map(number).collect();
        ratios.join(", ")
    };
    let (pa, h) = (ratios(PA), ratios(H));
    let holds = |ratios: &[f64]| !ratios.is_empty() && ratios.iter().all(|it| *it >= times);
    Found {
        text: format!(
            "From the smallest tree to the largest pa-drqs {} times fewer, h-drqs {} times.",
            list(&pa),
            list(&h)
        ),
        holds: holds(&pa) && holds(&h),
    }
}

fn communication(figures: &Figures) -> Found {
    let all = &figures.components;
    let (Some((few, least)), Some((many, most))) = (all.first(), all.last()) else {
        let text = "Not measured.".to_owned();
        return Found { text, holds: false };
    };
    let share = |parts: &[f64; 4]| parts[3] / parts.iter().sum::<f64>() * 100.0;
    Found {
        text: format!(
            "h-drqs: {:.4} s of all processes with {few} ({:.4} % of their time), {:.4} s with {many} ({:.4} %).",
            least[3],
            share(least),
            most[3],
            share(most)
        ),
        holds: most[3] <= least[3] * 1.1,
    }
}

fn spans(figures: &Figures) -> Found {
    let spans: Vec<(Algorithm, f64)> = figures
        .shares
        .iter()
        .map(|(algorithm, report)| {
            let (least, most) = ends(&share_of_each(*algorithm, report));
            (*algorithm, most - least)
        })
        .collect();
    let of = |algorithm| spans.iter().find(|it| it.0 == algorithm).map(|it| it.1);
    let others = spans
        .iter()
        .filter(|it| it.0 != H)
        .map(|it| it.1)
        .fold(f64::INFINITY, f64::min);
    let text: Vec<String> = spans
        .iter()
        .map(|(algorithm, span)| format!("{algorithm} {span:.3}"))
        .collect();
    Found {
        text: format!(
            "Spans with {} processes and {} nodes, in equal shares: {}. A rank of h-drqs is two threads.",
            figures.sharing.0,
            number(figures.sharing.1 as f64),
            text.join(", ")
        ),
        holds: of(H).is_some_and(|span| span <= others),
    }
}

/// Each rank's nodes, as a part of what each would have if all had the same. A master visits none.
pub(crate) fn share_of_each(algorithm: Algorithm, report: &Report) -> Vec<f64> {
    let masters = usize::from(algorithm == CP);
    let ranks = &report.ranks[masters..];
    let mean = report.nodes() as f64 / ranks.len() as f64;
    ranks.iter().map(|rank| rank.nodes as f64 / mean).collect()
}

/// The least and the largest.
pub(crate) fn ends(shares: &[f64]) -> (f64, f64) {
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    (least, shares.iter().copied().fold(0.0, f64::max))
}
