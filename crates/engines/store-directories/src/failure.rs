//! Errors of the system in the port's words.

use pandofs_storage::store::StoreError;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Meaning of the system's refusal to `action` the file or folder at `path`.
pub(crate) fn refused(action: &str, path: &Path, error: &io::Error) -> StoreError {
    if matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    ) {
        return StoreError::Full;
    }
    // The device gave other bytes than the file system had written: btrfs, and ext4 of its own structures.
    let is_damage = error
        .raw_os_error()
        .is_some_and(|code| code == Errno::BADMSG.raw_os_error() || code == EUCLEAN);
    if is_damage {
        return corrupt(path, &error.to_string());
    }
    StoreError::Io {
        what: format!("cannot {action} {}", path.display()),
        reason: error.to_string(),
    }
}

/// `Structure needs cleaning`, by which ext4 and xfs call their own damage.
const EUCLEAN: i32 = 117;

/// The error for bytes at `path` that nobody wrote.
pub(crate) fn corrupt(path: &Path, why: &str) -> StoreError {
    StoreError::Corrupt {
        what: format!("{}: {why}", path.display()),
    }
}

/// Whether a file system has no room for this attribute in this file, whatever room there is elsewhere. ext4 says of
/// both that there is no space: whoever hears it tries to keep the value elsewhere, where the other shows.
pub(crate) fn does_not_fit(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::OVERFLOW
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_damaged_one_are_told_from_other_failures() {
        let meaning = |errno: i32| {
            refused(
                "write",
                "/data/x".as_ref(),
                &io::Error::from_raw_os_error(errno),
            )
        };
        assert_eq!(meaning(Errno::NOSPC.raw_os_error()), StoreError::Full);
        assert_eq!(meaning(Errno::DQUOT.raw_os_error()), StoreError::Full);
        for errno in [EUCLEAN, Errno::BADMSG.raw_os_error()] {
            assert!(matches!(meaning(errno), StoreError::Corrupt { .. }));
        }
        let StoreError::Io { what, .. } = meaning(Errno::IO.raw_os_error()) else {
            panic!("another error");
        };
        assert_eq!(what, "cannot write /data/x");
    }
}
