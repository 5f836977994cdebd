//! Unsynced changes of this client ([`pandofs_session::Unsynced`]), for all its threads.

pub(crate) use pandofs_session::{Mark, Place, changed_by, object_changed_by, object_of};
use pandofs_types::{Ino, ServerId};
use pandofs_wire::hello::Machine;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A sync that was answered: of what, and in which start of the server's machine.
pub(crate) type Sync = pandofs_session::Synced<Machine>;

type Table = pandofs_session::Unsynced<Machine>;

/// See [`pandofs_session::Unsynced`].
#[derive(Debug)]
pub(crate) struct Unsynced {
    /// Moments are counted from here on.
    since: Instant,
    table: Mutex<Table>,
}

impl Unsynced {
    /// Of no more than this many inodes that are not open.
    pub(crate) fn within(most: usize) -> Unsynced {
        Unsynced {
            since: Instant::now(),
            table: Mutex::new(Table::within(most)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// As [`pandofs_session::Unsynced::changed`].
    #[must_use]
    pub(crate) fn changed(
        &self,
        inos: impl IntoIterator<Item = Ino>,
        place: Place,
        machine: Machine,
        now: Instant,
    ) -> bool {
        let now = self.passed(now);
        self.table().changed(inos, place, machine, now)
    }

    /// To be taken before the servers are asked to sync anything.
    pub(crate) fn mark(&self) -> Mark {
        self.table().mark()
    }

    /// The places of changes of the inode that are to be synced.
    pub(crate) fn places(&self, ino: Ino) -> Vec<Place> {
        self.table().places(ino)
    }

    /// As [`pandofs_session::Unsynced::synced`].
    pub(crate) fn synced(
        &self,
        ino: Ino,
        mark: Mark,
        syncs: &[Sync],
        lose: impl FnOnce(),
    ) -> Vec<ServerId> {
        self.table().synced(ino, mark, syncs, lose)
    }

    /// As [`pandofs_session::Unsynced::forget`].
    pub(crate) fn forget(&self, now: Instant, term: Duration, is_open: impl Fn(Ino) -> bool) {
        let now = self.passed(now);
        self.table().forget(now, term, is_open);
    }
}
