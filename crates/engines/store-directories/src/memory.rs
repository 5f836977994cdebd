//! Memory of a store: what was written and is in no file yet, values and lists of folders that were read lately, and the
//! scans that are under way.

use crate::limits::PAIR_BYTES;
use crate::listings::{Answer, Listings};
use crate::place::{Place, general, place};
use pandofs_storage::store::{Batch, ReadCache};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key or a value.
pub(crate) type Bytes = Arc<[u8]>;
/// Changes in the order of their keys; `None` removes one.
pub(crate) type Layer = BTreeMap<Bytes, Option<Bytes>>;

/// See above.
pub(crate) struct Memory {
    /// What was written since the last flush began. Shared with the scans under way: a write copies it then.
    active: Arc<Layer>,
    active_bytes: usize,
    /// What a flush is writing to files, or could not.
    frozen: Option<Arc<Layer>>,
    frozen_bytes: usize,
    /// Flushes that have begun.
    flushes: u64,
    /// Scans under way, by the number of flushes that had begun when they did.
    scans: BTreeMap<u64, usize>,
    /// Values in files.
    pub values: ReadCache,
    /// Of the folders.
    pub listings: Listings,
    /// Bytes of keys and values in files, about.
    pub disk_bytes: u64,
    /// A flush could not be done: nothing is written any more.
    pub has_failed: bool,
}

/// What a scan sees besides the files, and the moment that it is of.
pub(crate) struct Moment {
    pub active: Arc<Layer>,
    pub frozen: Option<Arc<Layer>>,
    pub flushes: u64,
}

impl Moment {
    /// Whether the files do not tell what this key's value is.
    pub(crate) fn hides(&self, key: &[u8]) -> bool {
        self.active.contains_key(key)
            || self
                .frozen
                .as_ref()
                .is_some_and(|frozen| frozen.contains_key(key))
    }
}

impl Memory {
    /// With so many bytes for what was read.
    pub(crate) fn new(cache_bytes: usize, disk_bytes: u64) -> Memory {
        Memory {
            active: Arc::default(),
            active_bytes: 0,
            frozen: None,
            frozen_bytes: 0,
            flushes: 0,
            scans: BTreeMap::new(),
            values: ReadCache::of(cache_bytes / 2),
            listings: Listings::of(cache_bytes / 2),
            disk_bytes,
            has_failed: false,
        }
    }

    /// Applies a batch; answers how many bytes wait for a flush.
    pub(crate) fn write(&mut self, batch: &Batch) -> usize {
        let active = Arc::make_mut(&mut self.active);
        for (key, value) in batch.iter() {
            let bytes = |value: Option<usize>| PAIR_BYTES + key.len() + value.unwrap_or(0);
            self.active_bytes += bytes(value.map(<[u8]>::len));
            let before = match active.get_mut(key) {
                Some(kept) => Some(std::mem::replace(kept, value.map(Arc::from))),
                None => active.insert(Arc::from(key), value.map(Arc::from)),
            };
            if let Some(before) = before {
                self.active_bytes -= bytes(before.map(|value| value.len()));
            }
        }
        self.active_bytes
    }

    /// What waits for a flush from now on; `None` if there is nothing.
    pub(crate) fn freeze(&mut self) -> Option<(Arc<Layer>, u64)> {
        if self.active.is_empty() {
            return None;
        }
        assert!(self.frozen.is_none(), "one flush at a time");
        self.flushes += 1;
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
        let frozen = std::mem::take(&mut self.active);
        self.frozen = Some(Arc::clone(&frozen));
        Some((frozen, self.flushes))
    }

    /// What was frozen is in files.
    pub(crate) fn thaw(&mut self) {
        self.frozen = None;
        self.frozen_bytes = 0;
    }

