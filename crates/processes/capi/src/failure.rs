//! Mistakes that C alone can make, beside the reasons why any call fails, and their error numbers.

use pandofs_client::ClientError;
use pandofs_handles::Failure as CallFailure;
use pandofs_types::FsError;

/// A call's value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The reason why a function for C fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// One that a program in any language can get.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// An argument that has to lead somewhere does not.
    #[error("'{0}' is a null pointer")]
    Null(&'static str),
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
    /// A panic, in words.
    #[error("a defect of the library: {0}")]
    Panic(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Call(error.into())
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure::Call(error.into())
    }
}

impl Failure {
    /// The number that C gets, negated.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Failure::Call(failure) => failure.errno(),
            Failure::Null(_) => libc::EFAULT,
            Failure::TooLong(..) => libc::ENAMETOOLONG,
            Failure::Later => libc::E2BIG,
            Failure::NoRoom { .. } => libc::ERANGE,
            Failure::Panic(_) => libc::EIO,
        }
    }
}
