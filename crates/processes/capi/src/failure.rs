//! Reasons why a call fails, and their error numbers.

use pandofs_client::ClientError;
use pandofs_types::FsError;

/// A call's value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The reason why a call fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The client library's, which has its number.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An argument that has to lead somewhere does not.
    #[error("'{0}' is a null pointer")]
    Null(&'static str),
    /// A number that stands for nothing.
    #[error("the handle is closed, or never was one of this kind")]
    NoHandle,
    /// As `NoHandle`, for a number of the process that this one was forked from.
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
    /// A path or another text without an end where it has to have one.
    #[error("'{0}' has no NUL within {1} bytes")]
    TooLong(&'static str, usize),
    /// A structure of a later version of the library, with something in it.
    #[error("the options are of a later version, and set what this one does not know")]
    Later,
    /// The value has this many bytes.
    #[error("the buffer has {room} bytes, and {needed} are needed")]
    NoRoom {
        /// As it was given.
        room: usize,
        /// As many as there are.
        needed: usize,
    },
    /// Something that only the kernel can open.
    #[error("it is no regular file, and only the kernel can open it")]
    Special,
    /// An option or flag that this library does not have.
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
    /// A panic, in words.
    #[error("a defect of the library: {0}")]
    Panic(String),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Client(error.into())
    }
}

impl Failure {
    /// The number that C gets, negated. What the file system answers is numbered where its errors are.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Failure::Client(error) => error.errno(),
            Failure::Null(_) => libc::EFAULT,
            Failure::NoHandle | Failure::NotOpenFor(_) => libc::EBADF,
            Failure::Forked => libc::ESTALE,
            Failure::Invalid(_) => libc::EINVAL,
            Failure::TooLong(..) => libc::ENAMETOOLONG,
            Failure::Later => libc::E2BIG,
            Failure::NoRoom { .. } => libc::ERANGE,
            Failure::Special | Failure::NothingBehind => libc::ENXIO,
            Failure::NotSupported(_) => libc::EOPNOTSUPP,
            Failure::InUse => libc::EBUSY,
            Failure::TooMany => libc::EMFILE,
            Failure::Panic(_) => libc::EIO,
        }
    }
}
