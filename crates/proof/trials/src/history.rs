//! Lives of names, and the check of a listing against them.
//!
//! A name's life begins somewhere between the request that made it and its answer, and ends somewhere
//! between the request that removed it and that one's answer. A listing takes a while too. A name that
//! was there from before it began until after it ended must be in it, one that was not there at any time
//! in it may not, and between the two it is free to show a name or not; but no name twice.

use pandofs_types::{Ino, Name};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The clock of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

/// Time on a run's clock.
pub(crate) type At = Duration;

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now(self) -> At {
        self.0.elapsed()
    }
}

/// From a request until its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub begun: At,
    pub ended: At,
}

/// A name, from its making to its removal.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub ino: Ino,
    pub made: Span,
    pub removed: Option<Span>,
}

/// The lives of each name.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    lives: HashMap<Name, Vec<Life>>,
}

/// One line of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub name: Name,
    pub ino: Ino,
    /// Attributes came along, or were not asked for.
    pub is_complete: bool,
}

/// A listing from the first entry to the last.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub span: Span,
    pub entries: Vec<Listed>,
}

impl History {
    pub(crate) fn add(&mut self, name: Name, life: Life) {
        self.lives.entry(name).or_default().push(life);
    }

    /// Names that were there throughout.
    pub(crate) fn standing_during(&self, span: Span) -> impl Iterator<Item = (&Name, &Life)> {
        self.lives.iter().filter_map(move |(name, lives)| {
            let life = lives.iter().find(|life| life.stands_throughout(span))?;
            Some((name, life))
        })
    }

    /// Faults of a listing, a sentence each.
    pub(crate) fn judge(&self, listing: &Listing) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut seen: HashMap<&Name, &Listed> = HashMap::new();
        for listed in &listing.entries {
            let name = &listed.name;
            if let Some(before) = seen.insert(name, listed) {
                wrong.push(format!(
                    "{name} is listed twice, as inode {} and as inode {}",
                    before.ino, listed.ino
                ));
            }
            let Some(lives) = self.lives.get(name) else {
                wrong.push(format!("{name} is listed and never existed"));
                continue;
            };
            let mut possible = lives.iter().filter(|life| life.touches(listing.span));
            match possible.clone().next() {
                None => wrong.push(format!("{name} is listed and was not there at the time")),
                Some(_) if possible.any(|life| life.ino == listed.ino) => {}
                Some(life) => wrong.push(format!(
                    "{name} is listed as inode {} and was inode {}",
                    listed.ino, life.ino
                )),
            }
        }
        for (name, life) in self.standing_during(listing.span) {
            match seen.get(name) {
                None => wrong.push(format!(
                    "{name} (inode {}) is missing and was there from {:?} on, until {:?}",
                    life.ino, life.made, life.removed
                )),
                Some(listed) if !listed.is_complete => {
                    wrong.push(format!("{name} is listed without its attributes"));
                }
                Some(_) => {}
            }
        }
        wrong
    }
}

impl Life {
    fn stands_throughout(&self, span: Span) -> bool {
        self.made.ended <= span.begun
            && self
                .removed
                .is_none_or(|removed| removed.begun >= span.ended)
    }

    /// Returns whether it may have been there at some time within.
    fn touches(&self, span: Span) -> bool {
        self.made.begun <= span.ended
            && self
                .removed
                .is_none_or(|removed| removed.ended >= span.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> At {
        Duration::from_millis(ms)
    }

    fn span(begun: u64, ended: u64) -> Span {
        Span {
            begun: at(begun),
            ended: at(ended),
        }
    }

    fn history(lives: &[(&str, u64, Span, Option<Span>)]) -> History {
        let mut history = History::default();
        for &(name, ino, made, removed) in lives {
            history.add(
                Name::new(name.as_bytes()).unwrap(),
                Life {
                    ino: Ino(ino),
                    made,
                    removed,
                },
            );
        }
        history
    }

    /// Verdict on a listing from 100 to 200.
    fn judge(history: &History, entries: &[(&str, u64)]) -> Vec<String> {
        history.judge(&Listing {
            span: span(100, 200),
            entries: entries
                .iter()
                .map(|&(name, ino)| Listed {
                    name: Name::new(name.as_bytes()).unwrap(),
                    ino: Ino(ino),
                    is_complete: true,
                })
                .collect(),
        })
    }

    #[test]
    fn what_stood_throughout_is_there_once() {
        let history = history(&[
            ("a", 1, span(0, 1), None),
            ("b", 2, span(99, 100), Some(span(200, 201))),
        ]);
        assert_eq!(judge(&history, &[("a", 1), ("b", 2)]), Vec::<String>::new());
        let wrong = judge(&history, &[("a", 1)]);
        assert!(
            wrong[0].starts_with("b (inode 0.2) is missing"),
            "{wrong:?}"
        );
        let wrong = judge(&history, &[("a", 1), ("b", 2), ("a", 1)]);
        assert!(wrong[0].starts_with("a is listed twice"), "{wrong:?}");
        let wrong = judge(&history, &[("a", 2), ("b", 2)]);
        assert_eq!(wrong, ["a is listed as inode 0.2 and was inode 0.1"]);
    }

    #[test]
    fn what_comes_or_goes_meanwhile_may_be_there() {
        let history = history(&[
            ("late", 1, span(199, 250), None),
            ("early", 2, span(0, 1), Some(span(50, 101))),
            ("within", 3, span(120, 130), Some(span(140, 150))),
        ]);
        assert_eq!(judge(&history, &[]), Vec::<String>::new());
        let all = [("late", 1), ("early", 2), ("within", 3)];
        assert_eq!(judge(&history, &all), Vec::<String>::new());
        let twice = judge(&history, &[("within", 3), ("within", 3)]);
        assert_eq!(twice.len(), 1, "{twice:?}");
    }

    #[test]
    fn what_was_not_there_may_not_be_listed() {
        let history = history(&[
            ("gone", 1, span(0, 1), Some(span(50, 99))),
            ("to come", 2, span(201, 202), None),
        ]);
        for (name, ino) in [("gone", 1), ("to come", 2)] {
            let wrong = judge(&history, &[(name, ino)]);
            assert_eq!(
                wrong,
                [format!("{name} is listed and was not there at the time")]
            );
        }
        let wrong = judge(&history, &[("never", 9)]);
        assert_eq!(wrong, ["never is listed and never existed"]);
    }

    #[test]
    fn a_name_may_come_back_as_another_inode() {
        let history = history(&[
            ("a", 1, span(0, 1), Some(span(120, 130))),
            ("a", 2, span(140, 150), None),
        ]);
        for entries in [&[][..], &[("a", 1)], &[("a", 2)]] {
            assert_eq!(judge(&history, entries), Vec::<String>::new());
        }
        assert_eq!(judge(&history, &[("a", 3)]).len(), 1);
    }

    #[test]
    fn attributes_of_what_stands_come_along() {
        let history = history(&[("a", 1, span(0, 1), None)]);
        let listing = Listing {
            span: span(100, 200),
            entries: vec![Listed {
                name: Name::new(b"a").unwrap(),
                ino: Ino(1),
                is_complete: false,
            }],
        };
        assert_eq!(
            history.judge(&listing),
            ["a is listed without its attributes"]
        );
    }
}
