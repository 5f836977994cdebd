//! Outcomes of a tool.

/// Outcome of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done.
    Done,
    /// Some of it was not done: standard error says what.
    Incomplete,
    /// Of a comparison, for which 1 is a difference, and of `tar`, for which it is a file that
    /// changed: some of it was not done. Of all: the command line makes no sense.
    Trouble,
    /// Ctrl-C.
    Interrupted,
}

impl Outcome {
    /// The exit code: 0, 1 or 2, and what shells give for an interrupt, 130.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Incomplete => 1,
            Outcome::Trouble => 2,
            Outcome::Interrupted => 130,
        }
    }
}

/// A command line that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(String);

/// The error that says so.
pub(crate) fn wrong(what: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Wrong(what.into()))
}
