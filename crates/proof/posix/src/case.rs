//! Cases, and their outcomes.

use crate::errno::Shown;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::path::PathBuf;

/// One promise of the standard or of a man page, and how it is put to the test.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `family.what`, unique.
    pub name: &'static str,
    /// Source of the promise: a function's page in POSIX.1-2017, written `name()`, or a man page of
    /// Linux, written `name(2)`, with its section.
    pub clause: &'static str,
    /// Runs as root with umask 0, in a process of its own, in a new directory that is its working
    /// directory.
    pub run: fn(&Place) -> Outcome,
}

impl Case {
    pub(crate) const fn new(
        name: &'static str,
        clause: &'static str,
        run: fn(&Place) -> Outcome,
    ) -> Case {
        Case { name, clause, run }
    }
}

/// Place in which a case runs.
pub(crate) struct Place {
    /// The working directory's absolute path.
    pub here: PathBuf,
    /// The same directory on the second mount; only cases of the family `two` run with one.
    pub there: PathBuf,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// Something else was found than promised.
    Wrong {
        call: String,
        expected: String,
        found: String,
    },
    /// The file system does not have what the man page leaves it free not to have. That is to be
    /// known of it.
    NotOffered(String),
}

impl Failure {
    pub(crate) fn wrong(
        call: impl Into<String>,
        expected: impl Into<String>,
        found: String,
    ) -> Failure {
        Failure::Wrong {
            call: call.into(),
            expected: expected.into(),
            found,
        }
    }
}

/// A call that was made: what it was, and what it answered.
#[must_use]
pub(crate) struct Call<T> {
    text: String,
    result: Result<T, Errno>,
}

impl<T> Call<T> {
    pub(crate) fn new(name: &str, arguments: &[&dyn Debug], result: Result<T, Errno>) -> Call<T> {
        let arguments: Vec<String> = arguments.iter().map(shortened).collect();
        let text = format!("{name}({})", arguments.join(", "));
        Call { text, result }
    }

    /// Returns the result: the call had to succeed.
    pub(crate) fn ok(self) -> Outcome<T> {
        self.result
            .map_err(|errno| Failure::wrong(self.text, "success", Shown(errno).to_string()))
    }

    /// It had to fail with just this.
    pub(crate) fn fails(self, expected: Errno) -> Outcome {
        self.fails_with_one_of(&[expected])
    }

    /// Accepts any of several errors, where the standard leaves a choice.
    pub(crate) fn fails_with_one_of(self, expected: &[Errno]) -> Outcome {
        let found = match self.result {
            Err(errno) if expected.contains(&errno) => return Ok(()),
            Err(errno) => Shown(errno).to_string(),
            Ok(_) => "success".to_owned(),
        };
        let expected: Vec<_> = expected.iter().map(|it| Shown(*it).to_string()).collect();
        Err(Failure::wrong(self.text, expected.join(" or "), found))
    }

    /// Returns whether it failed, with just this, or succeeded, where that depends on who came
    /// first.
    pub(crate) fn may_fail(self, expected: Errno) -> Outcome<bool> {
        match self.result {
            Ok(_) => Ok(false),
            result => Call {
                text: self.text,
                result,
            }
            .fails(expected)
            .map(|()| true),
        }
    }

    /// For what a man page leaves a file system free not to have: `NotOffered` if it fails with one
    /// of these.
    pub(crate) fn ok_or_not_offered(self, errors: &[Errno]) -> Outcome<T> {
        match self.result {
            Err(errno) if errors.contains(&errno) => Err(Failure::NotOffered(format!(
                "{}: {}",
                self.text,
                Shown(errno)
            ))),
            result => Call {
                text: self.text,
                result,
            }
            .ok(),
        }
    }

    /// Either is allowed: the answer goes on deciding.
    pub(crate) fn result(self) -> Result<T, Errno> {
        self.result
    }
}

impl<T: PartialEq + Debug> Call<T> {
    /// It had to give just this.
    pub(crate) fn gives(self, expected: T) -> Outcome {
        let text = self.text.clone();
        let found = self.ok()?;
        same(&text, found, expected)
    }
}

impl<T: PartialEq + Debug> Call<T> {
    /// It had to succeed if `allowed`, and else to fail with the error.
    pub(crate) fn allowed(self, allowed: bool, otherwise: Errno) -> Outcome {
        if allowed {
            self.ok().map(drop)
        } else {
            self.fails(otherwise)
        }
    }
}

/// Two values had to be equal.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure::wrong(what, shortened(expected), shortened(found)))
}

/// Something had to be so; `found` says what was found instead.
pub(crate) fn holds(what: &str, is_so: bool, expected: &str, found: impl Debug) -> Outcome {
    if is_so {
        return Ok(());
    }
    Err(Failure::wrong(what, expected, shortened(found)))
}

/// Bytes of a value that are shown.
const MAX_SHOWN_BYTES: usize = 160;

fn shortened(value: impl Debug) -> String {
    let text = format!("{value:?}");
    if text.len() <= MAX_SHOWN_BYTES {
        return text;
    }
    let end = (0..=MAX_SHOWN_BYTES)
        .rev()
        .find(|at| text.is_char_boundary(*at));
    format!("{}… ({} bytes)", &text[..end.unwrap_or(0)], text.len())
}
