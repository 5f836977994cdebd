//! Open files of data objects.

use super::sums::Checked;
use pandofs_types::Ino;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An object that is open, with its checksums.
#[derive(Debug)]
pub(crate) struct OpenObject {
    pub ino: Ino,
    pub checked: Checked<File>,
    /// Whether the directory entries are known to be on disk. Not known of an object that was just opened,
    /// even if it was there: the process that made it may not have synced it.
    entry_synced: AtomicBool,
    /// Changes since it was opened, and how many of them are known to be on disk with their checksums.
    /// Events before it was opened are not.
    changes: AtomicU64,
    synced: AtomicU64,
}

impl OpenObject {
    pub(crate) fn new(ino: Ino, checked: Checked<File>) -> OpenObject {
        OpenObject {
            ino,
            checked,
            entry_synced: AtomicBool::new(false),
            changes: AtomicU64::new(1),
            synced: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_entry_synced(&self) -> bool {
        self.entry_synced.load(Ordering::Acquire)
    }

    pub(crate) fn set_entry_synced(&self) {
        self.entry_synced.store(true, Ordering::Release);
    }

    /// It has been changed.
    pub(crate) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Waits until its data is on disk. Its checksums need not be: it is unsettled.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.checked.data().sync_data()
    }

    /// Waits until what was changed before is on disk, data and checksums.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        let changes = self.changes.load(Ordering::Acquire);
        self.checked.sync(File::sync_data)?;
        self.synced.fetch_max(changes, Ordering::AcqRel);
        Ok(())
    }

    /// Waits until the header of its checksums is on disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync_header(&self) -> io::Result<()> {
        self.checked.sync_sums(File::sync_data)
    }

    /// Whether all that was changed is known to be on disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) == self.changes.load(Ordering::Acquire)
    }
}

/// The most recently used open objects, up to a number.
#[derive(Debug)]
pub(crate) struct OpenObjects {
    limit: usize,
    /// With the time of the last use, in uses.
    by_ino: HashMap<Ino, (Arc<OpenObject>, u64)>,
    by_use: BTreeMap<u64, Ino>,
    uses: u64,
}

impl OpenObjects {
    pub(super) fn new(limit: usize) -> OpenObjects {
        assert!(limit > 0);
        OpenObjects {
            limit,
            by_ino: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    pub(super) fn get(&mut self, ino: Ino) -> Option<Arc<OpenObject>> {
        let (object, last_use) = self.by_ino.get_mut(&ino)?;
        self.uses += 1;
        self.by_use.remove(last_use);
        self.by_use.insert(self.uses, ino);
        *last_use = self.uses;
        Some(Arc::clone(object))
    }

    /// The object if it is open; that is no use of it.
    pub(super) fn peek(&self, ino: Ino) -> Option<Arc<OpenObject>> {
        let (object, _) = self.by_ino.get(&ino)?;
        Some(Arc::clone(object))
    }

    /// Adds an object that is not there; the one that was not used for longest makes room.
    pub(super) fn add(&mut self, object: OpenObject) -> Arc<OpenObject> {
        if self.by_ino.len() == self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_ino.remove(&oldest);
        }
        let object = Arc::new(object);
        self.uses += 1;
        self.by_use.insert(self.uses, object.ino);
        let before = self
            .by_ino
            .insert(object.ino, (Arc::clone(&object), self.uses));
        assert!(before.is_none(), "object {} was open already", object.ino);
        object
    }

    /// Closes all that nothing else is using; returns whether there were any.
    pub(super) fn close_all(&mut self) -> bool {
        let had = !self.by_ino.is_empty();
        self.by_ino.clear();
        self.by_use.clear();
        had
    }

    pub(super) fn remove(&mut self, ino: Ino) {
        if let Some((_, last_use)) = self.by_ino.remove(&ino) {
            self.by_use.remove(&last_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let open = |ino| {
            let file = || tempfile::tempfile().unwrap();
            let checked = Checked::create(|| Ok(file()), file(), 1, Box::new(|_| ()));
            OpenObject::new(Ino(ino), checked.unwrap())
        };
        let mut objects = OpenObjects::new(2);
        objects.add(open(1));
        objects.add(open(2));
        assert!(objects.get(Ino(1)).is_some());
        objects.add(open(3));
        assert!(objects.get(Ino(2)).is_none());
        assert!(objects.get(Ino(1)).is_some() && objects.get(Ino(3)).is_some());
        objects.remove(Ino(1));
        assert!(objects.get(Ino(1)).is_none());
        objects.add(open(4));
        assert!(objects.get(Ino(3)).is_some(), "there was room");
        assert_eq!(objects.by_ino.len(), objects.by_use.len());
    }
}
