//! Adaptive DDG against every fixed granularity.

use super::Options;
use crate::macro1::macro1;
use crate::place::Policy;
use crate::space::{Kind, NAMESPACE_1, NAMESPACE_2, Space};
use pandofs_placement::Bounds;
use pandofs_report::{Axis, Figure};

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// The fixed granularities: each with files as figure 2 has them, and with files that begin at their directory.
fn fixed(quick: bool) -> Vec<Policy> {
    let (depths, widths): (&[u32], &[u32]) = if quick {
        (&[2, 4], &[16, 64])
    } else {
        (&[2, 3, 4, 6], &[4, 8, 16, 64])
    };
    let mut all = Vec::new();
    for &dir_depth in depths {
        for &dir_width in widths {
            for file_width in [2_048, 8_192] {
                all.push(Policy::DdgOwnFiles {
                    dir_depth,
                    dir_width,
                    file_width,
                });
            }
            all.push(Policy::Ddg {
                dir_depth,
                dir_width,
                file_width: 8_192,
            });
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

/// How many of the fixed granularities are measured again with all seeds, for each name space.
const FINALISTS: usize = 4;

/// The name spaces: of each one for each seed, and by how much they are larger than the two that the caches
/// are made for.
struct Ground {
    spaces: Vec<Space>,
    larger: u32,
}

fn grounds(options: &Options) -> [Ground; 3] {
    let seeds = if options.quick { 1 } else { 5 };
    let make = |kind: Kind| -> Vec<Space> {
        let kind = kind.scaled_down(options.divisor());
        let each = (0..seeds).map(|seed| options.seed.wrapping_add(seed));
        each.map(|seed| Space::generate(kind, seed)).collect()
    };
    let (first, second) = (make(NAMESPACE_1), make(NAMESPACE_2));
    let mixed = first
        .iter()
        .zip(&second)
        .map(|(one, other)| Space::beside(&[one.clone(), other.clone()], "mix"))
        .collect();
    let ground = |spaces, larger| Ground { spaces, larger };
    [ground(first, 1), ground(second, 1), ground(mixed, 2)]
}

pub fn figures(options: &Options) -> Vec<Figure> {
    let policies = fixed(options.quick);
    let grounds = grounds(options);
    // One seed to see which are worth it, then all seeds: the best of many single draws is a lucky one.
    let first: Vec<[f64; 3]> = policies
        .iter()
        .map(|&policy| {
            [0, 1, 2].map(|at: usize| {
                let ground = &grounds[at];
                rate(&ground.spaces[..1], policy, options, ground.larger)
            })
        })
        .collect();
    let mean = |policy: Policy| {
        [0, 1, 2].map(|at: usize| {
            let ground = &grounds[at];
            rate(&ground.spaces, policy, options, ground.larger)
        })
    };
    let mut finalists: Vec<usize> = Vec::new();
    for at in [0, 1, 2] {
        let mut order: Vec<usize> = (0..policies.len()).collect();
        order.sort_by(|&a, &b| first[b][at].total_cmp(&first[a][at]));
        finalists.extend(&order[..FINALISTS.min(order.len())]);
    }
    finalists.sort_unstable();
    finalists.dedup();
    let columns: Vec<(Policy, [f64; 3])> = finalists
        .iter()
        .map(|&which| (policies[which], mean(policies[which])))
        .collect();
    let adaptive = mean(Policy::Adaptive(Bounds::default()));

    let mut figure = Figure::of_categories(
        "adaptive",
        "Adaptive DDG against the best fixed granularities",
        &["Namespace1", "Namespace2", "both side by side"],
        Axis::linear("operations a second, macrobenchmark 1 in whole"),
    );
    figure.add_values("adaptive", &adaptive);
    for (policy, rates) in &columns {
        figure.add_values(policy.name(), rates);
    }
    figure.note(format!(
        "{} fixed granularities were tried with one seed, those shown and adaptive with {}; {SERVERS} servers, {CLIENTS} \
         clients",
        policies.len(),
        grounds[0].spaces.len()
    ));
    figure.note(
        "\"own\": the files of a directory begin where the directory is, as adaptive has it; adaptive draws two servers and \
         takes the one that has less, by what servers tell each other now and then; the fixed policies draw one",
    );
    let best_at = |at: usize| {
        columns
            .iter()
            .max_by(|a, b| a.1[at].total_cmp(&b.1[at]))
            .map_or(("none".to_owned(), 0.0), |(policy, rates)| {
                (policy.name(), rates[at])
            })
    };
    for (at, ground) in grounds.iter().take(2).enumerate() {
        let (name, best) = best_at(at);
        figure.claim(
            format!(
                "adaptive is within 5 % of the best fixed granularity on {}",
                ground.spaces[0].name
            ),
            adaptive[at] >= 0.95 * best,
            format!(
                "{:+.1} % against {name}",
                100.0 * (adaptive[at] / best - 1.0)
            ),
        );
    }
    let (name, best) = best_at(2);
    figure.claim(
        "adaptive is better than every fixed granularity on a mix of both",
        adaptive[2] > best,
        format!(
            "{:+.1} % against {name}; single runs differ by up to 10 % with the seed",
            100.0 * (adaptive[2] / best - 1.0)
        ),
    );
    vec![figure]
}
