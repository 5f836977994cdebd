//! Division of a server's memory.
//!
//! Each use that takes as much memory as it is given has a part of a sum that can be set: blocks of
//! the store that are kept to be read again, what was read of them lately, writes that the store
//! has not written to files, and what requests bring and answers take. The rest, an eighth, is for
//! what follows from other limits: operations under way, sessions, opens, locks, maps of
//! directories, the log's index.

use pandofs_types::limits::{MIN_SERVER_MEMORY_BYTES, STORE_WRITE_BUFFERS};

/// Bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub block_cache: usize,
    pub recent_reads: usize,
    /// One of [`STORE_WRITE_BUFFERS`].
    pub write_buffer: usize,
    pub requests: usize,
}

impl Memory {
    /// Of `total` bytes, or of the least there is.
    pub(crate) fn of(total: u64) -> Memory {
        let total = usize::try_from(total.max(MIN_SERVER_MEMORY_BYTES)).unwrap_or(usize::MAX);
        Memory {
            block_cache: total / 3,
            recent_reads: total / 24,
            write_buffer: total / 3 / STORE_WRITE_BUFFERS,
            requests: total / 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::limits::{
        DEFAULT_BLOCK_CACHE_BYTES, DEFAULT_SERVER_MEMORY_BYTES, DEFAULT_WRITE_BUFFER_BYTES,
        MAX_FRAME_BYTES,
    };

    #[test]
    fn the_parts_add_up_to_less_than_the_whole() {
        let default = Memory::of(DEFAULT_SERVER_MEMORY_BYTES);
        assert_eq!(default.block_cache, DEFAULT_BLOCK_CACHE_BYTES);
        assert_eq!(default.write_buffer, DEFAULT_WRITE_BUFFER_BYTES);
        for total in [MIN_SERVER_MEMORY_BYTES, 1 << 30, 1 << 40] {
            let memory = Memory::of(total);
            let sum = memory.block_cache
                + memory.recent_reads
                + STORE_WRITE_BUFFERS * memory.write_buffer
                + memory.requests;
            assert!(sum as u64 <= total / 8 * 7 + 8);
            assert!(memory.requests >= MAX_FRAME_BYTES);
        }
        assert_eq!(Memory::of(0), Memory::of(MIN_SERVER_MEMORY_BYTES));
    }
}
