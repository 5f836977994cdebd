//! Versions of files whose pages the kernel has, by which it keeps them when a file is opened again.
//!
//! A program that opens a file sees what others wrote and closed before. So pages are kept if the shard says at the opening
//! that nothing has changed since an earlier one: each change of contents has a later time of change. A version counts from
//! when the file was closed that was opened at it, for only then it is sure that the kernel has dropped what was older:
//!
//! ```text
//! program A:  opens at version 2                               (is woken)  drops pages of version 1
//! mount:                          answers: drop       answers: keep
//! program B:                                opens at version 2          reads pages of version 1
//! ```
//!
//! A file that this mount has made and nobody else has come to know (`is_own`) the kernel has written itself: all of its pages
//! are kept. Of other files what this mount writes makes a later version, too, and their pages are read once more.

use hashbrown::HashMap;
use pandofs_fuse_kernel::FileHandle;
use pandofs_types::{Attr, Ino, Time};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The mount's table of them.
#[derive(Debug)]
pub(crate) struct Pages {
    state: Mutex<State>,
    /// Files whose versions are remembered; those that are open are remembered besides.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The kernel has no pages that are older.
    known: HashMap<Ino, Version>,
    opened: HashMap<FileHandle, (Ino, Version)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    changed: Time,
    written: Time,
    size: u64,
}

impl Pages {
    pub(crate) fn within(most: usize) -> Pages {
        Pages {
            state: Mutex::default(),
            most,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is opened that is like this, as its shard says now. Returns whether the kernel may keep its pages.
    pub(crate) fn opened(&self, attr: &Attr, handle: FileHandle, is_own: bool) -> bool {
        let version = Version {
            changed: attr.ctime,
            written: attr.mtime,
            size: attr.size,
        };
        let mut state = self.state();
        state.opened.insert(handle, (attr.ino, version));
        is_own || state.known.get(&attr.ino) == Some(&version)
    }

    /// Whether the kernel may have pages of the file. If they are old, they are read anew.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.state().known.contains_key(&ino)
    }

    /// The kernel says that the file is closed, perhaps not for the first time.
    pub(crate) fn closed(&self, handle: FileHandle) {
        let mut state = self.state();
        let Some((ino, version)) = state.opened.remove(&handle) else {
            return;
        };
        if state.known.len() >= self.most {
            state.known.clear();
        }
        state.known.insert(ino, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_xattrs;

    fn attr(ino: u64, changed: i64) -> Attr {
        Attr {
            size: 5,
            mtime: Time(7),
            ctime: Time(changed),
            ..no_xattrs::tests::attr(ino, false)
        }
    }

    #[test]
    fn pages_are_kept_of_what_has_not_changed_since_an_opening_that_was_closed() {
        let pages = Pages::within(10);
        assert!(
            !pages.opened(&attr(1, 1), FileHandle(1), false),
            "nothing is known"
        );
        assert!(
            !pages.opened(&attr(1, 1), FileHandle(2), false),
            "the kernel may not have dropped them yet"
        );
        pages.closed(FileHandle(2));
        assert!(pages.opened(&attr(1, 1), FileHandle(3), false));
        assert!(
            !pages.opened(&attr(1, 2), FileHandle(4), false),
            "it has changed"
        );
        assert!(
            !pages.opened(&attr(2, 1), FileHandle(5), false),
            "another file"
        );
        pages.closed(FileHandle(4));
        pages.closed(FileHandle(4));
        assert!(pages.opened(&attr(1, 2), FileHandle(6), false));
        // One that was opened at an older version is closed last.
        pages.closed(FileHandle(1));
        assert!(!pages.opened(&attr(1, 2), FileHandle(7), false));
    }

    #[test]
    fn pages_of_what_is_ones_own_are_kept_and_later_count_from_an_opening() {
        let pages = Pages::within(10);
        assert!(pages.opened(&attr(1, 1), FileHandle(1), true));
        assert!(pages.opened(&attr(1, 2), FileHandle(2), true));
        pages.closed(FileHandle(2));
        // Others have come to know it.
        assert!(pages.opened(&attr(1, 2), FileHandle(3), false));
        assert!(!pages.opened(&attr(1, 3), FileHandle(4), false));
    }

    #[test]
    fn times_and_size_tell_versions_apart() {
        let pages = Pages::within(10);
        pages.opened(&attr(1, 1), FileHandle(1), false);
        pages.closed(FileHandle(1));
        let longer = Attr {
            size: 6,
            ..attr(1, 1)
        };
        let later = Attr {
            mtime: Time(8),
            ..attr(1, 1)
        };
        assert!(!pages.opened(&longer, FileHandle(2), false));
        assert!(!pages.opened(&later, FileHandle(3), false));
        let read = Attr {
            atime: Time(8),
            ..attr(1, 1)
        };
        assert!(pages.opened(&read, FileHandle(4), false));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let pages = Pages::within(2);
        for number in 1..=3 {
            pages.opened(&attr(number, 1), FileHandle(number), false);
            pages.closed(FileHandle(number));
        }
        assert!(!pages.opened(&attr(1, 1), FileHandle(4), false));
        assert!(pages.opened(&attr(3, 1), FileHandle(5), false));
        assert_eq!(pages.state().known.len(), 1);
    }
}
