//! Failures of acknowledged changes, reported once through each open file.
//!
//! Linux's `errseq_t` does so. (Two processes have a file open; one closes it, gets the error that
//! the disk was full, and looks at no result, as most do. Unless the other one gets it as well, its
//! `fsync` takes for safe what is lost.)

use super::File;
use crate::error::ClientError;
use hashbrown::HashMap;

/// Stands for all that use a file without having said through which open file.
pub(crate) const NO_HANDLE: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Number of times that something failed.
    count: u64,
    /// The last of them, and if it was reported at all.
    last: Option<ClientError>,
    is_told: bool,
    /// The count up to which each open file has got them.
    seen: HashMap<u64, u64>,
}

impl Failures {
    pub(super) fn fail(&mut self, error: ClientError) {
        self.count += 1;
        self.last = Some(error);
        self.is_told = false;
    }

    /// Notes that the file was opened once more. A failure that was not reported yet it gets, too:
    /// it may be the only one.
    pub(super) fn open(&mut self, handle: u64) {
        let seen = self.count - u64::from(self.last.is_some() && !self.is_told);
        self.seen.insert(handle, seen);
    }

    pub(super) fn close(&mut self, handle: u64) {
        self.seen.remove(&handle);
    }

    /// The error still to be reported through this open file; it stays. (A program starts others,
    /// which have its open files too and close them when they end: none of them looks at the
    /// result.)
    pub(super) fn look(&self, handle: u64) -> Result<(), ClientError> {
        match (&self.last, self.seen.get(&handle)) {
            (Some(error), Some(&seen)) if seen != self.count => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Takes the error still to be reported through this open file; a file that was never opened is
    /// used without one.
    pub(super) fn take(&mut self, handle: u64) -> Result<(), ClientError> {
        let is_known = self.seen.contains_key(&handle);
        let handle = if is_known { handle } else { NO_HANDLE };
        if !self.seen.contains_key(&handle) {
            self.open(handle);
        }
        let count = self.count;
        let seen = self
            .seen
            .get_mut(&handle)
            .map(|seen| std::mem::replace(seen, count));
        match &self.last {
            Some(error) if seen != Some(count) => {
                self.is_told = true;
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

impl File {
    /// Something that was answered before is lost.
    pub(crate) fn fail(&self, error: ClientError) {
        self.known().failures.fail(error);
    }

    /// It was opened once more, under this number.
    pub(crate) fn open_handle(&self, handle: u64) {
        self.known().failures.open(handle);
    }

    pub(crate) fn close_handle(&self, handle: u64) {
        self.known().failures.close(handle);
    }

    /// # Errors
    /// As [`File::take_failure`], without its counting as reported.
    pub(crate) fn look_for_failure(&self, handle: u64) -> Result<(), ClientError> {
        self.known().failures.look(handle)
    }

    /// # Errors
    /// Notes the failure of an acknowledged change; each open file gets it once.
    pub(crate) fn take_failure(&self, handle: u64) -> Result<(), ClientError> {
        self.known().failures.take(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::FsError;

    fn error(error: FsError) -> Result<(), ClientError> {
        Err(error.into())
    }

    #[test]
    fn each_open_file_is_told_once_whoever_was_told_before() {
        let mut failures = Failures::default();
        failures.open(1);
        failures.open(2);
        assert_eq!(failures.take(1), Ok(()));
        failures.fail(FsError::NoSpace.into());
        for handle in [1, 2, NO_HANDLE] {
            if handle == NO_HANDLE {
                // Used for the first time when all that were there have got it.
                assert_eq!(failures.take(handle), Ok(()));
                continue;
            }
            assert_eq!(failures.take(handle), error(FsError::NoSpace));
            assert_eq!(failures.take(handle), Ok(()));
        }
        failures.fail(FsError::Io.into());
        for handle in [2, 1, NO_HANDLE] {
            assert_eq!(failures.take(handle), error(FsError::Io));
            assert_eq!(failures.take(handle), Ok(()));
        }
    }

    #[test]
    fn who_looks_takes_nothing_from_who_asks() {
        let mut failures = Failures::default();
        failures.open(1);
        assert_eq!(failures.look(1), Ok(()));
        failures.fail(FsError::Io.into());
        assert_eq!(failures.look(1), error(FsError::Io));
        assert_eq!(failures.look(1), error(FsError::Io));
        assert_eq!(failures.take(1), error(FsError::Io));
        assert_eq!(failures.look(1), Ok(()));
    }

    #[test]
    fn who_opens_it_afterwards_is_told_only_if_nobody_was() {
        let mut failures = Failures::default();
        failures.open(1);
        failures.fail(FsError::Io.into());
        failures.open(2);
        assert_eq!(failures.take(1), error(FsError::Io));
        failures.open(3);
        assert_eq!(failures.take(2), error(FsError::Io));
        assert_eq!(failures.take(3), Ok(()));
        // An error reported through an open file that is closed since need not be reported again.
        failures.close(1);
        failures.open(1);
        assert_eq!(failures.take(1), Ok(()));
    }

    #[test]
    fn what_one_that_is_closed_was_not_told_the_next_one_is() {
        let mut failures = Failures::default();
        failures.open(1);
        failures.fail(FsError::Io.into());
        failures.close(1);
        failures.open(2);
        assert_eq!(failures.take(2), error(FsError::Io));
        assert_eq!(failures.seen.len(), 1);
    }
}
