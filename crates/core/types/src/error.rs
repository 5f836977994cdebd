//! Errors of file system operations.

use serde::{Deserialize, Serialize};

/// A final answer to the program that asked: nothing was changed, and asking again would get the
/// same answer. Answers that make the client itself act (another shard, wait, ask again) are not in
/// here but in the wire's `Refusal`; unknown outcomes are the client's own.
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
    /// A name, or a component of a path, leads to nothing (`ENOENT`).
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken, and was to be free (`EEXIST`).
    #[error("file exists")]
    Exists,
    /// A directory is needed (`ENOTDIR`).
    #[error("not a directory")]
    NotDir,
    /// The operation is not for directories (`EISDIR`).
    #[error("is a directory")]
    IsDir,
    /// A directory that is to go has entries, or a file that is to get a layout has data
    /// (`ENOTEMPTY`).
    #[error("directory not empty")]
    NotEmpty,
    /// Mode or access control list do not allow it to the caller (`EACCES`).
    #[error("permission denied")]
    Access,
    /// It takes an owner or a capability that the caller is not or has not (`EPERM`).
    #[error("operation not permitted")]
    NotPermitted,
    /// The arguments contradict one another or the state (`EINVAL`).
    #[error("invalid argument")]
    Invalid,
    /// Over `MAX_NAME_BYTES` (`ENAMETOOLONG`).
    #[error("file name too long")]
    NameTooLong,
    /// The inode would have over `MAX_LINKS` names (`EMLINK`).
    #[error("too many links")]
    TooManyLinks,
    /// A disk is full, or a table with a fixed limit (`ENOSPC`).
    #[error("no space left on device")]
    NoSpace,
    /// There is no extended attribute of that name (`ENODATA`).
    #[error("no such attribute")]
    NoAttribute,
    /// The value of an extended attribute is over `MAX_XATTR_VALUE_BYTES` (`E2BIG`).
    #[error("argument list or value too long")]
    TooBig,
    /// The file would end past the largest size there is (`EFBIG`).
    #[error("file too large")]
    FileTooBig,
    /// The inode is gone, and its number is never given out again (`ESTALE`).
    #[error("stale file handle")]
    Stale,
    /// The kind of inode, or this file system, does not have it (`EOPNOTSUPP`).
    #[error("operation not supported")]
    NotSupported,
    /// Something under way forbids it for now (`EBUSY`).
    #[error("device or resource busy")]
    Busy,
    /// A disk failed, or data did not fit its checksum (`EIO`).
    #[error("input/output error")]
    Io,
    /// Somebody else has a lock that is in the way.
    #[error("resource temporarily unavailable")]
    WouldBlock,
    /// Waiting for the lock would close a circle of owners that wait for each other (`EDEADLK`).
    #[error("resource deadlock avoided")]
    Deadlock,
    /// The limit of locks, or of requests that wait for one, is reached (`ENOLCK`).
    #[error("no locks available")]
    NoLocks,
    /// A signal ended the wait (`EINTR`).
    #[error("interrupted system call")]
    Interrupted,
}

/// A value, or the error that the program is told.
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
