//! Names and inodes in the kernel's cache, until they end there by themselves.

use crate::invalidations::{CachedName, LATE, NAME_AT_MOST, until_late};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pandofs_types::{FileKind, Ino, LeaseKey, Name};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Names, and inodes with attributes, in the kernel's cache; of each at most twice as many as the
/// client caches.
#[derive(Debug)]
pub(crate) struct KernelCache {
    inodes: Mutex<VecDeque<(Instant, Ino)>>,
    names: Mutex<Names>,
    /// Held by a thread that notes a name and is about to answer.
    answering: RwLock<()>,
    /// Names that it is remembered of, and as many inodes.
    most: usize,
}

#[derive(Debug, Default)]
struct Names {
    known: HashMap<LeaseKey, CachedName>,
    /// In the order in which they end; a name that was answered again stands here more than once.
    ends: VecDeque<(Instant, LeaseKey)>,
}

impl Names {
    fn drop_ended(&mut self, now: Instant) {
        while let Some(&(until, key)) = self.ends.front()
            && until <= now
        {
            self.ends.pop_front();
            if let Entry::Occupied(name) = self.known.entry(key)
                && name.get().until <= now
            {
                name.remove();
            }
        }
    }
}

impl Names {
    fn note(
        &mut self,
        most: usize,
        at: Instant,
        key: LeaseKey,
        (dir, name): (Ino, &Name),
        kind: Option<FileKind>,
        leased: Duration,
    ) -> Duration {
        let how_long = until_late(leased).min(NAME_AT_MOST);
        if how_long.is_zero() || self.ends.len() >= most {
            return Duration::ZERO;
        }
        let until = at + how_long + LATE;
        let until = match self.known.entry(key) {
            // Two names at one place of the directory: one of them has to do without.
            Entry::Occupied(known) if known.get().name != *name => return Duration::ZERO,
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                (known.kind, known.at) = (kind, at);
                known.until = until.max(known.until);
                known.until
            }
            Entry::Vacant(place) => {
                let name = name.clone();
                let cached = CachedName {
                    dir,
                    name,
                    kind,
                    at,
                    until,
                };
                place.insert(cached).until
            }
        };
        self.ends.push_back((until, key));
        how_long
    }
}

/// A name that is noted is not taken for one that the kernel has while a thread holds this: it may
/// not have got it yet.
pub(crate) struct Answering<'a> {
    _guard: RwLockReadGuard<'a, ()>,
}

impl KernelCache {
    /// For a client that caches so many names and attributes: of each of them the kernel may have
    /// got two.
    pub(crate) fn within(leases: usize) -> KernelCache {
        KernelCache {
            inodes: Mutex::default(),
            names: Mutex::default(),
            answering: RwLock::default(),
            most: 2 * leases,
        }
    }

    /// Notes attributes that the kernel is about to get for so long; false if it is not to get
    /// them.
    pub(crate) fn note(&self, ino: Ino, how_long: Duration) -> bool {
        self.note_all(std::iter::once((ino, how_long))) == 1
    }

    /// Notes several; returns how many, from the first on, the kernel may get.
    pub(crate) fn note_all(&self, all: impl Iterator<Item = (Ino, Duration)>) -> usize {
        let now = Instant::now();
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        // Nearly in order: none is cached for longer than a lease.
        while inodes.front().is_some_and(|(until, _)| *until <= now) {
            inodes.pop_front();
        }
        let room = self.most.saturating_sub(inodes.len());
        let before = inodes.len();
        inodes.extend(all.take(room).map(|(ino, how_long)| (now + how_long, ino)));
        inodes.len() - before
    }

    pub(crate) fn take_all_inodes(&self) -> Vec<Ino> {
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        inodes.drain(..).map(|(_, ino)| ino).collect()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be held from before a name is noted until the kernel has the answer, where the kernel may
    /// ask without locking the directory. A thread that holds it asks no server.
    pub(crate) fn answering(&self) -> Answering<'_> {
        let guard = self
            .answering
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Answering { _guard: guard }
    }

