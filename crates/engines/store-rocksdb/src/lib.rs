//! The store in RocksDB.
//!
//! RocksDB's own write-ahead log is off: the shard's log is the truth, and would be written twice.
//! So an exit that does not flush first, clean or not, leaves the state of the last flush, and the
//! shard's log replays the rest. Everything is in one column family, hence in one sequence of
//! memtables that reach the disk whole and in their order: what is found after a crash is a prefix
//! of the writes.
//!
//! Invariant: no other crate names RocksDB.

mod failure;
mod format;
mod tuning;

use failure::{StoreAt, open_failure};
use pandofs_storage::store::{Batch, Cached, KvRead, Store, StoreError, Visit};
use pandofs_types::limits::MIN_OPEN_TABLES;
use rocksdb::{DB, ErrorKind, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions};
use std::ops::ControlFlow;
use std::path::Path;
use tuning::Access;

pub use tuning::Options;

/// A store in a directory of its own.
///
/// Dropping it is like a crash: what was not flushed is lost. To keep it, call
/// [`Store::flush`] first.
///
/// Once a write to its files has failed, also for want of room, RocksDB takes no more writes: the
/// store still reads, and is opened again when the cause is gone.
pub struct RocksStore {
    db: DB,
    at: StoreAt,
    reads: ReadOptions,
    cached_reads: ReadOptions,
    writes: WriteOptions,
}

impl RocksStore {
    /// Opens the store in the directory `path`, or makes one there if the directory is missing or
    /// empty.
    ///
    /// # Errors
    /// [`StoreError::WrongFormat`] when the directory holds something else or a store of another
    /// version, [`StoreError::Corrupt`], and [`StoreError::Io`], for one when another process has
    /// the store open. Nothing of what the directory held is changed then.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<RocksStore, StoreError> {
        let path = path.as_ref();
        let is_new = format::prepare(path)?;
        let access = if is_new {
            Access::Make
        } else {
            Access::ReadWrite
        };
        let db = DB::open(&tuning::database(options, access)?, path)
            .map_err(|error| open_failure(path, error))?;
        if is_new {
            // Not before RocksDB made its files: a marker says that they have to be there. A crash
            // in between leaves a database in which nothing was ever written.
            if db.latest_sequence_number() != 0 {
                return Err(format::unmarked(path));
            }
            format::mark(path)?;
        }
        Ok(RocksStore::new(db, path))
    }

    /// Opens the store in the directory `path` to read what its last flush left, and changes
    /// nothing there. Writes and flushes give [`StoreError::Io`]. The store should not be in use:
    /// files that a running server drops go missing under the reader.
    ///
    /// # Errors
    /// As [`RocksStore::open`]; a missing directory gives [`StoreError::Io`].
    pub fn open_read_only(
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<RocksStore, StoreError> {
        let path = path.as_ref();
        format::check(path)?;
        let tuning = tuning::database(options, Access::ReadOnly)?;
        let db = DB::open_for_read_only(&tuning, path, false)
            .map_err(|error| open_failure(path, error))?;
        Ok(RocksStore::new(db, path))
    }

    fn new(db: DB, path: &Path) -> RocksStore {
        let mut cached_reads = tuning::reads();
        cached_reads.set_read_tier(ReadTier::BlockCache);
        let mut writes = WriteOptions::default();
        writes.disable_wal(true);
        let at = StoreAt::new(path);
        RocksStore {
            db,
            at,
            reads: tuning::reads(),
            cached_reads,
            writes,
        }
    }

    /// One of RocksDB's own figures, 0 if it does not know it.
    fn figure(&self, name: &str) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

impl KvRead for RocksStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.db.get_pinned_opt(key, &self.reads) {
            Ok(value) => Ok(value.map(|value| value.to_vec())),
            Err(error) => Err(self.at.failure("read", error)),
        }
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        match self.db.get_pinned_opt(key, &self.cached_reads) {
            Ok(value) => Ok(Cached::Known(value.map(|value| value.to_vec()))),
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(Cached::Cold),
            Err(error) => Err(self.at.failure("read", error)),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let mut reads = tuning::reads();
        reads.set_iterate_upper_bound(end);
        let mut iterator = self.db.raw_iterator_opt(reads);
        iterator.seek(start);
        while let Some((key, value)) = iterator.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            iterator.next();
        }
        iterator
            .status()
            .map_err(|error| self.at.failure("scan", error))
    }
}

impl Store for RocksStore {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let bytes: usize = batch
            .iter()
            .map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len))
            .sum();
        let mut writes = WriteBatch::with_capacity_bytes(
            tuning::BATCH_HEADER_BYTES + batch.len() * tuning::WRITE_HEADER_BYTES + bytes,
        );
        for (key, value) in batch.iter() {
            match value {
                Some(value) => writes.put(key, value),
                None => writes.delete(key),
            }
        }
        self.db
            .write_opt(writes, &self.writes)
            .map_err(|error| self.at.failure("write", error))
    }

    fn flush(&self) -> Result<(), StoreError> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db
            .flush_opt(&options)
            .map_err(|error| self.at.failure("flush", error))
    }

    /// The files in use, and what is still in memory only.
    fn size_bytes(&self) -> u64 {
        self.figure("rocksdb.live-sst-files-size") + self.figure("rocksdb.cur-size-all-mem-tables")
    }

    /// Through an instance of its own that only reads: what the store has in its cache was checked
    /// long ago, and would not be read again.
    fn verify(&self, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let reader = RocksStore::open_read_only(self.at.path(), VERIFYING);
            match reader.and_then(|reader| reader.scan_everything(read)) {
                // A file may go while the list is read that names it: then there is another list.
                Err(StoreError::Corrupt { .. }) if attempts < VERIFY_ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }
}

/// Bytes of memory for a reader that checks: nothing is read twice.
const VERIFYING: Options = Options {
    block_cache_bytes: 4 << 20,
    write_buffer_bytes: 64 << 10,
    open_tables: MIN_OPEN_TABLES,
};
/// Times that a damaged block has to be seen.
const VERIFY_ATTEMPTS: u32 = 3;

impl RocksStore {
    fn scan_everything(
        &self,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut reads = tuning::reads();
        reads.fill_cache(false);
        let mut iterator = self.db.raw_iterator_opt(reads);
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            if read((key.len() + value.len()) as u64).is_break() {
                return Ok(());
            }
            iterator.next();
        }
        iterator
            .status()
            .map_err(|error| self.at.failure("verify", error))
    }
}
