//! Error numbers for the kernel, and the result type of handlers.

use pandofs_client::ClientError;
use pandofs_fuse_kernel::Errno;

pub(crate) type Result<T, E = Errno> = std::result::Result<T, E>;

/// The error number for a program, in the one place where errors become numbers.
pub(crate) fn errno(error: ClientError) -> Errno {
    match &error {
        ClientError::Fs(_) | ClientError::Abandoned => {}
        other => tracing::error!(error = %other, "a request failed"),
    }
    Errno::from_i32(error.errno())
}
