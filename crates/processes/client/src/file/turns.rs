//! Turns at one file for reports, reads and appends, each of which asks servers.
//!
//! No mutex is held over that. A server may be away, and a thread that waited for the mutex could
//! neither be killed nor replaced by one that serves others.

use super::{File, Known};
use crate::cancellation;
use crate::error::ClientError;
use pandofs_types::limits::CANCELLATION_INTERVAL;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Pending writes are being reported.
    flushing: bool,
    readers: usize,
    /// The shard makes the file longer and the bytes are put there.
    appending: bool,
    /// Those who wait to append: readers let them go first.
    appenders: usize,
    /// Threads that wait for anything of the file.
    waiting: usize,
}

/// Something that others wait for, until it is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub(crate) struct Turn<'a> {
    file: &'a File,
    end: fn(&mut Turns),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut known = self.file.known();
        (self.end)(&mut known.turns);
        self.file.has_settled(known);
    }
}

impl File {
    /// Waits as long as something is in the way.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone ([`crate::Cancellation`]).
    pub(super) fn wait_while(
        &self,
        in_the_way: impl Fn(&Known) -> bool,
    ) -> Result<MutexGuard<'_, Known>, ClientError> {
        let since = Instant::now();
        let mut known = self.known();
        if in_the_way(&known) {
            drop(known);
            cancellation::about_to_wait();
            known = self.known();
        }
        while in_the_way(&known) {
            known.turns.waiting += 1;
            let (woken, waited) = self
                .settled
                .wait_timeout_while(known, CANCELLATION_INTERVAL, |known| in_the_way(known))
                .unwrap_or_else(PoisonError::into_inner);
            known = woken;
            known.turns.waiting -= 1;
            if waited.timed_out() {
                // Without the lock: those that are waited for need it to end.
                drop(known);
                if !cancellation::may_wait(since.elapsed()) {
                    return Err(ClientError::Abandoned);
                }
                known = self.known();
            }
        }
        Ok(known)
    }

    /// Wakes waiters: something has ended that they may wait for.
    pub(super) fn has_settled(&self, known: MutexGuard<'_, Known>) {
        let is_waited_for = known.turns.waiting > 0;
        drop(known);
        if is_waited_for {
            self.settled.notify_all();
        }
    }

    /// One at a time reports, so that questions meanwhile wait for the report.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone.
    pub(crate) fn flushing(&self) -> Result<Turn<'_>, ClientError> {
        let known = self.wait_while(|known| known.turns.flushing)?;
        Ok(self.flush(known))
    }

    /// As [`File::flushing`], if no other thread does.
    pub(crate) fn try_flushing(&self) -> Option<Turn<'_>> {
        let known = self.known();
        (!known.turns.flushing).then(|| self.flush(known))
    }

    fn flush(&self, mut known: MutexGuard<'_, Known>) -> Turn<'_> {
        known.turns.flushing = true;
        Turn {
            file: self,
            end: |turns| turns.flushing = false,
        }
    }

    /// Nothing is appended from here meanwhile: a read during an append would see zeros.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone.
    pub(crate) fn reading(&self) -> Result<Turn<'_>, ClientError> {
        let mut known =
            self.wait_while(|known| known.turns.appending || known.turns.appenders > 0)?;
        known.turns.readers += 1;
        Ok(Turn {
            file: self,
            end: |turns| turns.readers -= 1,
        })
    }

    /// Nothing is read or appended from here meanwhile.
    ///
    /// # Errors
    /// `Abandoned` when the caller is gone.
    pub(crate) fn appending(&self) -> Result<Turn<'_>, ClientError> {
        self.known().turns.appenders += 1;
        let waits = Turn {
            file: self,
            end: |turns| turns.appenders -= 1,
        };
        let mut known =
            self.wait_while(|known| known.turns.appending || known.turns.readers > 0)?;
        known.turns.appending = true;
        drop(known);
        drop(waits);
        Ok(Turn {
            file: self,
            end: |turns| turns.appending = false,
        })
    }
}

/// Until so many threads wait for something of the file.
#[cfg(test)]
pub(super) fn await_waiting(file: &File, count: usize) {
    let begun = Instant::now();
    while file.known().turns.waiting < count {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(60),
            "no thread waits"
        );
        std::thread::yield_now();
    }
}

/// Does something for a program that is killed meanwhile.
#[cfg(test)]
pub(super) fn as_killed<T>(work: impl FnOnce() -> T) -> T {
    cancellation::set_cancellation(Some(cancellation::of_killed(|| true)));
    let done = work();
    cancellation::set_cancellation(None);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::striped;
    use pandofs_types::Ino;
    use std::thread;

    fn file() -> File {
        File::new(Ino(5), &striped(100))
    }

    fn is_abandoned(turn: Result<Turn<'_>, ClientError>) -> bool {
        matches!(turn, Err(ClientError::Abandoned))
    }

    #[test]
    fn who_waits_for_a_report_or_a_reader_can_be_killed() {
        let file = file();
        let reports = file.flushing().unwrap();
        assert!(file.try_flushing().is_none());
        assert!(as_killed(|| is_abandoned(file.flushing())));
        drop(reports);
        drop(file.try_flushing().unwrap());
        let reads = file.reading().unwrap();
        assert!(as_killed(|| is_abandoned(file.appending())));
        // It is in no way any more.
        drop(file.reading().unwrap());
        drop(reads);
        let appends = file.appending().unwrap();
        assert!(as_killed(|| is_abandoned(file.reading())));
        assert!(as_killed(|| is_abandoned(file.appending())));
        drop(appends);
        drop(file.reading().unwrap());
    }

    #[test]
    fn who_appends_waits_for_readers_and_those_for_it() {
        let file = file();
        let first = file.reading().unwrap();
        thread::scope(|scope| {
            let append = scope.spawn(|| {
                let _appends = file.appending().unwrap();
                assert_eq!(file.known().turns.readers, 0);
            });
            await_waiting(&file, 1);
            let read = scope.spawn(|| {
                let _reads = file.reading().unwrap();
                let known = file.known();
                assert!(!known.turns.appending && known.turns.appenders == 0);
            });
            await_waiting(&file, 2);
            drop(first);
            append.join().unwrap();
            read.join().unwrap();
        });
    }
}
