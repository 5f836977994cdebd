//! Several measurements of one thing.

use std::fmt;

/// The middle one, the least and the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Of an even number of them the lower one of the two in the middle; of none all is not a
    /// number.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Spread {
            median: at(last / 2),
            least: at(0),
            most: at(last),
        }
    }

    /// Of what was measured side by side: the first of each pair divided by the second.
    pub(crate) fn of_ratios(over: &[f64], under: &[f64]) -> Spread {
        let pairs = over.iter().zip(under);
        Spread::of(pairs.map(|(over, under)| over / under).collect())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} ({:.2} to {:.2})",
            self.median, self.least, self.most
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_told_with_both_ends() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.5]).to_string(),
            "2.50 (1.00 to 3.00)"
        );
        assert_eq!(
            Spread::of_ratios(&[4.0, 9.0], &[2.0, 3.0]).to_string(),
            "2.00 (2.00 to 3.00)"
        );
        assert!(Spread::of(vec![]).median.is_nan());
    }
}