    /// Waits for answers with names that are noted and perhaps not sent.
    pub(crate) fn fence(&self) {
        drop(
            self.answering
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Notes a name that the kernel is about to get, which has this key, leads to this (`None`: to
    /// nothing) and is leased for so long. Returns the time for which the kernel may have it.
    pub(crate) fn note_name(
        &self,
        key: LeaseKey,
        (dir, name): (Ino, &Name),
        kind: Option<FileKind>,
        leased: Duration,
    ) -> Duration {
        let at = Instant::now();
        let mut names = self.names();
        names.drop_ended(at);
        names.note(self.most, at, key, (dir, name), kind, leased)
    }

    /// The same of names of one directory.
    pub(crate) fn note_names<'a>(
        &self,
        dir: Ino,
        all: impl Iterator<Item = (LeaseKey, &'a Name, Option<FileKind>, Duration)>,
    ) -> Vec<Duration> {
        let at = Instant::now();
        let mut names = self.names();
        names.drop_ended(at);
        all.map(|(key, name, kind, leased)| {
            names.note(self.most, at, key, (dir, name), kind, leased)
        })
        .collect()
    }

    /// Takes out those of these names that the kernel may have.
    pub(crate) fn take_names(&self, keys: impl Iterator<Item = LeaseKey>) -> Vec<CachedName> {
        let mut names = self.names();
        names.drop_ended(Instant::now());
        keys.filter_map(|key| names.known.remove(&key)).collect()
    }

    /// Those of these names that the kernel may have; they stay in.
    pub(crate) fn look_up_names(&self, keys: impl Iterator<Item = LeaseKey>) -> Vec<CachedName> {
        let mut names = self.names();
        names.drop_ended(Instant::now());
        keys.filter_map(|key| names.known.get(&key).cloned())
            .collect()
    }

    pub(crate) fn take_all_names(&self) -> Vec<CachedName> {
        let mut names = self.names();
        names.drop_ended(Instant::now());
        names.ends.clear();
        names.known.drain().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::Position;
    use pandofs_types::limits::MAX_CACHED_LEASES;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn key(position: u64) -> LeaseKey {
        let (dir, position) = (Ino(9), Position(position));
        LeaseKey::Entry { dir, position }
    }

    fn named(name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn inodes_are_remembered_as_long_as_the_kernel_caches_them() {
        let cache = KernelCache::within(MAX_CACHED_LEASES);
        assert!(cache.note(Ino(1), Duration::ZERO));
        assert!(cache.note(Ino(2), HOUR));
        assert!(cache.note(Ino(3), HOUR));
        assert_eq!(cache.take_all_inodes(), [Ino(2), Ino(3)]);
        assert_eq!(cache.take_all_inodes(), []);
    }

    #[test]
    fn no_more_is_cached_than_can_be_invalidated() {
        let cache = KernelCache::within(MAX_CACHED_LEASES);
        let noted = (0..3 * MAX_CACHED_LEASES as u64)
            .filter(|&number| cache.note(Ino(number), HOUR))
            .count();
        assert_eq!(noted, 2 * MAX_CACHED_LEASES);
    }

    #[test]
    fn names_are_cached_for_a_while_and_taken_out_once() {
        let cache = KernelCache::within(MAX_CACHED_LEASES);
        let (dir, a, b) = (Ino(9), named("a"), named("b"));
        let note = |number, name, leased| {
            cache.note_name(key(number), (dir, name), Some(FileKind::File), leased)
        };
        let little = Duration::from_millis(1);
        assert_eq!(note(1, &a, HOUR), NAME_AT_MOST);
        assert_eq!(note(1, &a, LATE + little), little);
        // It is at the other's place.
        assert!(note(1, &b, HOUR).is_zero());
        // The lease is over before a thread that is late has taken it in.
        assert!(note(2, &b, LATE).is_zero());
        let begun = Instant::now();
        let taken = cache.take_names([key(1), key(2)].into_iter());
        // All of it is over if this was held up for so long.
        if begun.elapsed() < NAME_AT_MOST / 2 && !taken.is_empty() {
            assert_eq!((taken.len(), &taken[0].name), (1, &a));
            // The first answer lasts longer.
            assert!(taken[0].until > taken[0].at + LATE + little);
        }
        assert_eq!(cache.take_names([key(1)].into_iter()), []);
        assert_eq!(cache.take_all_names(), []);
    }

    #[test]
    fn the_fence_waits_for_answers() {
        let cache = KernelCache::within(MAX_CACHED_LEASES);
        let answering = cache.answering();
        std::thread::scope(|scope| {
            let fence = scope.spawn(|| cache.fence());
            assert!(!fence.is_finished());
            drop(answering);
            fence.join().unwrap();
        });
    }
}
