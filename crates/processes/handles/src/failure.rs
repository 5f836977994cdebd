//! Reasons why a call of a library fails, whatever its language, and their error numbers.

use pandofs_client::ClientError;
use pandofs_types::FsError;

/// A call's value, or why there is none.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a call fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The client library's, which has its number.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A handle that leads to nothing.
    #[error("the handle is closed, or never was one of this kind")]
    NoHandle,
    /// As `NoHandle`, for a handle of the process that this one was forked from.
    #[error(
        "the handle belongs to the process that this one was forked from: connect anew, or exec"
    )]
    Forked,
    /// A file that was opened for something else.
    #[error("the file is not open for {0}")]
    NotOpenFor(&'static str),
    /// An argument that means nothing.
    #[error("{0}")]
    Invalid(&'static str),
    /// Something that only the kernel can open.
    #[error("it is no regular file, and only the kernel can open it")]
    Special,
    /// An option or flag that the libraries do not have.
    #[error("{0}")]
    NotSupported(&'static str),
    /// Something that the root, or `.`, cannot be asked.
    #[error("the root, and what ends in '.' or '..', cannot be removed, renamed or replaced")]
    InUse,
    /// No more handles.
    #[error("there are too many open handles")]
    TooMany,
    /// There is nothing behind the offset.
    #[error("there is nothing of that kind behind the offset")]
    NothingBehind,
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Client(error.into())
    }
}

impl Failure {
    /// The Linux error number. The file system's own errors are numbered where they are defined.
    pub fn errno(&self) -> i32 {
        match self {
            Failure::Client(error) => error.errno(),
            Failure::NoHandle | Failure::NotOpenFor(_) => libc::EBADF,
            Failure::Forked => libc::ESTALE,
            Failure::Invalid(_) => libc::EINVAL,
            Failure::Special | Failure::NothingBehind => libc::ENXIO,
            Failure::NotSupported(_) => libc::EOPNOTSUPP,
            Failure::InUse => libc::EBUSY,
            Failure::TooMany => libc::EMFILE,
        }
    }
    /// Returns whether the file system answered so, and no more is to be said than the number does.
    pub fn is_an_answer(&self) -> bool {
        matches!(
            self,
            Failure::Client(ClientError::Fs(_) | ClientError::Loop)
        )
    }
}
