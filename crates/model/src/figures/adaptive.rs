//! Adaptive DDG against every fixed granularity.

use super::Options;
use crate::macro1::macro1;
use crate::place::Policy;
use crate::space::{Kind, NAMESPACE_1, NAMESPACE_2, Space};
use pandofs_report::{Axis, Figure};

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// The fixed granularities: each with files as figure 2 has them, and with files that begin at their directory.
fn fixed(quick: bool) -> Vec<Policy> {
    let (depths, widths): (&[u32], &[u32]) = if quick {
        (&[2, 3, 4, 8, 16], &[2, 4, 8, 16, 64])
    } else {
        (&[2, 3, 4, 6, 8, 12, 16], &[1, 2, 4, 8, 16, 64])
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

/// How often servers tell each other what they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// As they do.
    AsLive,
    /// [`OFTEN`] times as often, to see what is lost by hearing late.
    Often,
}

const OFTEN: f64 = 100.0;

/// One for each seed, since one draw of random servers can be lucky.
fn rates(spaces: &[Space], policy: Policy, options: &Options, larger: u32, told: Told) -> Vec<f64> {
    let mut costs = options.scaled_costs();
    costs.cached *= larger;
    if told == Told::Often {
        costs.loads_us /= OFTEN;
    }
    let rates = (0..).zip(spaces).map(|(seed, space)| {
        let seed = options.seed.wrapping_add(seed);
        macro1(space, policy, SERVERS, CLIENTS, costs, seed).rate()
    });
    rates.collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// By how many per cent one is more than the other with the same seed, in the mean, and that mean's standard error.
fn compared(one: &[f64], other: &[f64]) -> (f64, f64) {
    let pairs = one.iter().zip(other);
    let more: Vec<f64> = pairs
        .map(|(one, other)| 100.0 * (one / other - 1.0))
        .collect();
    let middle = mean(&more);
    let spread: f64 = more.iter().map(|value| (value - middle).powi(2)).sum();
    let pairs = more.len() as f64;
    let error = (spread / (pairs - 1.0).max(1.0) / pairs).sqrt();
    (middle, error)
}

/// How many seeds the best of them and the adaptive one are measured with.
const SEEDS: u64 = 8;

/// How many of the fixed granularities are measured again with all seeds, for each name space.
const FINALISTS: usize = 3;

/// The name spaces: of each one for each seed, and by how much they are larger than the two that the caches
/// are made for.
struct Ground {
    spaces: Vec<Space>,
    larger: u32,
}

fn grounds(options: &Options) -> [Ground; 3] {
    let seeds = if options.quick { 1 } else { SEEDS };
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
                let spaces = &ground.spaces[..1];
                mean(&rates(spaces, policy, options, ground.larger, Told::AsLive))
            })
        })
        .collect();
    let all_rates = |policy: Policy, told: Told| {
        [0, 1, 2].map(|at: usize| {
            let ground = &grounds[at];
            rates(&ground.spaces, policy, options, ground.larger, told)
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
    let columns: Vec<(Policy, [Vec<f64>; 3])> = finalists
        .iter()
        .map(|&which| (policies[which], all_rates(policies[which], Told::AsLive)))
        .collect();
    let adaptive = all_rates(Policy::adaptive(), Told::AsLive);
    let often = all_rates(Policy::adaptive(), Told::Often);
    let means = |rates: &[Vec<f64>; 3]| [0, 1, 2].map(|at: usize| mean(&rates[at]));

    let mut figure = Figure::of_categories(
        "adaptive",
        "Adaptive DDG against the best fixed granularities",
        &["Namespace1", "Namespace2", "both side by side"],
        Axis::linear("operations a second, macrobenchmark 1 in whole"),
    );
    figure.add_values("adaptive", &means(&adaptive));
    figure.add_values(
        format!("adaptive, told {OFTEN:.0} times as often"),
        &means(&often),
    );
    for (policy, rates) in &columns {
        figure.add_values(policy.name(), &means(rates));
    }
    figure.note(format!(
        "{} fixed granularities were tried with one seed, those shown and adaptive with {}; {SERVERS} servers, {CLIENTS} \
         clients",
        policies.len(),
        grounds[0].spaces.len()
    ));
    figure.note(
        "\"own\": the files of a directory begin where the directory is, as adaptive has it; the fixed policies begin a new unit \
         on a server that is drawn, adaptive where the parent is as long as that server has no more than its part",
    );
    figure.note(
        "adaptive is the code of a running server: each places by what it has itself, by who gave it something, and by what it \
         was told of the others the last time, twice a second of the modelled time",
    );
    // Against the one with the best mean.
    let against_best = |at: usize| {
        let best = columns
            .iter()
            .max_by(|a, b| mean(&a.1[at]).total_cmp(&mean(&b.1[at])));
        let Some((policy, best)) = best else {
            panic!("there are fixed granularities");
        };
        let (more, error) = compared(&adaptive[at], &best[at]);
        let (more_often, _) = compared(&often[at], &best[at]);
        let seeds = best[at].len();
        let text = format!(
            "{more:+.1} % against {}, standard error {error:.1} over {seeds} seeds; {more_often:+.1} % if servers told each \
             other {OFTEN:.0} times as often",
            policy.name()
        );
        (more, text)
    };
    for (at, ground) in grounds.iter().take(2).enumerate() {
        let (more, text) = against_best(at);
        figure.claim(
            format!(
                "adaptive is within 5 % of the best fixed granularity on {}",
                ground.spaces[0].name
            ),
            more >= -5.0,
            text,
        );
    }
    let (more, text) = against_best(2);
    figure.claim(
        "adaptive is better than every fixed granularity on a mix of both",
        more > 0.0,
        text,
    );
    vec![figure]
}
