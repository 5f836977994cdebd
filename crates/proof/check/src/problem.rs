//! Problems that oracles report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The thing it is about, the same each time it is found.
    pub subject: String,
    /// The fault, figures included.
    pub text: String,
    /// How long it may last in a sound file system whose servers run, after a crash say: until then it
    /// is none. In the data of stopped servers it may be forever.
    pub patience: Duration,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.oracle, self.subject, self.text)
    }
}

/// Result of several checks of a file system in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    /// Found each time, in the same words.
    pub problems: Vec<Problem>,
    /// Found each time about the same thing, but in other words: it changed all the while, and whether
    /// something is wrong with it is not known.
    pub changing: Vec<Problem>,
}

/// Returns the problems that were found every time. An operation under way looks like a problem in
/// one dump, and not in the next: created at its first shard and not yet at its second, copied and
/// not yet deleted.
pub fn lasting(checks: &[Vec<Problem>]) -> Lasting {
    let Some((last, earlier)) = checks.split_last() else {
        return Lasting::default();
    };
    let same: Vec<BTreeSet<&Problem>> =
        earlier.iter().map(|check| check.iter().collect()).collect();
    let about: Vec<BTreeMap<(&str, &str), &Problem>> = earlier
        .iter()
        .map(|check| check.iter().map(|found| (key(found), found)).collect())
        .collect();
    let mut lasting = Lasting::default();
    for problem in last {
        if same.iter().all(|check| check.contains(problem)) {
            lasting.problems.push(problem.clone());
        } else if about.iter().all(|check| check.contains_key(&key(problem))) {
            lasting.changing.push(problem.clone());
        }
    }
    lasting
}

fn key(problem: &Problem) -> (&str, &str) {
    (problem.oracle, &problem.subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(subject: &str, text: &str) -> Problem {
        Problem {
            oracle: "links",
            subject: subject.into(),
            text: text.into(),
            patience: Duration::ZERO,
        }
    }

    #[test]
    fn only_what_is_found_each_time_lasts() {
        let checks = [
            vec![problem("a", "1"), problem("b", "1"), problem("c", "1")],
            vec![problem("a", "1"), problem("b", "2"), problem("d", "1")],
        ];
        let lasting = lasting(&checks);
        assert_eq!(lasting.problems, [problem("a", "1")]);
        assert_eq!(lasting.changing, [problem("b", "2")]);
    }

    #[test]
    fn one_check_is_believed() {
        assert_eq!(lasting(&[vec![problem("a", "1")]]).problems.len(), 1);
        assert_eq!(lasting(&[]), Lasting::default());
    }
}
