//! Limits of a mount that nothing else uses, and their relations.

use pandofs_types::limits::{
    MAX_IO_BYTES, MAX_READDIR_BYTES, MAX_READDIR_ENTRIES, MAX_SPARE_MOUNT_THREADS,
    MIN_WRITE_BEHIND_BYTES,
};
use std::time::Duration;

/// Threads of programs of which a mount remembers that they got `ESTALE`.
pub(crate) const MAX_STALE_THREADS: usize = 64;
/// Operations of one mount that go on though the programs that asked for them were killed, each on
/// a thread. With as many further programs wait for theirs, killed or not.
pub(crate) const MAX_ABANDONED_REQUESTS: usize = 128;
/// Requests of one mount that no program waits for (read-ahead, closes) and the kernel has under
/// way.
pub(crate) const MAX_BACKGROUND_REQUESTS: u16 = 256;
/// One in so many bytes of a mount's memory is left for what follows from what programs hold.
pub(crate) const MOUNT_UNDIVIDED_FRACTION: u64 = 8;
/// Bytes of a mount of which nothing was asked: its program, libraries and first threads, a cluster
/// map.
pub(crate) const MOUNT_BASE_BYTES: usize = 40 << 20;
/// Bytes that one thread of a mount takes beside file data: its stack, what the allocator keeps for
/// it, and the buffers of the connections that it uses at once.
pub(crate) const MOUNT_THREAD_BYTES: usize = 384 << 10;
/// Bytes of file data in one request of the kernel, where there is little memory. A page of a
/// listing takes as much.
pub(crate) const MIN_MOUNT_IO_BYTES: usize = 256 << 10;
/// Spare threads of a mount with little memory.
pub(crate) const MIN_SPARE_MOUNT_THREADS: usize = 16;
/// Bytes of the caches of a mount and its client, where there is little memory.
pub(crate) const MIN_CACHE_BYTES: usize = 8 << 20;
/// The caches of a mount take no more than one in so many bytes of its memory.
pub(crate) const MOUNT_CACHE_FRACTION: usize = 5;
/// Directories of which one mount remembers attributes.
pub(crate) const MAX_KNOWN_DIRECTORIES: usize = 16_384;
/// Inodes of which one mount remembers that they have no extended attributes, and as many that it
/// gave some. Half of what a hash table with 131,072 places holds, as the client's table of
/// unsynced inodes.
pub(crate) const MAX_KNOWN_WITHOUT_XATTRS: usize = 131_072 / 8 * 7 / 2;
/// Files that are not open of which one mount remembers what the kernel has of them: what a hash table with 65,536 places
/// holds.
pub(crate) const MAX_KNOWN_PAGES: usize = 65_536 / 8 * 7;
/// Entries one mount asks for to answer the kernel once: what fits the 32 KiB that the C library
/// reads at once, with names of about 20 bytes.
pub(crate) const MOUNT_LISTING_ENTRIES: usize = 768;
/// The same for entries with attributes.
pub(crate) const MOUNT_LISTING_PLUS_ENTRIES: usize = 192;
/// Read-ahead of the kernel for a program that reads in order, where the mount may set it, in
/// requests full of file data: two of them, so that one is under way while the other is looked at.
pub(crate) const MOUNT_READ_AHEAD_REQUESTS: usize = 2;
/// Bytes a program had best read or write at once (`st_blksize`); copying programs and language
/// libraries size their buffers by it, and each of their calls is a request to the mount.
pub(crate) const PREFERRED_IO_BYTES: u32 = 128 << 10;

const _: () = {
    assert!(MIN_SPARE_MOUNT_THREADS <= MAX_SPARE_MOUNT_THREADS);
    assert!(MAX_READDIR_BYTES <= MIN_MOUNT_IO_BYTES && MIN_MOUNT_IO_BYTES <= MAX_IO_BYTES);
    assert!(MIN_WRITE_BEHIND_BYTES <= MIN_MOUNT_IO_BYTES);
    assert!(MAX_ABANDONED_REQUESTS <= MAX_SPARE_MOUNT_THREADS / 2);
    assert!(MOUNT_LISTING_ENTRIES <= MAX_READDIR_ENTRIES);
};
/// Lines about slow requests that a mount writes to its log in one period.
pub(crate) const MAX_SLOW_LINES: u32 = 10;
/// That period.
pub(crate) const SLOW_LINES_PERIOD: Duration = Duration::from_secs(10);
/// The mount logs a request that is not answered when it has taken so many times as long as a slow one, and then each
/// time that it has taken twice as long.
pub(crate) const STILL_SLOW: u32 = 5;
