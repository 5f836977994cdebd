//! RocksDB's errors in the port's words.

use pandofs_storage::store::StoreError;
use rocksdb::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// `strerror` of ENOSPC and EDQUOT, which RocksDB hands on as text only.
const NO_ROOM: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// `strerror` of ENOENT.
const MISSING: &str = "No such file or directory";

/// Where a store is, for its errors.
pub(crate) struct StoreAt(PathBuf);

impl StoreAt {
    pub(crate) fn new(path: &Path) -> StoreAt {
        StoreAt(path.to_path_buf())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Meaning of `error` from an open store that was to `action`.
    pub(crate) fn failure(&self, action: &str, error: Error) -> StoreError {
        self.meaning(action, error.kind(), error.into_string())
    }

    fn meaning(&self, action: &str, kind: ErrorKind, reason: String) -> StoreError {
        if NO_ROOM.iter().any(|text| reason.contains(text)) {
            return StoreError::Full;
        }
        // A file that the store's own list of files names is missing: it was removed behind the
        // store's back.
        let lost_file = kind == ErrorKind::IOError && reason.contains(MISSING);
        if lost_file || kind == ErrorKind::Corruption {
            return self.corrupt(&reason);
        }
        let what = format!("cannot {action} the store at {}", self.0.display());
        StoreError::Io { what, reason }
    }

    fn corrupt(&self, reason: &str) -> StoreError {
        StoreError::Corrupt {
            what: format!("{}: {reason}", self.0.display()),
        }
    }
}

/// Meaning of `error` when a store that carries the format marker could not be opened.
pub(crate) fn open_failure(path: &Path, error: Error) -> StoreError {
    let at = StoreAt::new(path);
    // RocksDB calls a directory without its CURRENT file an invalid argument.
    if error.kind() == ErrorKind::InvalidArgument {
        return at.corrupt(error.as_ref());
    }
    at.failure("open", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With messages as RocksDB 11 writes them.
    #[test]
    fn a_full_device_is_told_from_other_failures() {
        let at = StoreAt::new(Path::new("/data"));
        let meaning = |reason: &str| at.meaning("write", ErrorKind::IOError, reason.to_string());
        let file = "While appending to file: /data/000012.sst";
        assert_eq!(
            meaning(&format!(
                "IO error: No space left on device: {file}: No space left on device"
            )),
            StoreError::Full
        );
        let reason = format!("IO error: {file}: Input/output error");
        assert_eq!(
            meaning(&reason),
            StoreError::Io {
                what: "cannot write the store at /data".to_string(),
                reason
            }
        );
    }
}
