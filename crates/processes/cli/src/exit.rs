//! Exit codes of the command.

use crate::error_text::error_text;
use std::io::{self, ErrorKind};
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
    /// A server or a mount was started with wrong settings, and starting it again will not help: `EX_CONFIG`, which
    /// systemd calls `CONFIG`.
    Misconfigured,
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
  3  a server is away (status, top, fsck, scrub)
  4  something is wrong in the file system (fsck, scrub, demo)
  78 the cluster map, the server's directory or the mount's is not right: it is of no use to start
     it again (serve, mount)";

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

/// Fault of what a server or a mount is started with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misconfigured(String);

impl Misconfigured {
    /// That it is not right, in the words of an error.
    pub(crate) fn because(error: &anyhow::Error) -> anyhow::Error {
        Misconfigured(error_text(error)).into()
    }

    /// The same of what was wrong with a file, unless the system had a trouble that may be over the next time.
    pub(crate) fn unless_passing(error: anyhow::Error) -> anyhow::Error {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
        match causes.all(is_lasting) {
            true => Misconfigured::because(&error),
            false => error,
        }
    }
}

/// Test that a file stays as it is until somebody changes it, or what leads to it.
fn is_lasting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename
            // It is not in UTF-8.
            | ErrorKind::InvalidData
    )
}

/// How a command ended that has failed.
pub(crate) fn of_failure(error: &anyhow::Error) -> Outcome {
    if error.is::<WrongLine>() {
        Outcome::WrongLine
    } else if error.is::<Misconfigured>() {
        Outcome::Misconfigured
    } else {
        Outcome::Failed
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
            Outcome::Misconfigured => 78,
            Outcome::Other(code) => code,
        })
    }
}
