//! Algorithms of the walk, and their names.

use std::fmt;
use std::str::FromStr;

/// Ways to split a queue for another rank (the paper's section IV.A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// A uniformly random part of it, at least one item.
    Random,
    /// Half of it, rounded up.
    Equal,
}

/// The paper's algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Centralized (algorithm 1): rank 0 has the queue and hands out one item at a time.
    Cp {
        /// A slave goes on with one of the children that it found and sends the others (section V).
        keep_one: bool,
    },
    /// Distributed queue splitting (algorithm 2): an idle rank asks a random one. With
    /// [`Split::Random`] it is DRQS, with [`Split::Equal`] DEQS.
    Distributed(Split),
    /// PA-DRQS (algorithm 3): ranks ask those on their host; the first of each host asks others.
    Proximity,
    /// H-DRQS (algorithm 4): one rank a host, whose workers share its queue.
    Hybrid(Split),
}

impl Algorithm {
    /// Every algorithm with every variant.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Cp { keep_one: false },
        Algorithm::Cp { keep_one: true },
        Algorithm::Distributed(Split::Random),
        Algorithm::Distributed(Split::Equal),
        Algorithm::Proximity,
        Algorithm::Hybrid(Split::Random),
        Algorithm::Hybrid(Split::Equal),
    ];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Cp { keep_one: false } => "cp",
            Algorithm::Cp { keep_one: true } => "cp-keep-one",
            Algorithm::Distributed(Split::Random) => "drqs",
            Algorithm::Distributed(Split::Equal) => "deqs",
            Algorithm::Proximity => "pa-drqs",
            Algorithm::Hybrid(Split::Random) => "h-drqs",
            Algorithm::Hybrid(Split::Equal) => "h-deqs",
        }
    }

    /// Returns whether several workers may share a rank's queue.
    pub const fn shares_queue(self) -> bool {
        matches!(self, Algorithm::Hybrid(_))
    }

    pub(crate) const fn split(self) -> Split {
        match self {
            Algorithm::Distributed(split) | Algorithm::Hybrid(split) => split,
            Algorithm::Cp { .. } | Algorithm::Proximity => Split::Random,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no algorithm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no algorithm: there are cp, cp-keep-one, drqs, deqs, pa-drqs, h-drqs and h-deqs")]
pub struct UnknownAlgorithm(String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Algorithm, UnknownAlgorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert!("dfs".parse::<Algorithm>().is_err());
    }
}
