//! Files held open for a moment between the lookup of a name and its open.
//!
//! Between the two the name may be given to another file, and the first one is gone; a second
//! lookup may lose again. An inode that is held stays, also without a name, until [`HOLD`] has
//! passed.

use crate::Client;
use crate::core::Core;
use crate::error::Result;
use pandofs_types::limits::{HOLD, MAX_HELD};
use pandofs_types::{Attr, Credentials, Ino};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Files that are held, once for each time it was asked for, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Held {
    since: Mutex<VecDeque<(Instant, Ino)>>,
}

impl Held {
    /// The oldest is returned, to be released, if there are too many.
    fn add(&self, now: Instant, ino: Ino) -> Option<Ino> {
        let mut since = self.since();
        since.push_back((now, ino));
        match since.len() > MAX_HELD {
            true => since.pop_front().map(|(_, ino)| ino),
            false => None,
        }
    }

    /// One that was taken cannot be released yet.
    fn keep(&self, now: Instant, ino: Ino) {
        self.since().push_back((now, ino));
    }

    /// Takes those that were held for long enough.
    fn due(&self, now: Instant) -> Vec<Ino> {
        let mut since = self.since();
        let due = since.partition_point(|(since, _)| *since + HOLD <= now);
        since.drain(..due).map(|(_, ino)| ino).collect()
    }

    fn since(&self) -> MutexGuard<'_, VecDeque<(Instant, Ino)>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Has a file stay for [`HOLD`] after the answer, also if its last name is removed.
    ///
    /// # Errors
    /// `Stale` when it is gone already.
    pub fn hold(&self, ino: Ino) -> Result<Attr> {
        let attr = self.open_inode(&Credentials::ROOT, ino, 0, false, false)?;
        if let Some(oldest) = self.core().held.add(Instant::now(), ino) {
            self.core().let_go(oldest);
        }
        Ok(attr)
    }
}

impl Core {
    /// Releases what was held for long enough.
    pub(crate) fn let_go_of_held(&self, now: Instant) {
        for ino in self.held.due(now) {
            self.let_go(ino);
        }
    }

    fn let_go(&self, ino: Ino) {
        // Its writer may have closed it while servers were away: then it is tried again.
        let written = match self.opens.file(ino) {
            Some(file) => self.report(&file, Some(Duration::ZERO)).map(drop),
            None => Ok(()),
        };
        let released = match written {
            Ok(()) => self.release(ino),
            Err(_) => {
                self.held.keep(Instant::now(), ino);
                return;
            }
        };
        if let Err(error) = released {
            tracing::error!(%ino, %error, "writes are not reported");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_for_long_enough_is_taken_once() {
        let held = Held::default();
        let start = Instant::now();
        let later = start + HOLD / 2;
        assert_eq!(held.add(start, Ino(7)), None);
        assert_eq!(held.add(start, Ino(7)), None);
        assert_eq!(held.add(later, Ino(8)), None);
        assert_eq!(held.due(later), []);
        assert_eq!(held.due(start + HOLD), [Ino(7), Ino(7)]);
        assert_eq!(held.due(start + HOLD), []);
        assert_eq!(held.due(later + HOLD), [Ino(8)]);
    }

    #[test]
    fn the_oldest_makes_room() {
        let held = Held::default();
        let now = Instant::now();
        for ino in 0..MAX_HELD as u64 {
            assert_eq!(held.add(now, Ino(ino)), None);
        }
        assert_eq!(held.add(now, Ino(1_000_000)), Some(Ino(0)));
        assert_eq!(held.add(now, Ino(1_000_001)), Some(Ino(1)));
    }
}
