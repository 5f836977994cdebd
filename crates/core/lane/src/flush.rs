//! Flush of the store, and what the log need not keep after it.

use crate::error::LaneError;
use pandofs_storage::log::Log;
use pandofs_storage::store::Store;
use pandofs_types::ShardId;

/// The last record of each shard whose effects have been written to the store.
pub type Written = Vec<(ShardId, u64)>;

/// Makes durable what `written` says is in the store, and only then lets the log go of it. A crash in
/// between leaves records in the log that the store holds already; they are skipped at the next start.
///
/// # Errors
/// The store's or the log's. Nothing is pruned that is not flushed.
pub fn flush(
    store: &dyn Store,
    log: &dyn Log,
    written: &[(ShardId, u64)],
) -> Result<(), LaneError> {
    log.sync()?;
    store.flush()?;
    for &(shard, upto) in written {
        // A stream without records: pruning would only tell it where to go on, which it knows.
        if log
            .span(u64::from(shard.0))
            .is_some_and(|(first, _)| first <= upto)
        {
            log.prune(u64::from(shard.0), upto)?;
        }
    }
    log.reclaim()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_storage::log::{Entry, MemoryLog};
    use pandofs_storage::store::{Batch, KvRead, MemoryStore};

    fn append(log: &MemoryLog, stream: u64, indexes: std::ops::RangeInclusive<u64>) {
        for index in indexes {
            log.append(&[Entry {
                stream,
                index,
                payload: b"record",
            }])
            .unwrap();
        }
    }

    #[test]
    fn a_store_that_cannot_flush_keeps_its_log() {
        struct Broken(MemoryStore);
        impl KvRead for Broken {
            fn get(
                &self,
                key: &[u8],
            ) -> Result<Option<Vec<u8>>, pandofs_storage::store::StoreError> {
                self.0.get(key)
            }
            fn get_cached(
                &self,
                key: &[u8],
            ) -> Result<pandofs_storage::store::Cached, pandofs_storage::store::StoreError>
            {
                self.0.get_cached(key)
            }
            fn scan(
                &self,
                start: &[u8],
                end: &[u8],
                visit: &mut pandofs_storage::store::Visit<'_>,
            ) -> Result<(), pandofs_storage::store::StoreError> {
                self.0.scan(start, end, visit)
            }
        }
        impl Store for Broken {
            fn write(&self, batch: &Batch) -> Result<(), pandofs_storage::store::StoreError> {
                self.0.write(batch)
            }
            fn flush(&self) -> Result<(), pandofs_storage::store::StoreError> {
                Err(pandofs_storage::store::StoreError::Full)
            }
            fn size_bytes(&self) -> u64 {
                self.0.size_bytes()
            }
        }
        let log = MemoryLog::new();
        append(&log, 3, 1..=10);
        let error = flush(&Broken(MemoryStore::new()), &log, &[(ShardId(3), 7)]).unwrap_err();
        assert!(matches!(error, LaneError::Store(_)), "{error}");
        assert_eq!(log.span(3), Some((1, 10)));
    }
}
