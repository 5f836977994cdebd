//! Adaptive DDG against every fixed granularity, in each order in which a name space may be made.

use super::Options;
use crate::macro1::{Order, macro1};
use crate::place::Policy;
use crate::report::{Axis, Figure};
use crate::space::{Kind, NAMESPACE_1, NAMESPACE_2, Space};

const SERVERS: usize = 16;
const CLIENTS: usize = 32;

/// The depths and widths that are tried. The least and the largest depth are such that the best is
/// between them: no directory is deeper than the largest, and with the least every second level
/// begins new units.
fn tried(quick: bool) -> (&'static [u32], &'static [u32]) {
    if quick {
        (&[2, 4, 8, 16, 64], &[1, 2, 4, 8, 16, 64])
    } else {
        (&[2, 3, 4, 8, 16, 64], &[1, 2, 4, 8, 16, 64])
    }
}

/// Files: no directory of the name spaces has so many.
const UNBOUNDED_FILES: u32 = 8_192;
/// The default of `pandofs format`, with files where their directory is.
const SHIPPED: Policy = Policy::DdgOwnFiles {
    dir_depth: 4,
    dir_width: 16,
    file_width: UNBOUNDED_FILES,
};

/// The fixed granularities: with files that begin at their directory, and some as figure 2 has
/// them, or with less files in a unit.
fn fixed(quick: bool) -> Vec<Policy> {
    let (depths, widths) = tried(quick);
    let mut all = Vec::new();
    for &dir_depth in depths {
        for &dir_width in widths {
            all.push(Policy::DdgOwnFiles {
                dir_depth,
                dir_width,
                file_width: UNBOUNDED_FILES,
            });
        }
    }
    all.push(Policy::DdgOwnFiles {
        dir_depth: 4,
        dir_width: 16,
        file_width: 2_048,
    });
    all.push(Policy::Ddg {
        dir_depth: 4,
        dir_width: 16,
        file_width: UNBOUNDED_FILES,
    });
    all
}

/// Returns whether it is at the end of what was tried, so that another might be better. (Beyond the
/// largest depth there is nothing, and below the least width neither.)
fn is_at_the_edge(policy: Policy, quick: bool) -> bool {
    let (depths, widths) = tried(quick);
    match policy {
        Policy::DdgOwnFiles {
            dir_depth,
            dir_width,
            ..
        } => dir_depth == depths[0] || dir_width == widths[widths.len() - 1],
        _ => false,
    }
}

/// The seeds of these figures are this much larger than the one that was asked for: with small ones
/// the policy was made.
const HELD_OUT: u64 = 200;

/// Returns how many seeds the best of them and the adaptive one are measured with.
fn seeds(options: &Options) -> Vec<u64> {
    let count = if options.quick { 2 } else { 5 };
    let first = options.seed.wrapping_add(HELD_OUT);
    (0..count).map(|more| first.wrapping_add(more)).collect()
}

/// Number of the fixed granularities that are measured again with all seeds and in all orders, for
/// each name space.
const FINALISTS: usize = 3;

/// Of one kind of name space one for each seed, and by how much they are larger than the two that
/// the caches are made for.
struct Ground {
    spaces: Vec<Space>,
    seeds: Vec<u64>,
    larger: u32,
}

impl Ground {
    /// Operations a second, for each of the first seeds, since one draw of random servers can be
    /// lucky.
    fn rates(&self, first: usize, policy: Policy, order: Order, options: &Options) -> Vec<f64> {
        let mut costs = options.scaled_costs();
        costs.cached *= self.larger;
        let each = self.seeds.iter().zip(&self.spaces).take(first);
        each.map(|(&seed, space)| {
            macro1(space, policy, (SERVERS, CLIENTS), order, costs, seed).rate()
        })
        .collect()
    }
}

