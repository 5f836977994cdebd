//! Open files of data objects.

use pandofs_types::Ino;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An object's open file.
#[derive(Debug)]
pub(crate) struct OpenObject {
    pub ino: Ino,
    pub file: File,
    /// Whether the directory entry is known to be on disk. Not known of a file that was just opened,
    /// even if it was there: who made it may not have forced it.
    entry_forced: AtomicBool,
}

impl OpenObject {
    pub fn new(ino: Ino, file: File) -> OpenObject {
        OpenObject {
            ino,
            file,
            entry_forced: AtomicBool::new(false),
        }
    }

    pub fn is_entry_forced(&self) -> bool {
        self.entry_forced.load(Ordering::Acquire)
    }

    pub fn set_entry_forced(&self) {
        self.entry_forced.store(true, Ordering::Release);
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
    pub fn new(limit: usize) -> OpenObjects {
        assert!(limit > 0);
        OpenObjects {
            limit,
            by_ino: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    pub fn get(&mut self, ino: Ino) -> Option<Arc<OpenObject>> {
        let (object, last_use) = self.by_ino.get_mut(&ino)?;
        self.uses += 1;
        self.by_use.remove(last_use);
        self.by_use.insert(self.uses, ino);
        *last_use = self.uses;
        Some(Arc::clone(object))
    }

    /// Adds an object that is not there; the one that was not used for longest makes room.
    pub fn add(&mut self, object: OpenObject) -> Arc<OpenObject> {
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

    pub fn remove(&mut self, ino: Ino) {
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
        let open = |ino| OpenObject::new(Ino(ino), tempfile::tempfile().unwrap());
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
