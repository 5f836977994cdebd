//! Open directories: the caller of each listing, and losses of names that are still to be reported.

use crate::credentials::Caller;
use pandofs_fuse_kernel::Errno;
use pandofs_types::Ino;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Open {
    dir: Ino,
    /// The caller that opened it, whichever process got the descriptor since.
    by: Caller,
    /// Names that were acknowledged were lost while it was open, and another caller got the error.
    is_to_be_told: bool,
}

#[derive(Debug, Default)]
pub(crate) struct OpenDirs {
    by_handle: Mutex<HashMap<u64, Open>>,
}

impl OpenDirs {
    pub(crate) fn opened(&self, handle: u64, dir: Ino, by: Caller) {
        let open = Open {
            dir,
            by,
            is_to_be_told: false,
        };
        self.lock().insert(handle, open);
    }

    pub(crate) fn closed(&self, handle: u64) {
        self.lock().remove(&handle);
    }

    pub(crate) fn opener(&self, handle: u64) -> Option<Caller> {
        self.lock().get(&handle).map(|open| open.by)
    }

    /// The result of a sync of the directory for a caller with this handle, or without one: each
    /// open directory gets the error once for a loss while it was open, whichever caller was first,
    /// as it is with files (Linux's `errseq_t`).
    pub(crate) fn synced(
        &self,
        dir: Ino,
        handle: Option<u64>,
        result: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut by_handle = self.lock();
        if matches!(result, Err(Errno::EIO)) {
            let open = by_handle.values_mut().filter(|open| open.dir == dir);
            open.for_each(|open| open.is_to_be_told = true);
        }
        let own = handle.and_then(|handle| by_handle.get_mut(&handle));
        let is_to_be_told = own.is_some_and(|open| std::mem::take(&mut open.is_to_be_told));
        match result {
            Ok(()) if is_to_be_told => Err(Errno::EIO),
            result => result,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.by_handle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(7);
    const CALLER: Caller = Caller {
        uid: 1_000,
        gid: 1_000,
        pid: 0,
    };
    const LOST: Result<(), Errno> = Err(Errno::EIO);

    fn told(dirs: &OpenDirs, handle: u64, result: Result<(), Errno>) -> bool {
        match dirs.synced(DIR, Some(handle), result) {
            Ok(()) => false,
            Err(error) => {
                assert!(matches!(error, Errno::EIO));
                true
            }
        }
    }

    #[test]
    fn each_open_directory_is_told_once_of_what_was_lost() {
        let dirs = OpenDirs::default();
        dirs.opened(1, DIR, CALLER);
        dirs.opened(2, DIR, CALLER);
        dirs.opened(3, Ino(8), CALLER);
        assert!(told(&dirs, 1, LOST));
        assert!(!told(&dirs, 1, Ok(())));
        dirs.opened(4, DIR, CALLER);
        assert!(!told(&dirs, 4, Ok(())), "it was opened afterwards");
        assert!(told(&dirs, 2, Ok(())));
        assert!(!told(&dirs, 2, Ok(())));
        assert!(dirs.synced(Ino(8), Some(3), Ok(())).is_ok());
    }

    #[test]
    fn who_asks_through_no_handle_takes_it_from_nobody() {
        let dirs = OpenDirs::default();
        dirs.opened(1, DIR, CALLER);
        assert!(dirs.synced(DIR, None, LOST).is_err());
        assert!(dirs.synced(DIR, None, Ok(())).is_ok());
        assert!(told(&dirs, 1, Ok(())));
    }
}
