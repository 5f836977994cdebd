//! Known damage of data objects.

use crate::limits::{MAX_DAMAGE_LISTED, MAX_FAILING_LISTED};
use pandofs_types::Ino;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Damaged blocks of all of a server's objects, and what came of them; and the objects with which the disk failed.
#[derive(Debug, Default)]
pub(crate) struct Health {
    damaged: Mutex<BTreeSet<(Ino, u64)>>,
    /// With what there is to say of each.
    failing: Mutex<BTreeMap<Ino, String>>,
    /// How many blocks are in `damaged`; for callers that only need to know that there are none.
    known: AtomicU64,
    refused: AtomicU64,
    taken: AtomicU64,
}

impl Health {
    fn damaged(&self) -> MutexGuard<'_, BTreeSet<(Ino, u64)>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block is damaged; whether that is news.
    pub(crate) fn found(&self, ino: Ino, block: u64) -> bool {
        let mut damaged = self.damaged();
        let is_new = damaged.len() < MAX_DAMAGE_LISTED && damaged.insert((ino, block));
        self.known.store(damaged.len() as u64, Ordering::Relaxed);
        is_new
    }

    /// These blocks of an object were written whole, or are gone.
    pub(crate) fn gone(&self, ino: Ino, blocks: Range<u64>) {
        if self.known.load(Ordering::Relaxed) == 0 || blocks.is_empty() {
            return;
        }
        let mut damaged = self.damaged();
        let gone: Vec<_> = damaged
            .range((ino, blocks.start)..(ino, blocks.end))
            .copied()
            .collect();
        for key in gone {
            damaged.remove(&key);
        }
        self.known.store(damaged.len() as u64, Ordering::Relaxed);
    }

    /// Whether any of these blocks is known to be damaged.
    pub(crate) fn is_any_of(&self, ino: Ino, blocks: Range<u64>) -> bool {
        let range = (ino, blocks.start)..(ino, blocks.end);
        self.known.load(Ordering::Relaxed) > 0 && self.damaged().range(range).next().is_some()
    }

    /// Inode numbers and blocks.
    pub(crate) fn list(&self) -> Vec<(u64, u64)> {
        let damaged = self.damaged();
        damaged.iter().map(|&(ino, block)| (ino.0, block)).collect()
    }

    fn failing(&self) -> MutexGuard<'_, BTreeMap<Ino, String>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is wrong with an object as a whole.
    pub(crate) fn fails(&self, ino: Ino, what: String) {
        let mut failing = self.failing();
        if failing.len() < MAX_FAILING_LISTED || failing.contains_key(&ino) {
            failing.insert(ino, what);
        }
    }

    /// All of an object has been read, and nothing was wrong with it; or it is removed.
    pub(crate) fn is_well(&self, ino: Ino) {
        self.failing().remove(&ino);
    }

    /// Only those of which this is true fail still.
    pub(crate) fn keep_failing(&self, is_there: impl Fn(Ino) -> bool) {
        self.failing().retain(|&ino, _| is_there(ino));
    }

    /// Inode numbers, and what is wrong.
    pub(crate) fn failing_list(&self) -> Vec<(u64, String)> {
        let failing = self.failing();
        let list = failing.iter().map(|(ino, what)| (ino.0, what.clone()));
        list.collect()
    }

    /// Blocks.
    pub(crate) fn known(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// A request was refused because of damage.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Blocks of doubtful objects were given the checksums that they fit.
    pub(crate) fn take(&self, blocks: u64) {
        self.taken.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Blocks since the start.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Whether it is the disk that cannot, or that has what cannot be: not a lack of space, memory or open files, nor a
/// file that is not there.
pub(crate) fn is_of_the_disk(error: &io::Error) -> bool {
    let of_the_disk = [Errno::IO, Errno::UCLEAN, Errno::BADMSG];
    Errno::from_io_error(error).is_some_and(|errno| of_the_disk.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_fails_until_it_is_well() {
        let health = Health::default();
        health.is_well(Ino(1));
        health.fails(Ino(2), "cannot read it".into());
        health.fails(Ino(1), "cannot open it".into());
        health.fails(Ino(1), "cannot read it either".into());
        let object = |ino, what: &str| (ino, what.to_owned());
        assert_eq!(
            health.failing_list(),
            [
                object(1, "cannot read it either"),
                object(2, "cannot read it")
            ]
        );
        health.is_well(Ino(1));
        health.fails(Ino(3), "cannot write it".into());
        health.keep_failing(|ino| ino != Ino(2));
        assert_eq!(health.failing_list(), [object(3, "cannot write it")]);
        for ino in 10..10 + MAX_FAILING_LISTED as u64 {
            health.fails(Ino(ino), "it too".into());
        }
        assert_eq!(health.failing_list().len(), MAX_FAILING_LISTED);
        health.fails(Ino(3), "still".into());
        assert_eq!(health.failing_list()[0], object(3, "still"));
    }

    #[test]
    fn what_is_no_failure_of_the_disk_is_not_taken_for_one() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(is_of_the_disk(&error(Errno::IO)) && is_of_the_disk(&error(Errno::UCLEAN)));
        for errno in [Errno::NOSPC, Errno::NOENT, Errno::MFILE, Errno::NOMEM] {
            assert!(!is_of_the_disk(&error(errno)));
        }
        assert!(!is_of_the_disk(&io::Error::other("a thread")));
    }

    #[test]
    fn damage_is_news_once_and_goes_with_its_block() {
        let health = Health::default();
        health.gone(Ino(1), 0..u64::MAX);
        assert!(health.found(Ino(1), 5) && health.found(Ino(1), 7) && health.found(Ino(2), 5));
        assert!(!health.found(Ino(1), 5));
        assert_eq!(health.list(), [(1, 5), (1, 7), (2, 5)]);
        assert!(health.is_any_of(Ino(1), 6..8) && !health.is_any_of(Ino(1), 8..9));
        health.gone(Ino(1), 0..7);
        assert_eq!((health.known(), health.list()), (2, vec![(1, 7), (2, 5)]));
        health.gone(Ino(1), 0..u64::MAX);
        health.gone(Ino(2), 5..5);
        assert_eq!(health.list(), [(2, 5)]);
        assert!(
            health.found(Ino(1), 5),
            "it was written and is damaged again"
        );
    }

    #[test]
    fn what_is_listed_is_bounded() {
        let health = Health::default();
        for block in 0..MAX_DAMAGE_LISTED as u64 + 10 {
            health.found(Ino(1), block);
        }
        assert_eq!(health.known(), MAX_DAMAGE_LISTED as u64);
    }
}
