//! Draws from distributions, the same on every machine.
//!
//! Elementary functions come from `libm`, not from the machine's C library.

use pandofs_walk::Rng;

/// Uniform in (0, 1).
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// Standard normal, by the polar method of Marsaglia.
fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * libm::sqrt(-2.0 * libm::log(square) / square);
        }
    }
}

/// Gamma with this shape and scale 1: Marsaglia and Tsang, "A Simple Method for Generating Gamma
/// Variables" (2000), with their boost for shapes below 1.
fn gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape < 1.0 {
        let boost = libm::pow(unit(rng), 1.0 / shape);
        return gamma(shape + 1.0, rng) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        if v > 0.0 && libm::log(unit(rng)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

pub(crate) fn beta(a: f64, b: f64, rng: &mut Rng) -> f64 {
    let (x, y) = (gamma(a, rng), gamma(b, rng));
    x / (x + y)
}

/// Successes of this many trials. Above [`EXACT_TRIALS`] the mean, rounded up or down by chance:
/// the relative error is below that of the probability drawn before it.
pub(crate) fn binomial(trials: u64, probability: f64, rng: &mut Rng) -> u64 {
    if trials <= EXACT_TRIALS {
        return (0..trials).filter(|_| unit(rng) < probability).count() as u64;
    }
    let mean = trials as f64 * probability;
    ((mean + unit(rng)) as u64).min(trials)
}

const EXACT_TRIALS: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = Rng::new(5);
        let draws = 40_000;
        for (a, b) in [(2.0 / 3.0, 1.0), (0.5, 4.0), (3.0, 2.0)] {
            let values: Vec<f64> = (0..draws).map(|_| beta(a, b, &mut rng)).collect();
            let mean = values.iter().sum::<f64>() / f64::from(draws);
            let square = values.iter().map(|x| x * x).sum::<f64>() / f64::from(draws);
            let variance = square - mean * mean;
            let expected = a * b / ((a + b) * (a + b) * (a + b + 1.0));
            assert!((mean - a / (a + b)).abs() < 0.01, "{a} {b}: {mean}");
            assert!((variance - expected).abs() < 0.01, "{a} {b}: {variance}");
        }
        for trials in [10, 1_000] {
            let sum: u64 = (0..draws).map(|_| binomial(trials, 0.3, &mut rng)).sum();
            let mean = sum as f64 / f64::from(draws);
            assert!(
                (mean / trials as f64 - 0.3).abs() < 0.01,
                "{trials}: {mean}"
            );
        }
    }
}
