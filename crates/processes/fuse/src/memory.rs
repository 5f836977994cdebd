//! Shares of a mount's memory.
//!
//! It is given a number of bytes, and its process is to take no more, whatever programs do.
//! Everything that takes more the more it is used has a part with a limit of its own, so that no
//! thread has to wait for memory, and the sum holds because of what the parts are:
//!
//! - **Data.** A mount keeps none: what is read goes to the kernel and is kept there, if at all,
//!   and a write that is answered early is carried out by the thread that took it, from the buffer
//!   into which it was read. So all the data there is at one time is that of requests which threads
//!   have in hand, one each: what is written, as large as the kernel may make a request, and what
//!   is read, twice that where it comes in pieces from several servers and is put together. A
//!   thread that was there from the start keeps the memory for a write when it reads; a spare one
//!   gives it back, as there may be many, each with one request that waits. So what counts is how
//!   large requests are and how many threads there are.
//!   Over io_uring what is read is in the memory that a thread shares with its kernel, too, so there
//!   are two spare threads for each three by `/dev/fuse`.
//! - **What is remembered** so that less is asked ([`CacheLimits`], and the kernel's cache): each
//!   table has a number of entries at which it ends, and all numbers shrink alike with the part
//!   that they are given.
//! - **Connections** that a thread uses are part of what the thread takes, idle ones give their
//!   buffers back but for some ([`CacheLimits::buffered_connections`]).
//! - **The program** itself, and a recording that waits to be written.
//!
//! The rest, one byte in [`MOUNT_UNDIVIDED_FRACTION`], is for what follows from what programs hold:
//! open files and directories, locks, names that are longer than most. That has no limit here but
//! the system's for programs.
//!
//! Where there is little, requests become smaller first, down to [`MIN_MOUNT_IO_BYTES`], and then
//! fewer may wait for servers that are away before others wait for them.

use crate::limits::{
    MAX_ABANDONED_REQUESTS, MAX_KNOWN_DIRECTORIES, MAX_KNOWN_PAGES, MAX_KNOWN_WITHOUT_XATTRS,
    MIN_CACHE_BYTES, MIN_MOUNT_IO_BYTES, MIN_SPARE_MOUNT_THREADS, MOUNT_BASE_BYTES,
    MOUNT_CACHE_FRACTION, MOUNT_READ_AHEAD_REQUESTS, MOUNT_THREAD_BYTES, MOUNT_UNDIVIDED_FRACTION,
};
use pandofs_client::CacheLimits;
use pandofs_types::limits::{
    MAX_CACHE_BYTES, MAX_IO_BYTES, MAX_MOUNT_THREADS, MAX_SPARE_MOUNT_THREADS,
    MAX_TRACE_WAITING_BYTES,
};

/// Halves of [`MAX_IO_BYTES`] down to [`MIN_MOUNT_IO_BYTES`].
const SIZES: [usize; 3] = [MAX_IO_BYTES, MAX_IO_BYTES / 2, MAX_IO_BYTES / 4];

const _: () = assert!(SIZES[2] == MIN_MOUNT_IO_BYTES);

/// A mount's shares of everything. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of file data in one request of the kernel.
    pub io_bytes: usize,
    /// Threads in place of those whose requests wait for long.
    pub spare_threads: usize,
    /// Operations that go on though their programs were killed.
    pub abandoned_requests: usize,
    /// Limits of the client's caches; the kernel's cache has no more than that.
    pub cache_limits: CacheLimits,
    /// Directories of which attributes are remembered.
    pub directories: usize,
    /// Inodes that are known to have no extended attributes, and as many that were given some.
    pub without_xattrs: usize,
    /// Files that are not open and of which it is known what the kernel has of them.
    pub pages: usize,
}

/// A mount cannot do with so few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given} bytes of memory are too little for a mount with {threads} threads: give {}M at least",
    least.div_ceil(1 << 20)
)]
pub struct TooLittle {
    /// Bytes.
    pub given: u64,
    /// Threads that serve the kernel's requests, each of which takes memory.
    pub threads: usize,
    /// So many would do.
    pub least: u64,
}

/// Bytes of a thread that was there from the start.
fn of_thread(io_bytes: usize) -> usize {
    3 * io_bytes + MOUNT_THREAD_BYTES
}

/// Bytes of a spare thread.
fn of_spare(io_bytes: usize) -> usize {
    2 * io_bytes + MOUNT_THREAD_BYTES
}

