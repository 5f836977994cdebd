//! Paths that threads are working at.
//!
//! An archive may have a path more than once, and its last member counts. So nothing is begun at a
//! path before all that came before is done there. As few jobs wait at once, few paths are known
//! here.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Condvar, Mutex, PoisonError};

/// Hash of a path: the same for all its names in archives, and in all processes. Two paths may
/// share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub u64);

impl Key {
    pub(crate) fn of(path: &[u8]) -> Key {
        let mut hasher = DefaultHasher::new();
        let names = path.split(|byte| *byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b".")) {
            name.hash(&mut hasher);
        }
        Key(hasher.finish())
    }
}

/// Paths that threads are at, or will be, and with how many members.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    paths: Mutex<HashMap<Key, u64>>,
    fewer: Condvar,
}

impl Pending {
    /// Begins something at a path. The caller has waited for it, or need not.
    pub(crate) fn begin(&self, key: Key) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        *paths.entry(key).or_default() += 1;
    }

    /// It is done.
    pub(crate) fn done(&self, key: Key) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let left = paths.get_mut(&key);
        assert!(left.is_some(), "it was not begun");
        if let Some(left) = left {
            *left -= 1;
            if *left == 0 {
                paths.remove(&key);
            }
        }
        self.fewer.notify_all();
    }

    /// Waits until no thread is at a path.
    pub(crate) fn wait(&self, key: Key) {
        self.wait_while(|paths| paths.contains_key(&key));
    }

    /// Waits until all is done that was begun.
    pub(crate) fn wait_for_all(&self) {
        self.wait_while(|paths| !paths.is_empty());
    }

    fn wait_while(&self, is_busy: impl Fn(&HashMap<Key, u64>) -> bool) {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.fewer.wait_while(paths, |paths| is_busy(paths));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn a_path_has_one_key_by_whatever_name() {
        for name in ["a/b", "./a/b", "a//b/", "/a/./b"] {
            assert_eq!(Key::of(name.as_bytes()), Key::of(b"a/b"), "{name}");
        }
        assert_ne!(Key::of(b"a/b"), Key::of(b"ab"));
    }

    #[test]
    fn a_wait_blocks_until_all_is_done() {
        let pending = Pending::default();
        let (one, other) = (Key(1), Key(2));
        pending.begin(one);
        pending.begin(one);
        pending.wait(other);
        // Whether the wait has ended is looked at after a while in which one that does not block
        // ends.
        let blocks = |wait: &(dyn Fn() + Sync), end: &dyn Fn()| {
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    wait();
                    ended.store(true, Ordering::SeqCst);
                });
                std::thread::sleep(Duration::from_millis(50));
                let too_early = ended.load(Ordering::SeqCst);
                // Before the check: a scope ends when its threads have.
                end();
                assert!(!too_early, "the wait ended before the work");
            });
        };
        blocks(&|| pending.wait(one), &|| {
            pending.done(one);
            pending.begin(other);
            pending.done(one);
        });
        blocks(&|| pending.wait_for_all(), &|| pending.done(other));
        pending.wait_for_all();
    }
}
