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
    #[error("{op} of {path}: {cause}")]
    Kernel {
        op: Kind,
        path: String,
        cause: std::io::Error,
    },
    #[error("{op} of {path}: {cause}")]
    Library {
        op: Kind,
        path: String,
        cause: ClientError,
    },
    #[error("{path:?} is no path whose names can be asked for")]
    Path { path: String },
    #[error("a rename of {path} without a new path")]
    NowhereTo { path: String },
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
