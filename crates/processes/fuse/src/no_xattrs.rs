//! Inodes that are known to have neither extended attributes nor access control lists.
//!
//! The kernel asks for `security.capability` before it lets a file be written to, and for the
//! access list of each directory on a path that is not the caller's own. Nearly always there is
//! none, and a server that answers with an inode's attributes says so with them. That is cached for
//! as long as the kernel may cache the attributes, so what another mount sets is seen when a change
//! of mode would be.
//!
//! A change through this mount is seen at once: of an inode that was given an attribute here
//! nothing is ever cached again. Forgetting alone would not do. An answer to a question from before
//! may still be on its way, and say that there is none after one was set.

use hashbrown::{HashMap, HashSet};
use pandofs_client::boottime::{self, Boottime};
use pandofs_types::{Attr, Ino};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct NoXattrs {
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// Of each.
    most: usize,
    /// And until when.
    without: HashMap<Ino, Boottime>,
    given: HashSet<Ino>,
}

impl Known {
    fn learn(&mut self, attr: &Attr, now: Boottime, timeout: Duration) {
        if attr.has_xattrs || self.given.contains(&attr.ino) {
            self.without.remove(&attr.ino);
            return;
        }
        if self.given.len() >= self.most {
            return;
        }
        if self.without.len() >= self.most {
            self.without.retain(|_, until| *until > now);
            if self.without.len() >= self.most / 2 {
                self.without.clear();
            }
        }
        self.without.insert(attr.ino, now + timeout);
    }
}

impl NoXattrs {
    /// Of no more than this many inodes, and as many that were given some.
    pub(crate) fn within(most: usize) -> NoXattrs {
        let known = Known {
            most,
            without: HashMap::new(),
            given: HashSet::new(),
        };
        NoXattrs {
            known: Mutex::new(known),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a server's answer about an inode, with the time for which it may be cached.
    pub(crate) fn learn(&self, attr: &Attr, timeout: Duration) {
        self.learn_all(std::iter::once((attr, timeout)));
    }

    /// The same of several.
    pub(crate) fn learn_all<'a>(&self, all: impl Iterator<Item = (&'a Attr, Duration)>) {
        let now = boottime::now();
        let mut known = self.known();
        for (attr, timeout) in all {
            if !timeout.is_zero() {
                known.learn(attr, now, timeout);
            }
        }
    }

    /// It may have been given one by another mount.
    pub(crate) fn forget(&self, ino: Ino) {
        self.known().without.remove(&ino);
    }

    /// It has been given an attribute, or may have been.
    pub(crate) fn given(&self, ino: Ino) {
        let mut known = self.known();
        known.without.remove(&ino);
        if known.given.len() < known.most {
            known.given.insert(ino);
        } else {
            // From here on nothing is cached of any inode.
            known.without.clear();
        }
    }

    /// Returns whether it is known to have none.
    pub(crate) fn holds(&self, ino: Ino) -> bool {
        let until = self.known().without.get(&ino).copied();
        until.is_some_and(|until| boottime::now() < until)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::limits::MAX_KNOWN_WITHOUT_XATTRS;
    use pandofs_types::{FileKind, Time};

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Attributes of some file.
    pub(crate) fn attr(ino: u64, has_xattrs: bool) -> Attr {
        Attr {
            ino: Ino(ino),
            kind: FileKind::File,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: Time(0),
            mtime: Time(0),
            ctime: Time(0),
            btime: Time(0),
            has_xattrs,
        }
    }

    #[test]
    fn an_answer_is_cached_until_one_is_given() {
        let none = NoXattrs::within(MAX_KNOWN_WITHOUT_XATTRS);
        assert!(!none.holds(Ino(1)));
        none.learn(&attr(1, false), HOUR);
        none.learn(&attr(2, false), HOUR);
        assert!(none.holds(Ino(1)));
        none.learn(&attr(2, true), HOUR);
        assert!(!none.holds(Ino(2)));
        none.given(Ino(1));
        assert!(!none.holds(Ino(1)));
        none.learn(&attr(1, false), HOUR);
        assert!(!none.holds(Ino(1)), "an answer from before");
    }

    #[test]
    fn nothing_is_cached_without_a_time_out() {
        let none = NoXattrs::within(MAX_KNOWN_WITHOUT_XATTRS);
        none.learn(&attr(1, false), Duration::ZERO);
        assert!(!none.holds(Ino(1)));
    }

    #[test]
    fn what_another_mount_may_have_given_is_not_cached() {
        let none = NoXattrs::within(MAX_KNOWN_WITHOUT_XATTRS);
        none.learn(&attr(1, false), HOUR);
        none.forget(Ino(1));
        assert!(!none.holds(Ino(1)));
        none.learn(&attr(1, false), HOUR);
        assert!(none.holds(Ino(1)));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let none = NoXattrs::within(MAX_KNOWN_WITHOUT_XATTRS);
        for ino in 0..=MAX_KNOWN_WITHOUT_XATTRS as u64 {
            none.learn(&attr(ino, false), HOUR);
        }
        assert!(none.known().without.len() <= MAX_KNOWN_WITHOUT_XATTRS);
        for ino in 0..=MAX_KNOWN_WITHOUT_XATTRS as u64 {
            none.given(Ino(ino));
        }
        none.learn(&attr(u64::MAX, false), HOUR);
        assert!(!none.holds(Ino(u64::MAX)));
        assert_eq!(none.known().given.len(), MAX_KNOWN_WITHOUT_XATTRS);
    }
}
