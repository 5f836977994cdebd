//! The figures, one file for each paper or question.

pub(crate) mod adaptive;
pub(crate) mod ddg;
pub(crate) mod giga;
pub(crate) mod internet;
pub(crate) mod live;
pub(crate) mod orangefs;

use crate::costs::Costs;

/// Options of the figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// One seed gives one set of figures.
    pub seed: u64,
    /// Times of processor, network and disk.
    pub costs: Costs,
    /// Smaller name spaces and directories and fewer points: seconds instead of minutes. Caches and
    /// thresholds shrink alike; figures are rougher.
    pub quick: bool,
}

impl Options {
    /// Name spaces and caches are smaller by this factor.
    fn divisor(&self) -> u32 {
        if self.quick { 8 } else { 1 }
    }

    /// The costs with caches for that.
    fn scaled_costs(&self) -> Costs {
        self.costs.scaled_down(self.divisor())
    }
}

/// A ratio as people say it.
fn times(ratio: f64) -> String {
    if ratio >= 10.0 {
        format!("{ratio:.0} times")
    } else {
        format!("{ratio:.2} times")
    }
}

/// "from to", as people say it; one of them where they are the same.
fn from_to(values: &[f64]) -> String {
    let (least, most) = range(values);
    if least == most {
        return times(least);
    }
    format!("{} to {}", times(least), times(most))
}

/// The least and the most.
fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// Returns whether all are from the first to the last number that a paper gives.
fn within(values: &[f64], least: f64, most: f64) -> bool {
    values.iter().all(|value| (least..=most).contains(value))
}

/// Returns whether what is gained is half to twice what a paper says: 1.15 of it is a gain of 0.15.
fn gains(ratio: f64, paper: f64) -> bool {
    let gain = (ratio - 1.0) / (paper - 1.0);
    (0.5..=2.0).contains(&gain)
}

/// The values of a series that belong to these `x`.
fn zip(xs: &[u32], ys: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    xs.iter().map(|&x| f64::from(x)).zip(ys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_kept_by_all_or_not() {
        assert!(within(&[1.4, 3.0, 7.0], 1.4, 7.0));
        assert!(!within(&[1.39, 3.0], 1.4, 7.0));
        assert!(!within(&[1.5, 7.1], 1.4, 7.0));
        assert_eq!(range(&[3.0, 1.0, 2.0]), (1.0, 3.0));
        assert_eq!(from_to(&[3.0, 12.0]), "3.00 times to 12 times");
        assert_eq!(from_to(&[3.0]), "3.00 times");
    }

    #[test]
    fn a_gain_of_half_to_twice_the_papers_is_the_papers() {
        for (ratio, expected) in [(1.07, false), (1.08, true), (1.29, true), (1.31, false)] {
            assert_eq!(gains(ratio, 1.15), expected, "{ratio}");
        }
        assert!(!gains(0.9, 1.15));
    }
}
