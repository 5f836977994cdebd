//! Errors of the system and of raft-engine as errors of the log.

use pandofs_storage::log::LogError;
use raft_engine::Error;
use std::io;
use std::path::Path;

/// An error of the system on a path. A full disk is an error of its own.
pub(crate) fn io_error(path: &Path, error: &io::Error) -> LogError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full {
            path: path.to_owned(),
        },
        _ => LogError::Io {
            path: path.to_owned(),
            reason: error.to_string(),
        },
    }
}

/// An error of raft-engine on a log's directory.
pub(crate) fn engine_error(dir: &Path, error: Error) -> LogError {
    match error {
        Error::Io(error) => io_error(dir, &error),
        Error::Corruption(_) | Error::Codec(_) | Error::Protobuf(_) => LogError::Corrupt {
            path: dir.to_owned(),
            what: error.to_string(),
        },
        _ => LogError::Io {
            path: dir.to_owned(),
            reason: error.to_string(),
        },
    }
}
