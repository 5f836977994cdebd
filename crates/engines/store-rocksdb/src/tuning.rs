//! Settings of RocksDB, for many small point lookups and small batches on two cores.

use crate::failure::open_failure;
use pandofs_storage::store::StoreError;
use pandofs_types::limits::{
    DEFAULT_BLOCK_CACHE_BYTES, DEFAULT_WRITE_BUFFER_BYTES, MAX_OPEN_TABLES, STORE_WRITE_BUFFERS,
};
use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, DBCompressionType, InfoLogger, LogLevel,
    LruCacheOptions, ReadOptions,
};

/// Bytes before the first write of a RocksDB batch.
pub(crate) const BATCH_HEADER_BYTES: usize = 12;
/// Bytes before a write's key and value in a RocksDB batch: its kind and two lengths.
pub(crate) const WRITE_HEADER_BYTES: usize = 11;

/// Bits of a bloom filter for each key: 1 % of lookups of absent keys read a block for nothing.
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Part of a memtable's memory that its bloom filter takes. With it, two gets and a batch of three
/// puts take a tenth less time; most of the gets ask whether a name is free.
const MEMTABLE_BLOOM_RATIO: f64 = 0.05;
/// One flush and one compaction at a time.
const BACKGROUND_JOBS: i32 = 2;
/// Bytes written between two requests to the system to write them back, so that the `fsync` at a
/// file's end has little left to do.
const BYTES_PER_SYNC: u64 = 1 << 20;
/// The block cache is divided into 1 << this. RocksDB would make parts of 512 KiB: what stays in one, filters and
/// indexes, can be all of it, and then no data block of that part is ever found in the cache. A lane and the few threads
/// that read for it are not in one another's way in four.
const BLOCK_CACHE_SHARD_BITS: i32 = 2;
/// Files that RocksDB's own messages are kept in, and bytes of each.
const INFO_LOG_FILES: usize = 4;
const INFO_LOG_BYTES: usize = 1 << 20;

/// How much memory a store may take, apart from what it takes up in bulk scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of blocks, filters and indexes kept to be read again. One store's own: a process with
    /// several divides what it has among them.
    pub block_cache_bytes: usize,
    /// Bytes of writes kept in memory before they go to a file without being asked to.
    pub write_buffer_bytes: usize,
    /// Tables kept open; of others a read opens the file again.
    pub open_tables: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_cache_bytes: DEFAULT_BLOCK_CACHE_BYTES,
            write_buffer_bytes: DEFAULT_WRITE_BUFFER_BYTES,
            open_tables: MAX_OPEN_TABLES,
        }
    }
}

/// Purpose for which a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Make,
    ReadWrite,
    ReadOnly,
}

/// RocksDB's options for a database.
pub(crate) fn database(options: Options, access: Access) -> Result<rocksdb::Options, StoreError> {
    // The binding has no setter for this one. Without it a drop would flush, and tests that drop a
    // store to see what a crash leaves would see a clean exit.
    let mut database = rocksdb::Options::default()
        .get_options_from_string("avoid_flush_during_shutdown=true")
        .map_err(|error| open_failure("RocksDB".as_ref(), error))?;
    database.create_if_missing(access == Access::Make);
    database.set_paranoid_checks(true);
    database.set_compression_type(DBCompressionType::Lz4);
    database.set_write_buffer_size(options.write_buffer_bytes);
    database.set_max_write_buffer_number(STORE_WRITE_BUFFERS as i32);
    database.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO);
    database.set_memtable_whole_key_filtering(true);
    database.set_max_open_files(i32::try_from(options.open_tables).unwrap_or(i32::MAX));
    database.set_max_background_jobs(BACKGROUND_JOBS);
    database.set_bytes_per_sync(BYTES_PER_SYNC);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database.set_block_based_table_factory(&tables(options));
    if access == Access::ReadOnly {
        // RocksDB would otherwise begin a message file in the store's directory.
        database.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
    } else {
        database.set_log_level(LogLevel::Warn);
        database.set_keep_log_file_num(INFO_LOG_FILES);
        database.set_max_log_file_size(INFO_LOG_BYTES);
    }
    Ok(database)
}

/// Options for a read; each block read from the disk is checked.
pub(crate) fn reads() -> ReadOptions {
    let mut reads = ReadOptions::default();
    reads.set_verify_checksums(true);
    reads
}

fn tables(options: Options) -> BlockBasedOptions {
    let mut tables = BlockBasedOptions::default();
    let mut cache = LruCacheOptions::default();
    cache.set_capacity(options.block_cache_bytes);
    cache.set_num_shard_bits(BLOCK_CACHE_SHARD_BITS);
    tables.set_block_cache(&Cache::new_lru_cache_opts(&cache));
    tables.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    tables.set_whole_key_filtering(true);
    // Filters and indexes count as cache but do not leave it: only data blocks are ever cold, and
    // most lookups of an absent key need none.
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    tables
}