    /// Bytes of keys and values in memory alone.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.active_bytes + self.frozen_bytes
    }

    /// What was written of a key and may be in no file yet: its value, or that there is none.
    pub(crate) fn written(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key));
        self.active.get(key).or_else(frozen).cloned()
    }

    /// The value of a key, or that there is none, if that is known.
    pub(crate) fn known(&mut self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        if let Some(written) = self.written(key) {
            return Some(written.map(|value| value.to_vec()));
        }
        if let Some(value) = self.values.get(key) {
            return Some(value.clone());
        }
        self.is_absent(key).then_some(None)
    }

    /// Whether the lists say that there is no such key in the files.
    fn is_absent(&mut self, key: &[u8]) -> bool {
        let file = match place(key) {
            Place::Alone(file) => file,
            Place::Inode(file, _) => {
                if self.listings.contains(&file.folder, &file.child) != Answer::Known(false) {
                    return false;
                }
                general(key)
            }
        };
        self.listings.contains(&file.folder, &file.child) == Answer::Known(false)
    }

    /// A moment for a scan, which [`Memory::end_scan`] ends.
    pub(crate) fn begin_scan(&mut self) -> Moment {
        *self.scans.entry(self.flushes).or_default() += 1;
        Moment {
            active: Arc::clone(&self.active),
            frozen: self.frozen.clone(),
            flushes: self.flushes,
        }
    }

    pub(crate) fn end_scan(&mut self, moment: &Moment) {
        let count = self.scans.get_mut(&moment.flushes);
        let count = count.unwrap_or_else(|| panic!("a scan ends that has not begun"));
        *count -= 1;
        if *count == 0 {
            self.scans.remove(&moment.flushes);
        }
    }

    /// Whether a scan is under way that began before this flush: it must not see what the flush brings.
    pub(crate) fn is_scanned_before(&self, flush: u64) -> bool {
        self.scans.keys().next().is_some_and(|&begun| begun < flush)
    }

    /// A file has this value now, or none.
    pub(crate) fn changed(&mut self, key: &[u8], value: Option<&Bytes>, keep: bool) {
        self.values.wrote(key, value.map(|value| &**value));
        if keep && self.values.get(key).is_none() {
            self.values.insert(key, value.map(|value| value.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &[u8], value: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.put(key.to_vec(), value.to_vec());
        batch
    }

    #[test]
    fn a_scan_keeps_its_moment_and_holds_up_later_flushes_alone() {
        let mut memory = Memory::new(1 << 20, 0);
        memory.write(&put(b"a", b"1"));
        let (_, first) = memory.freeze().unwrap();
        let scan = memory.begin_scan();
        assert!(!memory.is_scanned_before(first), "it knows of that flush");
        memory.write(&put(b"a", b"2"));
        assert!(scan.active.is_empty() && scan.hides(b"a"));
        memory.thaw();
        let (_, second) = memory.freeze().unwrap();
        assert!(memory.is_scanned_before(second));
        let other = memory.begin_scan();
        memory.end_scan(&scan);
        assert!(!memory.is_scanned_before(second));
        memory.end_scan(&other);
        assert!(memory.scans.is_empty());
    }

    #[test]
    fn bytes_that_wait_are_counted() {
        let mut memory = Memory::new(1 << 20, 0);
        assert!(memory.freeze().is_none());
        assert_eq!(memory.write(&put(b"key", b"value")), PAIR_BYTES + 8);
        assert_eq!(memory.write(&put(b"key", b"v")), PAIR_BYTES + 4);
        let mut gone = Batch::new();
        gone.delete(b"key".to_vec());
        assert_eq!(memory.write(&gone), PAIR_BYTES + 3);
        assert_eq!(memory.written(b"key"), Some(None));
        memory.freeze().unwrap();
        assert_eq!(memory.write(&Batch::new()), 0);
        assert_eq!(memory.unflushed_bytes(), PAIR_BYTES + 3);
        memory.thaw();
        assert_eq!(memory.unflushed_bytes(), 0);
    }
}
