//! Uncommitted writes over a store.

use crate::store::cache::ReadCache;
use crate::store::port::Visit;
use crate::store::{Batch, Cached, KvRead, Store, StoreError};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::cell::RefCell;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of keys and values read lately that are kept, unless another number is given.
pub(crate) const RECENT_READS_BYTES: usize = 32 << 20;
/// Keys in order for which a sort takes as long as for one new key to be put among them: the sort
/// compares each with its neighbour, the insertion searches and moves the rest of the index.
const SORTED_PER_INSERTION: usize = 32;

/// Writes that no store has yet, over one that shows through where they do not cover it.
///
/// It keeps what it reads from the store, so nothing else may write to the store while it lives.
///
/// A lane applies the records of many batches and all its shards to one overlay, and hands the result to
/// the store as one batch when it has become large. A point lookup is one probe of a hash table before it
/// asks the store; the order of keys is only worked out by a scan.
pub struct Overlay<'s> {
    store: Under<'s>,
    /// One place for each key written, in the order of first writes. `None` is a delete.
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Finds a key's place. Its order is never looked at, so its seed changes no result.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Places in the ascending order of their keys: of the first `sorted.len()` writes.
    sorted: RefCell<Vec<u32>>,
    /// The place of each write, in the order of all writes.
    journal: Vec<u32>,
    /// Writes that earlier batches took out of the journal.
    journal_taken: usize,
    /// Of the keys and values of `writes`.
    bytes: usize,
    cache: RefCell<ReadCache>,
}

/// The store that shows through.
enum Under<'s> {
    Borrowed(&'s dyn Store),
    Shared(Arc<dyn Store>),
}

impl Under<'_> {
    fn store(&self) -> &dyn Store {
        match self {
            Under::Borrowed(store) => *store,
            Under::Shared(store) => &**store,
        }
    }
}

impl Overlay<'static> {
    /// One that has its part in the store, and keeps so many bytes of what was read lately.
    pub fn shared(store: Arc<dyn Store>, recent_reads: usize) -> Overlay<'static> {
        Overlay::over(Under::Shared(store), recent_reads)
    }
}

