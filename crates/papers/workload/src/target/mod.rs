//! Targets of operations.

mod kernel;
mod library;

pub use kernel::Kernel;
pub use library::Library;

use crate::op::{Kind, Op};
use pandofs_client::ClientError;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The system refused a call.
    #[error("{op} of {path}: {cause}")]
    Kernel {
        /// The operation's kind.
        op: Kind,
        /// Below the place of work.
        path: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The client library refused it.
    #[error("{op} of {path}: {cause}")]
    Library {
        /// The operation's kind.
        op: Kind,
        /// Below the place of work.
        path: String,
        /// The library's error.
        cause: ClientError,
    },
    /// It has an empty name, `.` or `..`, or one that is too long.
    #[error("{path:?} is no path whose names can be asked for")]
    Path {
        /// Below the place of work.
        path: String,
    },
    /// The operation lacks `to`.
    #[error("a rename of {path} without a new path")]
    NowhereTo {
        /// Below the place of work.
        path: String,
    },
    /// Its panic is on standard error.
    #[error("a client's thread panicked")]
    Panicked,
}

impl TargetError {
    /// The number of what the file system said; `None` where it was not asked.
    pub fn errno(&self) -> Option<i32> {
        match self {
            TargetError::Kernel { cause, .. } => cause.raw_os_error(),
            TargetError::Library { cause, .. } => Some(cause.errno()),
            TargetError::Path { .. } | TargetError::NowhereTo { .. } | TargetError::Panicked => {
                None
            }
        }
    }
}

/// Something that does operations; each client has its own.
pub trait Target: Send {
    /// # Errors
    /// The file system's error.
    fn perform(&mut self, op: &Op) -> Result<(), TargetError>;
}

/// The target of a link that an operation makes: as long as the one that there was, and leading
/// nowhere else.
fn link_target(op: &Op) -> Vec<u8> {
    vec![b'x'; op.bytes.max(1) as usize]
}
