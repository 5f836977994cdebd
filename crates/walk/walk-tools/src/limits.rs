//! Limits of the tools, with their units.

use std::time::Duration;

/// Bytes of a large file that one thread of a tool copies, compares or reads at once. A power of
/// two.
pub(crate) const PIECE_BYTES: u64 = 64 << 20;
/// Bytes of rows that a tool gathers for one group of a Parquet file, for all threads and
/// processes together.
pub(crate) const TABLE_BYTES: usize = 4 << 20;
/// Rows of such a group.
pub(crate) const TABLE_ROWS: usize = 16_384;
/// Names of files with several names that are sorted in memory at once, each of 32 bytes.
pub(crate) const LINKED_NAMES: usize = 131_072;
/// Sorted parts of such names that are read together, each with a buffer of 8 KiB.
pub(crate) const LINKED_PARTS: usize = 512;
/// Time between two times that a tool forces the pieces of a large copy to disk, so that another
/// run need not copy them again.
pub(crate) const BETWEEN_FORCED_PIECES: Duration = Duration::from_secs(10);
/// Large copies of which a process remembers pieces that were not forced.
pub(crate) const UNFORCED_FILES: usize = 4_096;

const _: () = assert!(PIECE_BYTES.is_power_of_two());
