//! A store in memory that can crash.

use crate::store::port::Visit;
use crate::store::{Batch, Cached, KvRead, Store, StoreError};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store for tests and the simulator. It keeps what was flushed apart from what was not, so that
/// [`MemoryStore::crash`] can lose any suffix of the unflushed writes.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Contents for reads. Shared with the scans under way, which hold no lock while they visit: a
    /// visitor that reads would otherwise wait for a writer that waits for the visitor's scan.
    current: Arc<Map>,
    flushed: Map,
    /// Oldest first: `flushed` with these applied is `current`.
    unflushed: Vec<Batch>,
}

impl MemoryStore {
    /// Empty, with nothing synced.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns the store after a crash that lets `keep` of the unflushed batches survive: the first
    /// ones, or all when there are no more than that. This store is untouched.
    pub fn crash(&self, keep: usize) -> MemoryStore {
        let state = self.read();
        let mut survived = state.flushed.clone();
        for batch in state.unflushed.iter().take(keep) {
            apply(&mut survived, batch);
        }
        let current = Arc::new(survived.clone());
        let state = State {
            current,
            flushed: survived,
            unflushed: Vec::new(),
        };
        MemoryStore {
            state: RwLock::new(state),
        }
    }

    /// The number of batches that a crash may lose.
    pub fn unflushed(&self) -> usize {
        self.read().unflushed.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state
            .read()
            .expect("no thread panicked in the middle of a write")
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, State> {
        self.state
            .write()
            .expect("no thread panicked in the middle of a write")
    }
}

fn apply(map: &mut Map, batch: &Batch) {
    for (key, value) in batch.iter() {
        match value {
            Some(value) => {
                map.insert(key.to_vec(), value.to_vec());
            }
            None => {
                map.remove(key);
            }
        }
    }
}

impl KvRead for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.read().current.get(key).cloned())
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        self.get(key).map(Cached::Known)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let snapshot = Arc::clone(&self.read().current);
        let range = (Bound::Included(start), Bound::Excluded(end));
        for (key, value) in snapshot.range::<[u8], _>(range) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut state = self.write_lock();
        apply(Arc::make_mut(&mut state.current), batch);
        state.unflushed.push(batch.clone());
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        let mut state = self.write_lock();
        for batch in std::mem::take(&mut state.unflushed) {
            apply(&mut state.flushed, &batch);
        }
        assert!(
            state.flushed.len() == state.current.len(),
            "a flush keeps the number of keys"
        );
        Ok(())
    }

    /// The bytes of all keys and values; walks them all.
    fn size_bytes(&self) -> u64 {
        let state = self.read();
        state
            .current
            .iter()
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_flushed_and_the_first_batches_after() {
        let put = |n: u8| {
            let mut batch = Batch::new();
            batch.put(vec![n], vec![n]);
            batch
        };
        let store = MemoryStore::new();
        store.write(&put(1)).unwrap();
        store.flush().unwrap();
        store.write(&put(2)).unwrap();
        store.write(&put(3)).unwrap();
        assert_eq!(store.unflushed(), 2);

        let left = store.crash(1);
        assert_eq!(left.get(&[1]).unwrap(), Some(vec![1]));
        assert_eq!(left.get(&[2]).unwrap(), Some(vec![2]));
        assert_eq!(left.get(&[3]).unwrap(), None);
        assert_eq!(left.unflushed(), 0);
        assert_eq!(left.crash(0).get(&[2]).unwrap(), Some(vec![2]));

        assert_eq!(store.crash(0).get(&[2]).unwrap(), None);
        assert_eq!(store.crash(9).get(&[3]).unwrap(), Some(vec![3]));
        assert_eq!(store.get(&[3]).unwrap(), Some(vec![3]));
        assert_eq!(store.size_bytes(), 6);
    }

    #[test]
    fn a_check_reads_every_pair_until_it_is_told_to_end() {
        let store = MemoryStore::new();
        let mut batch = Batch::new();
        for (key, value) in [(&b"a"[..], &b"long"[..]), (b"bc", b""), (b"d", b"xyz")] {
            batch.put(key.to_vec(), value.to_vec());
        }
        store.write(&batch).unwrap();
        let read_until = |most: usize| {
            let mut read = Vec::new();
            let mut note = |bytes| {
                read.push(bytes);
                match read.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            store.verify(&mut note).unwrap();
            read
        };
        assert_eq!(read_until(9), [5, 2, 4]);
        assert_eq!(read_until(2), [5, 2]);
        assert_eq!(store.size_bytes(), 11);
    }
}