impl Memory {
    /// Of `total` bytes, for a mount with so many threads, which is recorded or not.
    ///
    /// # Errors
    /// `TooLittle`.
    pub fn of(total: u64, threads: usize, is_recorded: bool) -> Result<Memory, TooLittle> {
        let threads = threads.clamp(1, MAX_MOUNT_THREADS);
        let recording = if is_recorded {
            2 * MAX_TRACE_WAITING_BYTES
        } else {
            0
        };
        let fixed = MOUNT_BASE_BYTES + recording;
        let fewest = threads * of_thread(MIN_MOUNT_IO_BYTES)
            + MIN_SPARE_MOUNT_THREADS * of_spare(MIN_MOUNT_IO_BYTES);
        let least = (fixed + MIN_CACHE_BYTES + fewest) as u64;
        let divided = usize::try_from(total - total / MOUNT_UNDIVIDED_FRACTION);
        let divided = divided.unwrap_or(usize::MAX);
        let Some(spared) = divided.checked_sub(least as usize) else {
            let undivided = least.div_ceil(MOUNT_UNDIVIDED_FRACTION - 1);
            return Err(TooLittle {
                given: total,
                threads,
                least: least + undivided,
            });
        };
        let cache_bytes = (divided / MOUNT_CACHE_FRACTION)
            .min(MIN_CACHE_BYTES.saturating_add(spared))
            .clamp(MIN_CACHE_BYTES, MAX_CACHE_BYTES);
        let for_threads = divided - fixed - cache_bytes;
        let spares = |io_bytes| {
            let left = for_threads.checked_sub(threads * of_thread(io_bytes))?;
            Some((left / of_spare(io_bytes)).min(MAX_SPARE_MOUNT_THREADS))
        };
        let has_all = |&io_bytes: &usize| spares(io_bytes) == Some(MAX_SPARE_MOUNT_THREADS);
        let io_bytes = SIZES.into_iter().find(has_all);
        let io_bytes = io_bytes.unwrap_or(MIN_MOUNT_IO_BYTES);
        let spare_threads = spares(io_bytes).unwrap_or(MIN_SPARE_MOUNT_THREADS);
        let share = |most: usize| most * (cache_bytes >> 10) / (MAX_CACHE_BYTES >> 10);
        Ok(Memory {
            io_bytes,
            spare_threads,
            abandoned_requests: MAX_ABANDONED_REQUESTS.min(spare_threads / 2),
            cache_limits: CacheLimits::within(cache_bytes),
            directories: share(MAX_KNOWN_DIRECTORIES),
            without_xattrs: share(MAX_KNOWN_WITHOUT_XATTRS),
            pages: share(MAX_KNOWN_PAGES),
        })
    }
}

impl Memory {
    /// Bytes that the kernel reads ahead of a program.
    pub(crate) fn read_ahead_bytes(&self) -> usize {
        MOUNT_READ_AHEAD_REQUESTS * self.io_bytes
    }
}

impl Default for Memory {
    /// As much of everything as there may be.
    fn default() -> Memory {
        Memory {
            io_bytes: MAX_IO_BYTES,
            spare_threads: MAX_SPARE_MOUNT_THREADS,
            abandoned_requests: MAX_ABANDONED_REQUESTS,
            cache_limits: CacheLimits::default(),
            directories: MAX_KNOWN_DIRECTORIES,
            without_xattrs: MAX_KNOWN_WITHOUT_XATTRS,
            pages: MAX_KNOWN_PAGES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::limits::{
        DEFAULT_MOUNT_MEMORY_BYTES, DEFAULT_MOUNT_THREADS, MAX_CACHED_LEASES,
    };

    const MIB: u64 = 1 << 20;

    /// The sum of the parts, when all of them are as large as they may be.
    fn taken(memory: &Memory, threads: usize) -> u64 {
        let cache_bytes =
            MAX_CACHE_BYTES as u64 * memory.cache_limits.leases as u64 / MAX_CACHED_LEASES as u64;
        let threads =
            threads * of_thread(memory.io_bytes) + memory.spare_threads * of_spare(memory.io_bytes);
        MOUNT_BASE_BYTES as u64 + cache_bytes + threads as u64
    }

    #[test]
    fn the_default_lets_there_be_as_much_of_everything_as_there_may_be() {
        let memory = Memory::of(DEFAULT_MOUNT_MEMORY_BYTES, DEFAULT_MOUNT_THREADS, false);
        assert_eq!(memory, Ok(Memory::default()));
    }

    #[test]
    fn the_parts_add_up_to_less_than_the_whole() {
        for threads in [1, DEFAULT_MOUNT_THREADS, MAX_MOUNT_THREADS] {
            let least = Memory::of(0, threads, false).unwrap_err().least;
            assert!(Memory::of(least - MIB, threads, false).is_err());
            let totals = (0..2_000).map(|step| least + step * MIB);
            let mut before = 0;
            for total in totals {
                let memory = Memory::of(total, threads, false).unwrap();
                let taken = taken(&memory, threads);
                assert!(taken <= total - total / 8 + MIB, "{taken} of {total}");
                assert!(memory.spare_threads >= MIN_SPARE_MOUNT_THREADS);
                assert!(memory.cache_limits.leases >= before, "{total}");
                before = memory.cache_limits.leases;
            }
        }
    }

    #[test]
    fn requests_become_smaller_first_and_then_fewer_wait() {
        let of = |mib| Memory::of(mib * MIB, DEFAULT_MOUNT_THREADS, false).unwrap();
        let sizes = [1_024, 640, 420, 200].map(|mib| (of(mib).io_bytes, of(mib).spare_threads));
        assert_eq!(sizes[0], (MAX_IO_BYTES, MAX_SPARE_MOUNT_THREADS));
        assert_eq!(sizes[1], (MAX_IO_BYTES / 2, MAX_SPARE_MOUNT_THREADS));
        assert_eq!(sizes[2], (MIN_MOUNT_IO_BYTES, MAX_SPARE_MOUNT_THREADS));
        assert!(sizes[3].0 == MIN_MOUNT_IO_BYTES && sizes[3].1 < MAX_SPARE_MOUNT_THREADS);
        assert!(of(200).abandoned_requests * 2 <= of(200).spare_threads);
    }

    #[test]
    fn who_gives_too_little_is_told_what_would_do() {
        let error = Memory::of(16 * MIB, DEFAULT_MOUNT_THREADS, false).unwrap_err();
        let named = error.least.div_ceil(MIB) * MIB;
        assert!(Memory::of(named, DEFAULT_MOUNT_THREADS, false).is_ok());
        let said = format!("give {}M at least", named / MIB);
        assert!(error.to_string().contains(&said), "{error}");
        // A recording waits in memory.
        assert!(Memory::of(named, DEFAULT_MOUNT_THREADS, true).is_err());
    }
}
