//! RocksDB's errors in the port's words.

use pandofs_store::StoreError;
use rocksdb::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// `strerror` of ENOSPC and EDQUOT, which RocksDB hands on as text only.
const NO_ROOM: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// `strerror` of ENOENT.
const MISSING: &str = "No such file or directory";

/// Where a store is, for its errors.
pub struct StoreAt(PathBuf);

impl StoreAt {
    pub fn new(path: &Path) -> StoreAt {
        StoreAt(path.to_path_buf())
    }

    /// What `error` means when it comes from an open store that was to `action`.
    pub fn failure(&self, action: &str, error: Error) -> StoreError {
        let reason = error.as_ref();
        if NO_ROOM.iter().any(|text| reason.contains(text)) {
            return StoreError::Full;
        }
        // A file that the store's own list of files names is missing: it was removed behind the
        // store's back.
        let lost_file = error.kind() == ErrorKind::IOError && reason.contains(MISSING);
        if lost_file || error.kind() == ErrorKind::Corruption {
            return corrupt(&self.0, &error);
        }
        let what = format!("cannot {action} the store at {}", self.0.display());
        StoreError::Io {
            what,
            reason: error.into_string(),
        }
    }
}

/// What `error` means when a store that carries the format marker could not be opened.
pub fn open_failure(path: &Path, error: Error) -> StoreError {
    // RocksDB calls a directory without its CURRENT file an invalid argument.
    if error.kind() == ErrorKind::InvalidArgument {
        return corrupt(path, &error);
    }
    StoreAt::new(path).failure("open", error)
}

fn corrupt(path: &Path, error: &Error) -> StoreError {
    StoreError::Corrupt {
        what: format!("{}: {}", path.display(), error.as_ref()),
    }
}