impl<'s> Overlay<'s> {
    /// Keeps `RECENT_READS_BYTES` of what is read through it.
    pub fn new(store: &'s dyn Store) -> Overlay<'s> {
        Overlay::with_room(store, RECENT_READS_BYTES)
    }

    /// One that keeps so many bytes of what was read lately.
    pub fn with_room(store: &'s dyn Store, recent_reads: usize) -> Overlay<'s> {
        Overlay::over(Under::Borrowed(store), recent_reads)
    }

    fn over(store: Under<'s>, recent_reads: usize) -> Overlay<'s> {
        Overlay {
            store,
            writes: Vec::new(),
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            sorted: RefCell::new(Vec::new()),
            journal: Vec::new(),
            journal_taken: 0,
            bytes: 0,
            cache: RefCell::new(ReadCache::of(recent_reads)),
        }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.set(key, Some(value));
    }

    /// Removes `key`, whether it is there or not.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.set(key, None);
    }

    /// Whether nothing was written since the overlay was made or its batch taken.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of the keys and values that a batch would have now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the writes out, one for each key, and leaves the overlay empty. The caller writes the batch
    /// to the store before it reads again.
    pub fn take_batch(&mut self) -> Batch {
        self.places.clear();
        self.sorted.get_mut().clear();
        self.journal_taken += self.journal.len();
        self.journal.clear();
        self.bytes = 0;
        let cache = self.cache.get_mut();
        for (key, value) in &self.writes {
            cache.wrote(key, value.as_deref());
        }
        Batch::from(std::mem::take(&mut self.writes))
    }

    /// The present end of the journal of written keys, for [`Overlay::keys_written_since`].
    pub fn mark(&self) -> usize {
        self.journal_taken + self.journal.len()
    }

    /// The keys put or deleted since `mark`, in the order of the writes; a key written twice comes
    /// twice.
    ///
    /// # Panics
    /// When a batch was taken after `mark`: the keys between are forgotten, and leaving them out
    /// would lose changes.
    pub fn keys_written_since(&self, mark: usize) -> impl Iterator<Item = &[u8]> {
        assert!(
            mark >= self.journal_taken && mark <= self.mark(),
            "mark {mark} is not in the journal {}..={}",
            self.journal_taken,
            self.mark()
        );
        self.journal[mark - self.journal_taken..]
            .iter()
            .map(|&place| self.writes[place as usize].0.as_slice())
    }

    fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let Overlay {
            writes,
            places,
            hasher,
            journal,
            bytes,
            ..
        } = self;
        *bytes += value.as_ref().map_or(0, Vec::len);
        let hash = hasher.hash_one(key.as_slice());
        let place = match places.find(hash, |&place| writes[place as usize].0 == key) {
            Some(&place) => {
                let written = &mut writes[place as usize].1;
                *bytes -= written.as_ref().map_or(0, Vec::len);
                *written = value;
                place
            }
            None => {
                assert!(
                    writes.len() < u32::MAX as usize,
                    "an overlay is one batch, not a store"
                );
                let place = writes.len() as u32;
                *bytes += key.len();
                writes.push((key, value));
                places.insert_unique(hash, place, |&place| {
                    hasher.hash_one(writes[place as usize].0.as_slice())
                });
                place
            }
        };
        journal.push(place);
    }

    /// Value written to `key` here, if any.
    fn written(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.writes.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let place = *self
            .places
            .find(hash, |&place| self.writes[place as usize].0 == key)?;
        Some(self.writes[place as usize].1.as_deref())
    }

    /// Brings the sorted index up to date. A scan inside a scan finds nothing to do here, since
    /// nothing can be written while one of them holds the overlay.
    fn sort(&self) {
        let known = self.sorted.borrow().len();
        if known == self.writes.len() {
            return;
        }
        let mut sorted = self.sorted.borrow_mut();
        let key = |place: u32| self.writes[place as usize].0.as_slice();
        let new = known as u32..self.writes.len() as u32;
        if new.len() * SORTED_PER_INSERTION <= known {
            for place in new {
                let at = sorted.partition_point(|&other| key(other) < key(place));
                sorted.insert(at, place);
            }
        } else {
            sorted.extend(new);
            // A stable sort takes the part that is in order already as one run.
            sorted.sort_by(|&a, &b| key(a).cmp(key(b)));
        }
    }
}

impl KvRead for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.written(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => {
                if let Some(known) = self.cache.borrow_mut().get(key) {
                    return Ok(known.clone());
                }
                let value = self.store.store().get(key)?;
                self.cache.borrow_mut().insert(key, value.clone());
                Ok(value)
            }
        }
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        match self.written(key) {
            Some(value) => Ok(Cached::Known(value.map(<[u8]>::to_vec))),
            None => {
                if let Some(known) = self.cache.borrow_mut().get(key) {
                    return Ok(Cached::Known(known.clone()));
                }
                let cached = self.store.store().get_cached(key)?;
                if let Cached::Known(value) = &cached {
                    self.cache.borrow_mut().insert(key, value.clone());
                }
                Ok(cached)
            }
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        self.sort();
        let sorted = self.sorted.borrow();
        let write = |place: u32| &self.writes[place as usize];
        let from = sorted.partition_point(|&place| write(place).0.as_slice() < start);
        let to = sorted.partition_point(|&place| write(place).0.as_slice() < end);
        let mut own = sorted[from..to]
            .iter()
            .map(|&place| write(place))
            .peekable();
        if own.peek().is_none() {
            return self.store.store().scan(start, end, visit);
        }

        let mut stopped = false;
        self.store.store().scan(start, end, &mut |key, value| {
            while let Some((own_key, own_value)) = own.next_if(|(own, _)| own.as_slice() < key) {
                if let Some(own_value) = own_value
                    && visit(own_key, own_value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match own.next_if(|(own, _)| own.as_slice() == key) {
                Some((_, Some(own_value))) => visit(key, own_value),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        for (key, value) in own {
            if let Some(value) = value
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn number(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    fn scanned(read: &dyn KvRead, start: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        read.scan(start, end, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }

    #[test]
    fn a_batch_has_one_write_for_each_key_and_leaves_nothing_behind() {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        overlay.put(b"a".to_vec(), b"1".to_vec());
        overlay.delete(b"a".to_vec());
        overlay.put(b"a".to_vec(), b"2".to_vec());
        overlay.delete(b"b".to_vec());
        overlay.put(b"c".to_vec(), b"long".to_vec());
        overlay.put(b"c".to_vec(), b"3".to_vec());
        assert_eq!((overlay.bytes(), overlay.is_empty()), (5, false));
        let batch = overlay.take_batch();
        let writes: Vec<_> = batch.iter().collect();
        let expected = [
            (&b"a"[..], Some(&b"2"[..])),
            (&b"b"[..], None),
            (&b"c"[..], Some(&b"3"[..])),
        ];
        assert_eq!(writes, expected);
        assert!(overlay.is_empty());
        assert_eq!(overlay.bytes(), 0);
        assert_eq!(overlay.get(b"a").unwrap(), None);
        assert!(scanned(&overlay, b"", b"z").is_empty());
        assert!(overlay.take_batch().is_empty());
    }

    #[test]
    fn the_journal_tells_writes_since_a_mark_in_order() {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        overlay.put(b"before".to_vec(), vec![]);
        let mark = overlay.mark();
        assert_eq!(overlay.keys_written_since(mark).count(), 0);
        overlay.put(b"x".to_vec(), vec![]);
        overlay.delete(b"before".to_vec());
        overlay.put(b"x".to_vec(), vec![1]);
        let keys: Vec<_> = overlay.keys_written_since(mark).collect();
        assert_eq!(keys, [&b"x"[..], b"before", b"x"]);

        let _ = overlay.take_batch();
        let mark = overlay.mark();
        overlay.put(b"y".to_vec(), vec![]);
        assert_eq!(overlay.keys_written_since(mark).collect::<Vec<_>>(), [b"y"]);
    }

    #[test]
    #[should_panic(expected = "is not in the journal")]
    fn a_mark_does_not_outlive_its_batch() {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        let mark = overlay.mark();
        overlay.put(b"x".to_vec(), vec![]);
        let _ = overlay.take_batch();
        let _ = overlay.keys_written_since(mark).count();
    }

    /// Both ways into the sorted index: many new keys are sorted in, a few are put in one by one.
    #[test]
    fn keys_written_between_scans_are_found_in_order() {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        let mut written = 0;
        for round in [1_000, 1, 10, 100, 500, 20] {
            for _ in 0..round {
                // 7 has no factor in common with 4096: every number below comes once.
                overlay.put(number(written * 7 % 4_096), number(written));
                written += 1;
            }
            let found = scanned(&overlay, &number(0), &number(5_000));
            assert_eq!(found.len(), written as usize);
            assert!(found.is_sorted());
        }
    }

    #[test]
    fn a_visitor_may_read_the_overlay_it_scans() {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        overlay.put(b"a".to_vec(), b"b".to_vec());
        overlay.put(b"b".to_vec(), b"a".to_vec());
        let mut seen = 0;
        overlay
            .scan(b"a", b"z", &mut |key, value| {
                assert_eq!(overlay.get(value).unwrap().unwrap(), key);
                assert_eq!(scanned(&overlay, b"a", b"z").len(), 2);
                seen += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, 2);
    }
}
