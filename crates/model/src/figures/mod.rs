//! The figures, one file for each paper or question.

pub mod adaptive;
pub mod ddg;
pub mod giga;
pub mod internet;
pub mod live;
pub mod orangefs;

use crate::costs::Costs;

/// How the figures are to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    pub seed: u64,
    pub costs: Costs,
    /// Smaller name spaces and directories and fewer points: seconds instead of minutes. Caches and thresholds
    /// shrink alike; figures are rougher.
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

/// The values of a series that belong to these `x`.
fn zip(xs: &[u32], ys: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    xs.iter().map(|&x| f64::from(x)).zip(ys).collect()
}
