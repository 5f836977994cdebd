//! Errors of file system operations.

use serde::{Deserialize, Serialize};

/// A final answer to the program that asked: nothing was changed, and asking again would get the
/// same answer. What makes the client itself act (another shard, wait, ask again) is not in
/// here but in the wire's `Refusal`; what is unknown is the client's own.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
pub enum FsError {
    #[error("no such file or directory")]
    NotFound,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDir,
    #[error("is a directory")]
    IsDir,
    #[error("directory not empty")]
    NotEmpty,
    #[error("permission denied")]
    Access,
    #[error("operation not permitted")]
    NotPermitted,
    #[error("invalid argument")]
    Invalid,
    #[error("file name too long")]
    NameTooLong,
    #[error("too many links")]
    TooManyLinks,
    #[error("no space left on device")]
    NoSpace,
    #[error("no such attribute")]
    NoAttribute,
    #[error("argument list or value too long")]
    TooBig,
    #[error("file too large")]
    FileTooBig,
    #[error("stale file handle")]
    Stale,
    #[error("operation not supported")]
    NotSupported,
    #[error("device or resource busy")]
    Busy,
    #[error("input/output error")]
    Io,
    /// Somebody else has a lock that is in the way.
    #[error("resource temporarily unavailable")]
    WouldBlock,
    #[error("resource deadlock avoided")]
    Deadlock,
    #[error("no locks available")]
    NoLocks,
    #[error("interrupted system call")]
    Interrupted,
}

pub type FsResult<T> = Result<T, FsError>;

impl FsError {
    /// The Linux error number. The only place where one is made.
    pub fn errno(self) -> i32 {
        match self {
            FsError::NotFound => 2,      // ENOENT
            FsError::Exists => 17,       // EEXIST
            FsError::NotDir => 20,       // ENOTDIR
            FsError::IsDir => 21,        // EISDIR
            FsError::NotEmpty => 39,     // ENOTEMPTY
            FsError::Access => 13,       // EACCES
            FsError::NotPermitted => 1,  // EPERM
            FsError::Invalid => 22,      // EINVAL
            FsError::NameTooLong => 36,  // ENAMETOOLONG
            FsError::TooManyLinks => 31, // EMLINK
            FsError::NoSpace => 28,      // ENOSPC
            FsError::NoAttribute => 61,  // ENODATA
            FsError::TooBig => 7,        // E2BIG
            FsError::FileTooBig => 27,   // EFBIG
            FsError::Stale => 116,       // ESTALE
            FsError::NotSupported => 95, // EOPNOTSUPP
            FsError::Busy => 16,         // EBUSY
            FsError::Io => 5,            // EIO
            FsError::WouldBlock => 11,   // EAGAIN
            FsError::Deadlock => 35,     // EDEADLK
            FsError::NoLocks => 37,      // ENOLCK
            FsError::Interrupted => 4,   // EINTR
        }
    }
}
