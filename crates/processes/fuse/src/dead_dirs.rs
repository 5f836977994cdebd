//! Directories that were removed while programs still have them open or work in them.
//!
//! A server forgets a directory with its last name: nothing can be made or found in it any more.
//! Programs may still ask for its attributes, by a descriptor or as their working directory, and
//! POSIX has them answered, with a link count of 0. All that takes is what the attributes were: it
//! is kept here, for directories that are open on this mount, were removed through it or may have
//! been by another one, for as long as the kernel knows their inodes.

use crate::limits::MAX_KNOWN_DIRECTORIES;
use pandofs_types::{Attr, FileKind, Ino, SetAttr, SetTime, Time};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct DeadDirs {
    kept: Mutex<HashMap<Ino, Kept>>,
}

#[derive(Debug)]
struct Kept {
    attr: Attr,
    /// Number of times that it is open.
    opens: usize,
    /// It was removed through this mount, or may have been by another one, and may be some
    /// program's working directory.
    removed: bool,
}

impl DeadDirs {
    /// The directory is being opened.
    pub(crate) fn opened(&self, attr: &Attr) {
        let mut kept = self.lock();
        let found = kept.entry(attr.ino).or_insert_with(|| Kept {
            attr: attr.clone(),
            opens: 0,
            removed: false,
        });
        found.attr = attr.clone();
        found.opens += 1;
    }

    /// Those that are open.
    pub(crate) fn open(&self) -> Vec<Ino> {
        let kept = self.lock();
        let open = kept.iter().filter(|(_, kept)| kept.opens > 0);
        open.map(|(ino, _)| *ino).collect()
    }

    /// One that was opened is closed.
    pub(crate) fn closed(&self, dir: Ino) {
        let mut kept = self.lock();
        if let Some(found) = kept.get_mut(&dir) {
            found.opens = found.opens.saturating_sub(1);
            if found.opens == 0 && !found.removed {
                kept.remove(&dir);
            }
        }
    }

    /// The directory, whose attributes were these, was removed, or another mount changes it in some
    /// way. No one looks here as long as a server knows it.
    pub(crate) fn removed(&self, attr: Attr) {
        let mut kept = self.lock();
        // The kernel forgets most of them at once; a mount that has so many in use loses the one
        // that was kept longest for none.
        if kept.len() >= MAX_KNOWN_DIRECTORIES {
            kept.retain(|_, kept| kept.opens > 0);
        }
        let found = kept.entry(attr.ino).or_insert_with(|| Kept {
            attr: attr.clone(),
            opens: 0,
            removed: true,
        });
        found.attr = attr;
        found.removed = true;
    }

    /// The kernel does not know the inode any more.
    pub(crate) fn forgotten(&self, dir: Ino) {
        self.lock().remove(&dir);
    }

    /// Changes the attributes of a directory that no server knows, as its owner may: the kernel has
    /// checked that. Returns them.
    pub(crate) fn set(&self, dir: Ino, set: &SetAttr, now: Time) -> Option<Attr> {
        let at = |time: Option<SetTime>, before| match time {
            None => before,
            Some(SetTime::Now) => now,
            Some(SetTime::At(time)) => time,
        };
        {
            let mut kept = self.lock();
            let attr = &mut kept.get_mut(&dir)?.attr;
            attr.mode = set.mode.unwrap_or(attr.mode);
            attr.uid = set.uid.unwrap_or(attr.uid);
            attr.gid = set.gid.unwrap_or(attr.gid);
            attr.atime = at(set.atime, attr.atime);
            attr.mtime = at(set.mtime, attr.mtime);
            attr.ctime = now;
        }
        self.attr(dir)
    }

    /// The attributes of a directory that no server knows; `None` if it is not kept.
    pub(crate) fn attr(&self, dir: Ino) -> Option<Attr> {
        let kept = self.lock();
        let found = kept.get(&dir)?;
        assert!(
            found.attr.kind == FileKind::Dir,
            "only directories are kept"
        );
        Some(Attr {
            nlink: 0,
            size: 0,
            ..found.attr.clone()
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Kept>> {
        // Nothing panics halfway through a change.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;

    fn dir(serial: u64) -> Attr {
        Attr {
            ino: Ino(serial),
            kind: FileKind::Dir,
            mode: 0o750,
            nlink: 4,
            uid: 7,
            gid: 8,
            rdev: 0,
            size: 3,
            blocks: 0,
            atime: convert::now(),
            mtime: convert::now(),
            ctime: convert::now(),
            btime: convert::now(),
            has_xattrs: false,
        }
    }

    #[test]
    fn an_open_directory_is_kept_until_it_is_closed() {
        let dead = DeadDirs::default();
        dead.opened(&dir(5));
        dead.opened(&dir(5));
        dead.closed(Ino(5));
        let found = dead.attr(Ino(5)).unwrap();
        assert_eq!((found.nlink, found.size, found.mode), (0, 0, 0o750));
        dead.closed(Ino(5));
        assert_eq!(dead.attr(Ino(5)), None);
        dead.closed(Ino(5));
    }

    #[test]
    fn a_removed_directory_outlives_who_had_it_open() {
        let dead = DeadDirs::default();
        dead.opened(&dir(5));
        dead.removed(dir(5));
        dead.closed(Ino(5));
        assert!(dead.attr(Ino(5)).is_some());
    }

    #[test]
    fn a_removed_directory_is_kept_until_the_kernel_forgets_it() {
        let dead = DeadDirs::default();
        dead.removed(dir(5));
        assert!(dead.attr(Ino(5)).is_some());
        dead.forgotten(Ino(5));
        assert_eq!(dead.attr(Ino(5)), None);
    }

    #[test]
    fn who_has_it_open_may_change_it() {
        let dead = DeadDirs::default();
        dead.opened(&dir(5));
        let set = SetAttr {
            mode: Some(0o700),
            mtime: Some(SetTime::At(Time(3))),
            ..SetAttr::default()
        };
        let after = dead.set(Ino(5), &set, Time(9)).unwrap();
        assert_eq!((after.mode, after.uid), (0o700, 7));
        assert_eq!((after.mtime, after.ctime), (Time(3), Time(9)));
        assert_eq!(dead.attr(Ino(5)), Some(after));
        assert_eq!(dead.set(Ino(6), &set, Time(9)), None);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let dead = DeadDirs::default();
        dead.opened(&dir(1));
        for serial in 2..=2 * MAX_KNOWN_DIRECTORIES as u64 {
            dead.removed(dir(serial));
        }
        assert!(dead.lock().len() <= MAX_KNOWN_DIRECTORIES);
        assert!(dead.attr(Ino(1)).is_some(), "it is open");
    }
}
