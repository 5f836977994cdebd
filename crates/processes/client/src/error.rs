//! Errors of the client's operations.

use pandofs_api::{Layout, PathReply};
use pandofs_types::{FsError, ServerId};
use rustix::io::Errno;

/// The reason why an operation failed. Each variant is one reaction of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The file system's answer. Nothing was changed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The server could not be asked for as long as [`crate::Options::soft`] allows. Nothing was
    /// changed.
    #[error("server {server} does not answer: {cause}")]
    Unavailable {
        /// The server that was asked last.
        server: ServerId,
        /// The last fault on the way to it, in words.
        cause: String,
    },
    /// The server was asked and has not answered for as long as [`crate::Options::soft`] allows:
    /// what was asked may have happened, or may still happen.
    #[error("server {server} was asked and has not answered; it may have happened: {cause}")]
    Unknown {
        /// The server that was asked last.
        server: ServerId,
        /// The last fault on the way to it, in words.
        cause: String,
    },
    /// A path goes through more than 40 symbolic links.
    #[error("too many levels of symbolic links")]
    Loop,
    /// The caller is gone ([`crate::Cancellation`]): the operation may have happened, or may still
    /// happen.
    #[error("abandoned: the caller is gone; it may have happened")]
    Abandoned,
    /// Client and servers do not understand one another, or the cluster map is wrong. Asking again
    /// does not help.
    #[error("{0}")]
    Protocol(String),
}

impl ClientError {
    /// The Linux error number for a program that knows no other: the file system's own, `ELOOP` for
    /// a path that goes in circles, `EINTR` without a caller, and `EIO` for whatever else kept it
    /// from answering.
    pub fn errno(&self) -> i32 {
        let error = match self {
            ClientError::Fs(error) => *error,
            // No server ever answers that: they see no paths.
            ClientError::Loop => return Errno::LOOP.raw_os_error(),
            ClientError::Abandoned => FsError::Interrupted,
            ClientError::Unavailable { .. }
            | ClientError::Unknown { .. }
            | ClientError::Protocol(_) => FsError::Io,
        };
        error.errno()
    }

    /// Returns whether what was asked about is not there (any more).
    pub fn is_gone(&self) -> bool {
        matches!(self, ClientError::Fs(FsError::NotFound | FsError::Stale))
    }
}

/// An operation's value, or why there is none.
pub type Result<T> = std::result::Result<T, ClientError>;

/// The end of a request within the client: besides errors the refusals that only the operation
/// itself can react to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Client(ClientError),
    /// As [`pandofs_api::Refusal::NotInline`].
    NotInline {
        layout: Layout,
        striped: bool,
    },
    /// The shard that was asked for its part of a directory has none.
    NoPart,
    /// The shard does not decide a request by path; what it knows of the path.
    ByPath(PathReply),
    /// The caller does not want to wait until the shard gives locks again.
    NotYet,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Client(ClientError::Fs(error))
    }
}

/// For the operations that do not ask what gets these refusals.
impl From<Failure> for ClientError {
    fn from(failure: Failure) -> ClientError {
        match failure {
            Failure::Client(error) => error,
            Failure::NotInline { .. } | Failure::NoPart | Failure::ByPath(_) | Failure::NotYet => {
                ClientError::Protocol(format!("a request was refused with {failure:?}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_the_file_system_from_answering_is_an_input_output_error() {
        assert_eq!(
            ClientError::from(FsError::NotEmpty).errno(),
            FsError::NotEmpty.errno()
        );
        let cause = || "the connection was refused".to_owned();
        for error in [
            ClientError::Unavailable {
                server: ServerId(1),
                cause: cause(),
            },
            ClientError::Unknown {
                server: ServerId(1),
                cause: cause(),
            },
            ClientError::Protocol(cause()),
        ] {
            assert_eq!(error.errno(), FsError::Io.errno());
        }
    }
}
