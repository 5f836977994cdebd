//! Comparison of a subject's answer with those that the model allows.

use crate::model::{Expected, ExpectedStat, NodeId, Stamp, Stamps};
use crate::op::{Answer, Failure, Outcome, Stat};
use crate::subject::Traits;
use pandofs_types::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Memory of a comparison: when operations ran, and which inode number is which node's.
#[derive(Debug)]
pub struct Comparer {
    traits: Traits,
    /// The subject's clock before and after each operation, by the operation's number.
    ran: Vec<(Time, Time)>,
    inos: HashMap<NodeId, u64>,
    nodes: HashMap<u64, NodeId>,
}

impl Comparer {
    /// Has compared nothing yet.
    pub fn new(traits: Traits) -> Comparer {
        Comparer {
            traits,
            ran: Vec::new(),
            inos: HashMap::new(),
            nodes: HashMap::new(),
        }
    }

    /// The number that the next operation gets.
    pub fn next_number(&self) -> usize {
        self.ran.len()
    }

    /// An operation ran between these two readings of the subject's clock.
    pub fn ran(&mut self, before: Time, after: Time) {
        self.ran.push((before, after));
    }

    /// Compares the answer to the operation that ran last.
    ///
    /// # Errors
    /// The difference between the two.
    pub fn compare(&mut self, expected: &Expected, got: &Outcome) -> Result<(), String> {
        match (expected, got) {
            (Expected::Unspecified, _) => unreachable!("what is not specified is not run"),
            (_, Err(Failure::Other(text))) => Err(format!("no answer of a file system: {text}")),
            (Expected::Error(errors), Err(Failure::Fs(error))) => {
                if errors.contains(error) {
                    Ok(())
                } else {
                    Err(format!("failed with {error:?}, expected one of {errors:?}"))
                }
            }
            (Expected::Error(errors), Ok(answer)) => Err(format!(
                "answered {answer:?}, expected one of the errors {errors:?}"
            )),
            (Expected::NothingOr(errors), Err(Failure::Fs(error))) if errors.contains(error) => {
                Ok(())
            }
            (_, Err(Failure::Fs(error))) => {
                Err(format!("failed with {error:?}, expected {expected:?}"))
            }
            (_, Ok(answer)) => self.compare_answer(expected, answer),
        }
    }

    fn compare_answer(&mut self, expected: &Expected, answer: &Answer) -> Result<(), String> {
        let same = match (expected, answer) {
            (Expected::Done | Expected::NothingOr(_), Answer::Done) => true,
            (Expected::Stat(expected), Answer::Stat(stat)) => {
                return self.compare_stat(expected, stat);
            }
            (Expected::Entries(expected), Answer::Entries(entries)) => {
                let got: BTreeMap<_, _> = entries.iter().cloned().collect();
                got.len() == entries.len() && got == *expected
            }
            (Expected::Names(expected), Answer::Names(names)) => {
                let got: BTreeSet<_> = names.iter().cloned().collect();
                got.len() == names.len() && got == *expected
            }
            (Expected::Link(expected), Answer::Link(got))
            | (Expected::Value(expected), Answer::Value(got)) => expected == got,
            (Expected::Data(expected), Answer::Data(got)) => {
                return compare_data(expected, got);
            }
            (Expected::Found { from, by, or_none }, Answer::Found(found)) => match found {
                Some(found) => by.is_some_and(|by| (*from..=by).contains(found)),
                None => *or_none,
            },
            _ => false,
        };
        if same {
            Ok(())
        } else {
            Err(format!("answered {answer:?}, expected {expected:?}"))
        }
    }

    fn compare_stat(&mut self, expected: &ExpectedStat, got: &Stat) -> Result<(), String> {
        let values = [
            ("mode", u64::from(expected.mode), u64::from(got.mode)),
            ("nlink", u64::from(expected.nlink), u64::from(got.nlink)),
            ("uid", u64::from(expected.uid), u64::from(got.uid)),
            ("gid", u64::from(expected.gid), u64::from(got.gid)),
            ("rdev", u64::from(expected.rdev), u64::from(got.rdev)),
            ("size", expected.size.unwrap_or(got.size), got.size),
        ];
        if expected.kind != got.kind {
            return Err(format!(
                "it is a {:?}, expected a {:?}",
                got.kind, expected.kind
            ));
        }
        for (what, expected, value) in values {
            if expected != value {
                let octal = if what == "mode" {
                    format!(" ({value:#o}, expected {expected:#o})")
                } else {
                    String::new()
                };
                return Err(format!(
                    "{what} is {value}, expected {expected}{octal} in {got:?}"
                ));
            }
        }
        let times = [
            ("atime", &expected.atime, got.atime),
            ("mtime", &expected.mtime, got.mtime),
            ("ctime", &expected.ctime, got.ctime),
        ];
        for (what, expected, time) in times {
            self.compare_time(expected, time)
                .map_err(|text| format!("{what} {text}"))?;
        }
        self.compare_ino(expected.node, got.ino)
    }

    fn compare_time(&self, expected: &Stamps, got: Time) -> Result<(), String> {
        let slack = self.traits.clock_slack.as_nanos() as i64;
        let within = |from: Time, to: Time| from.0 - slack <= got.0 && got.0 <= to.0 + slack;
        let last = self.ran.last().expect("an operation ran").1;
        let fits = |stamp: &Stamp| match *stamp {
            Stamp::At(time) => time == got,
            Stamp::During(number) => within(self.ran[number].0, self.ran[number].1),
            Stamp::Since(number) => within(self.ran[number].0, last),
        };
        if expected.0.iter().any(fits) {
            return Ok(());
        }
        let spelled: Vec<String> = expected
            .0
            .iter()
            .map(|stamp| match *stamp {
                Stamp::At(time) => format!("{}", time.0),
                Stamp::During(number) => {
                    let (from, to) = self.ran[number];
                    format!("{} to {} (operation {number})", from.0, to.0)
                }
                Stamp::Since(number) => {
                    format!("since {} (operation {number})", self.ran[number].0.0)
                }
            })
            .collect();
        Err(format!("is {}, expected {}", got.0, spelled.join(" or ")))
    }

    fn compare_ino(&mut self, node: NodeId, ino: u64) -> Result<(), String> {
        match self.inos.get(&node) {
            Some(&known) if known != ino => {
                return Err(format!("its inode number was {known} and is {ino} now"));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if !self.traits.inos_are_reused
            && let Some(other) = self.nodes.get(&ino)
        {
            return Err(format!(
                "{node:?} has inode number {ino}, which {other:?} had"
            ));
        }
        self.inos.insert(node, ino);
        self.nodes.insert(ino, node);
        Ok(())
    }
}

fn compare_data(expected: &[u8], got: &[u8]) -> Result<(), String> {
    if expected.len() != got.len() {
        return Err(format!(
            "read {} bytes, expected {}",
            got.len(),
            expected.len()
        ));
    }
    match expected
        .iter()
        .zip(got)
        .position(|(expected, got)| expected != got)
    {
        None => Ok(()),
        Some(at) => {
            let differing = expected.iter().zip(got).filter(|(a, b)| a != b).count();
            Err(format!(
                "byte {at} of what was read is {}, expected {}; {differing} of {} bytes differ",
                got[at],
                expected[at],
                got.len()
            ))
        }
    }
}