fn grounds(options: &Options) -> [Ground; 3] {
    let make = |kind: Kind| -> Vec<Space> {
        let kind = kind.scaled_down(options.divisor());
        let each = seeds(options).into_iter();
        each.map(|seed| Space::generate(kind, seed)).collect()
    };
    let (first, second) = (make(NAMESPACE_1), make(NAMESPACE_2));
    let mixed = first
        .iter()
        .zip(&second)
        .map(|(one, other)| Space::beside(&[one.clone(), other.clone()], "mix"))
        .collect();
    let ground = |spaces, larger| Ground {
        spaces,
        seeds: seeds(options),
        larger,
    };
    [ground(first, 1), ground(second, 1), ground(mixed, 2)]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// By how many per cent one is more than another with the same seed.
struct Compared {
    /// In the mean.
    mean: f64,
    /// That mean's standard error.
    error: f64,
    least: f64,
    most: f64,
}

impl Compared {
    fn of(one: &[f64], other: &[f64]) -> Compared {
        let pairs = one.iter().zip(other);
        let more: Vec<f64> = pairs
            .map(|(one, other)| 100.0 * (one / other - 1.0))
            .collect();
        let mean = mean(&more);
        let spread: f64 = more.iter().map(|value| (value - mean).powi(2)).sum();
        let pairs = more.len() as f64;
        Compared {
            mean,
            error: (spread / (pairs - 1.0).max(1.0) / pairs).sqrt(),
            least: more.iter().copied().fold(f64::INFINITY, f64::min),
            most: more.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Returns whether it is that much more whatever the seed: by two standard errors, as a few
    /// seeds say little.
    fn is_above(&self, bound: f64) -> bool {
        self.mean - 2.0 * self.error > bound
    }
}

/// Returns those worth a measurement with all seeds: the best of each name space with one seed, and
/// the shipped one. (The best of many single draws is a lucky one.) Where fixed granularities put
/// things hardly hangs on the order.
fn finalists(grounds: &[Ground; 3], options: &Options) -> Vec<Policy> {
    let policies = fixed(options.quick);
    let mut finalists = vec![SHIPPED];
    for ground in grounds {
        let rate = |policy| mean(&ground.rates(1, policy, Order::DirectoriesFirst, options));
        let mut rates: Vec<(f64, Policy)> = policies
            .iter()
            .map(|&policy| (rate(policy), policy))
            .collect();
        rates.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, policy) in rates.into_iter().take(FINALISTS) {
            if !finalists.contains(&policy) {
                finalists.push(policy);
            }
        }
    }
    finalists
}

pub(crate) fn figures(options: &Options) -> Vec<Figure> {
    let grounds = grounds(options);
    let finalists = finalists(&grounds, options);
    Order::ALL
        .iter()
        .map(|&order| of_order(order, &grounds, &finalists, options))
        .collect()
}

fn id(order: Order) -> &'static str {
    match order {
        Order::OneClient => "adaptive",
        Order::DirectoriesFirst => "adaptive-directories-first",
        Order::FilesAsTheyCome => "adaptive-files-as-they-come",
    }
}

fn of_order(
    order: Order,
    grounds: &[Ground; 3],
    finalists: &[Policy],
    options: &Options,
) -> Figure {
    let all_rates = |policy: Policy| -> [Vec<f64>; 3] {
        [0, 1, 2].map(|at: usize| grounds[at].rates(usize::MAX, policy, order, options))
    };
    let means = |rates: &[Vec<f64>; 3]| [0, 1, 2].map(|at: usize| mean(&rates[at]));
    let adaptive = all_rates(Policy::adaptive());
    let fixed: Vec<(Policy, [Vec<f64>; 3])> = finalists
        .iter()
        .map(|&policy| (policy, all_rates(policy)))
        .collect();

    let mut figure = Figure::of_categories(
        id(order),
        format!(
            "Adaptive DDG against the best fixed granularities, {}",
            order.name()
        ),
        &["Namespace1", "Namespace2", "both side by side"],
        Axis::linear("operations a second, macrobenchmark 1 in whole"),
    );
    figure.add_values("adaptive", &means(&adaptive));
    for (policy, rates) in &fixed {
        figure.add_values(policy.name(), &means(rates));
    }
    figure.note(format!(
        "{} fixed granularities were tried with one seed, those shown and adaptive with {}; {SERVERS} servers, {CLIENTS} \
         clients",
        self::fixed(options.quick).len(),
        grounds[0].seeds.len()
    ));
    figure.note(
        "\"own\": the files of a directory begin where the directory is, as adaptive has it; the fixed policies begin a new unit \
         on a server that is drawn",
    );
    figure.note(
        "adaptive is the code of a running server: each places by what it has itself, by who gave it something, and by what it \
         was told of the others the last time, twice a second of the modelled time",
    );
    // Against the one with the best mean.
    let best = |at: usize| {
        let best = fixed
            .iter()
            .max_by(|a, b| mean(&a.1[at]).total_cmp(&mean(&b.1[at])));
        let Some((policy, rates)) = best else {
            panic!("there are fixed granularities");
        };
        (*policy, &rates[at])
    };
    let against_best = |at: usize| {
        let (policy, rates) = best(at);
        let more = Compared::of(&adaptive[at], rates);
        let text = format!(
            "{:+.1} % against {}, standard error {:.1}, {:+.1} to {:+.1} % over {} seeds",
            more.mean,
            policy.name(),
            more.error,
            more.least,
            more.most,
            rates.len()
        );
        (more, text)
    };
    for (at, ground) in grounds.iter().take(2).enumerate() {
        let (more, text) = against_best(at);
        figure.claim(
            format!(
                "adaptive is within 5 % of the best fixed granularity on {}, {}",
                ground.spaces[0].name,
                order.name()
            ),
            more.is_above(-5.0),
            text,
        );
    }
    let (more, text) = against_best(2);
    figure.claim(
        format!(
            "adaptive is better than every fixed granularity on a mix of both, {}",
            order.name()
        ),
        more.is_above(0.0),
        text,
    );
    let all_best = [0, 1, 2].map(|at: usize| best(at).0);
    let names = all_best.map(Policy::name);
    figure.claim(
        format!(
            "the best fixed granularities are inside the range that was tried, {}",
            order.name()
        ),
        !all_best
            .iter()
            .any(|&policy| is_at_the_edge(policy, options.quick)),
        format!("{}, {} and {}", names[0], names[1], names[2]),
    );
    figure
}
