//! Exit codes of the command.

use crate::error_text::error_text;
use std::process::ExitCode;

/// How a command ended. A wrong command line ends with 2, mostly before any command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that was asked is done and was found right.
    Done,
    /// It could not be done; what was said on standard error tells why.
    Failed,
    /// Nothing was begun, as the command line is wrong in a way that the command found.
    WrongLine,
    /// Some server did not answer, so the answer lacks its part.
    ServerAway,
    /// The file system holds something that it must not.
    ProblemsFound,
    /// Exit code of a command that was run on our behalf.
    Other(u8),
}

/// For the help of every command.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done, and all was right
  1  it failed; standard error says why
  2  the command line is wrong
  3  a server is away (status, fsck, scrub)
  4  something is wrong in the file system (fsck, scrub, demo)";

/// Fault of a command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongLine(pub String);

impl WrongLine {
    /// That the command line is wrong, in the words of an error.
    pub(crate) fn because(error: &anyhow::Error) -> anyhow::Error {
        WrongLine(error_text(error)).into()
    }
}

/// How a command ended that has failed.
pub(crate) fn of_failure(error: &anyhow::Error) -> Outcome {
    match error.downcast_ref() {
        Some(WrongLine(_)) => Outcome::WrongLine,
        None => Outcome::Failed,
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::WrongLine => 2,
            Outcome::ServerAway => 3,
            Outcome::ProblemsFound => 4,
            Outcome::Other(code) => code,
        })
    }
}
