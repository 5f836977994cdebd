//! Adaptive DDG against every fixed granularity.

use super::Options;
use crate::macro1::macro1;
use crate::place::Policy;
use crate::space::{NAMESPACE_1, NAMESPACE_2, Space};
use pandofs_placement::Bounds;
use pandofs_report::{Axis, Figure};

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// The fixed granularities: each with files as figure 2 has them, and with files that begin at their directory.
fn fixed(quick: bool) -> Vec<Policy> {
    let (depths, widths, files): (&[u32], &[u32], &[u32]) = if quick {
        (&[2, 4], &[16, 64], &[2_048, 8_192])
    } else {
        (&[2, 3, 4, 6], &[8, 16, 32, 64], &[512, 2_048, 8_192])
    };
    let mut all = Vec::new();
    for &dir_depth in depths {
        for &dir_width in widths {
            for &file_width in files {
                all.push(Policy::Ddg {
                    dir_depth,
                    dir_width,
                    file_width,
                });
                all.push(Policy::DdgOwnFiles {
                    dir_depth,
                    dir_width,
                    file_width,
                });
            }
        }
    }
    all
}

/// Means over several seeds, since one draw of random servers can be lucky.
fn rate(spaces: &[Space], policy: Policy, options: &Options, larger: u32) -> f64 {
    let mut costs = options.scaled_costs();
    costs.cached *= larger;
    let rates = (0..).zip(spaces).map(|(seed, space)| {
        let seed = options.seed.wrapping_add(seed);
        macro1(space, policy, SERVERS, CLIENTS, costs, seed).rate()
    });
    rates.sum::<f64>() / spaces.len() as f64
}

pub fn figures(options: &Options) -> Vec<Figure> {
    let seeds = if options.quick { 1 } else { 3 };
    let make = |kind: crate::space::Kind| -> Vec<Space> {
        (0..seeds)
            .map(|seed| {
                Space::generate(
                    kind.scaled_down(options.divisor()),
                    options.seed.wrapping_add(seed),
                )
            })
            .collect()
    };
    let (first, second) = (make(NAMESPACE_1), make(NAMESPACE_2));
    let mixed: Vec<Space> = first
        .iter()
        .zip(&second)
        .map(|(one, other)| Space::beside(&[one.clone(), other.clone()], "mix"))
        .collect();
    let policies = fixed(options.quick);
    let mut figure = Figure::of_categories(
        "adaptive",
        "Adaptive DDG against the best fixed granularity",
        &["Namespace1", "Namespace2", "both side by side"],
        Axis::linear("operations a second, macrobenchmark 1 in whole"),
    );
    let spaces = [&first, &second, &mixed];
    // The mix has twice the objects; the caches keep their relation to them.
    let larger = [1, 1, 2];
    let columns: Vec<[f64; 3]> = policies
        .iter()
        .map(|&policy| [0, 1, 2].map(|at: usize| rate(spaces[at], policy, options, larger[at])))
        .collect();
    let adaptive = Policy::Adaptive(Bounds::default());
    let adaptive = [0, 1, 2].map(|at: usize| rate(spaces[at], adaptive, options, larger[at]));
    let best_at = |at: usize, own: bool| {
        let candidates = (0..policies.len())
            .filter(|&which| own || matches!(policies[which], Policy::Ddg { .. }));
        candidates
            .max_by(|&a, &b| columns[a][at].total_cmp(&columns[b][at]))
            .unwrap_or(0)
    };
    for (own, name) in [
        (false, "best fixed, figure 2 as printed"),
        (true, "best fixed, own files too"),
    ] {
        figure.add_values(name, &[0, 1, 2].map(|at| columns[best_at(at, own)][at]));
    }
    figure.add_values("adaptive", &adaptive);
    // A fixed setting that is one for all three.
    let even = |rates: &[f64; 3]| -> f64 {
        let parts = [0, 1, 2].map(|at| rates[at] / columns[best_at(at, true)][at]);
        parts.into_iter().fold(f64::INFINITY, f64::min)
    };
    let compromise = (0..columns.len())
        .max_by(|&a, &b| even(&columns[a]).total_cmp(&even(&columns[b])))
        .unwrap_or(0);
    figure.add_values(
        format!("best compromise: {}", policies[compromise].name()),
        &columns[compromise],
    );
    figure.note(format!(
        "{} fixed granularities, {SERVERS} servers, {CLIENTS} clients, means of {seeds} seeds",
        policies.len()
    ));
    figure.note(
        "adaptive draws two servers and takes the one that has less, by what servers tell each other now and then; \
         the fixed policies draw one",
    );
    for at in 0..2 {
        let best = best_at(at, true);
        figure.claim(
            format!(
                "adaptive is within 5 % of the best fixed granularity on {}",
                spaces[at][0].name
            ),
            adaptive[at] >= 0.95 * columns[best][at],
            format!(
                "{:+.1} % against {}",
                100.0 * (adaptive[at] / columns[best][at] - 1.0),
                policies[best].name()
            ),
        );
    }
    let best = best_at(2, true);
    figure.claim(
        "adaptive is better than every fixed granularity on a mix of both",
        adaptive[2] > columns[best][2],
        format!(
            "{:+.1} % against {}",
            100.0 * (adaptive[2] / columns[best][2] - 1.0),
            policies[best].name()
        ),
    );
    vec![figure]
}
