//! The store in directories keeps the promises of the port.

#![allow(clippy::unwrap_used, reason = "what tests call is test code, too")]

use pandofs_storage::store::suite::{self, ReopenableStore, assert_a_prefix, numbered};
use pandofs_storage::store::{Batch, Cached, KvRead, Store, StoreError, Visit};
use pandofs_store_directories::{DirectoriesStore, Options};
use tempfile::TempDir;

/// Less memory than the suite writes: it is flushed while the suite runs, and little of what was read is kept.
const TIGHT: Options = Options {
    cache_bytes: 16 << 10,
    write_buffer_bytes: 64 << 10,
};
/// So little that no list of a folder fits.
const TIGHTEST: Options = Options {
    cache_bytes: 0,
    write_buffer_bytes: 0,
};

struct InDirectory {
    store: DirectoriesStore,
    directory: TempDir,
    options: Options,
}

impl InDirectory {
    fn new(options: Options) -> InDirectory {
        let directory = tempfile::tempdir().unwrap();
        let store = DirectoriesStore::open(directory.path(), options).unwrap();
        InDirectory {
            store,
            directory,
            options,
        }
    }
}

impl KvRead for InDirectory {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }
    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        self.store.get_cached(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.store.scan(start, end, visit)
    }
}

impl Store for InDirectory {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.write(batch)
    }
    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
}

impl ReopenableStore for InDirectory {
    fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableStore> {
        let InDirectory {
            store,
            directory,
            options,
        } = *self;
        drop(store);
        let store = DirectoriesStore::open(directory.path(), options).unwrap();
        Box::new(InDirectory {
            store,
            directory,
            options,
        })
    }
}

#[test]
fn it_passes_the_suite() {
    suite::run(&|| Box::new(InDirectory::new(Options::default())));
}

#[test]
fn it_passes_the_suite_short_of_memory() {
    suite::run(&|| Box::new(InDirectory::new(TIGHT)));
}

/// Every write is a flush then; without what takes thousands of them.
#[test]
fn it_passes_the_suite_without_memory() {
    let make = || -> Box<dyn ReopenableStore> { Box::new(InDirectory::new(TIGHTEST)) };
    suite::puts_and_deletes_are_seen_at_once(make());
    suite::the_later_of_two_writes_wins(make());
    suite::any_bytes_are_a_key(make());
    suite::large_values_come_back(make());
    suite::size_grows(make());
    suite::scans_are_ordered_and_half_open(make());
    suite::scans_stop_when_told(make());
    suite::visitors_may_read_the_store(make());
    suite::what_was_flushed_survives(make());
}

/// Without this, the tests that drop a store to see what a crash leaves would see a clean exit.
#[test]
fn a_drop_loses_what_was_not_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let store = DirectoriesStore::open(directory.path(), Options::default()).unwrap();
    for number in 1..=10 {
        store.write(&numbered(number)).unwrap();
        if number == 4 {
            store.flush().unwrap();
        }
    }
    assert_eq!(assert_a_prefix(&store), 10);
    drop(store);
    let store = DirectoriesStore::open(directory.path(), Options::default()).unwrap();
    assert_eq!(assert_a_prefix(&store), 4);
}

#[test]
fn a_full_write_buffer_goes_to_disk_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = DirectoriesStore::open(directory.path(), TIGHT).unwrap();
    let written = 2_000;
    for number in 1..=written {
        store.write(&numbered(number)).unwrap();
    }
    drop(store);
    let left = assert_a_prefix(&DirectoriesStore::open(directory.path(), TIGHT).unwrap());
    assert!(left > 0 && left < written, "{left}");
}

#[test]
fn what_is_on_disk_only_is_cold_until_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = DirectoriesStore::open(directory.path(), Options::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(b"key".to_vec(), b"value".to_vec());
    batch.put(b"key-2".to_vec(), b"value".to_vec());
    store.write(&batch).unwrap();
    store.flush().unwrap();
    drop(store);

    let store = DirectoriesStore::open(directory.path(), Options::default()).unwrap();
    assert_eq!(store.get_cached(b"key").unwrap(), Cached::Cold);
    assert_eq!(store.get_cached(b"key-3").unwrap(), Cached::Cold);
    assert_eq!(store.get(b"key").unwrap(), Some(b"value".to_vec()));
    assert_eq!(
        store.get_cached(b"key").unwrap(),
        Cached::Known(Some(b"value".to_vec()))
    );
    assert_eq!(store.get(b"key-3").unwrap(), None);
    // Of the same folder, whose list is in memory since.
    assert_eq!(store.get_cached(b"key-4").unwrap(), Cached::Known(None));
    assert_eq!(store.get_cached(b"key-2").unwrap(), Cached::Cold);
    let mut batch = Batch::new();
    batch.put(b"key-4".to_vec(), b"value".to_vec());
    batch.delete(b"key-2".to_vec());
    store.write(&batch).unwrap();
    store.flush().unwrap();
    assert_eq!(store.get_cached(b"key-2").unwrap(), Cached::Known(None));
    assert_eq!(
        store.get_cached(b"key-4").unwrap(),
        Cached::Known(Some(b"value".to_vec()))
    );
}
