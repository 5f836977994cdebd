//! Buffers for requests, and those that wait for the next thread.

use crate::limits::{KEPT_BUFFER_BYTES, MAX_POOLED_BUFFERS, REQUEST_HEAD_BYTES};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A buffer of pages of its own: they take memory when they are first written to, and it can be
/// given back. (From an allocator that keeps freed memory, zeroed bytes would be written first, all
/// of them.)
#[derive(Debug)]
pub(crate) struct Buffer {
    pages: NonNull<u8>,
    size: usize,
}

// SAFETY: the pages belong to the value alone, and any thread may use memory.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn of_size(size: usize) -> io::Result<Buffer> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses where; nothing that is there already is replaced.
        let pages = unsafe { mmap_anonymous(std::ptr::null_mut(), size, access, flags)? };
        match NonNull::new(pages.cast()) {
            Some(pages) => Ok(Buffer { pages, size }),
            None => Err(io::Error::other("memory at address 0")),
        }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes are mapped, zeroed by the system, and this value's own.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_ptr(), self.size) }
    }

    /// Gives back most of its memory if so many bytes of it were written to. Its contents are lost.
    pub(crate) fn give_back(&mut self, used: usize) {
        if used <= KEPT_BUFFER_BYTES {
            return;
        }
        let rest = &mut self.bytes()[KEPT_BUFFER_BYTES..];
        let (start, length) = (rest.as_mut_ptr().cast::<c_void>(), rest.len());
        // SAFETY: whole pages of this buffer alone, and nothing refers to what they hold.
        let given = unsafe { madvise(start, length, Advice::LinuxDontNeed) };
        if let Err(error) = given {
            tracing::debug!(%error, "a buffer's memory cannot be given back");
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it any more.
        if let Err(error) = unsafe { munmap(self.pages.as_ptr().cast(), self.size) } {
            tracing::warn!(%error, "a buffer stays mapped");
        }
    }
}

/// Buffers of threads that have ended, for those that begin.
#[derive(Debug)]
pub(crate) struct Buffers {
    size: usize,
    spare: Mutex<Vec<Buffer>>,
}

impl Buffers {
    /// For requests that write no more than this.
    pub(crate) fn for_writes(bytes: usize) -> Buffers {
        Buffers {
            // No less than what the kernel wants before it looks at the limit.
            size: bytes.max(REQUEST_HEAD_BYTES) + REQUEST_HEAD_BYTES,
            spare: Mutex::default(),
        }
    }

    pub(crate) fn take(&self) -> io::Result<Buffer> {
        let spare = self.spare().pop();
        spare.map_or_else(|| Buffer::of_size(self.size), Ok)
    }

    /// `used`: the most bytes of it that were written to since its memory was given back.
    pub(crate) fn put_back(&self, mut buffer: Buffer, used: usize) {
        buffer.give_back(used);
        let mut spare = self.spare();
        if spare.len() < MAX_POOLED_BUFFERS {
            spare.push(buffer);
        }
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Buffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_there_whole_also_after_its_memory_was_given_back() {
        let buffers = Buffers::for_writes(1 << 20);
        let mut buffer = buffers.take().unwrap();
        assert_eq!(buffer.bytes().len(), (1 << 20) + REQUEST_HEAD_BYTES);
        buffer.bytes().fill(7);
        buffer.give_back(KEPT_BUFFER_BYTES);
        assert!(buffer.bytes().iter().all(|&byte| byte == 7));
        buffer.give_back(KEPT_BUFFER_BYTES + 1);
        let (kept, given) = buffer.bytes().split_at(KEPT_BUFFER_BYTES);
        assert!(kept.iter().all(|&byte| byte == 7) && given.iter().all(|&byte| byte == 0));
        buffer.bytes().fill(9);
        assert!(buffer.bytes().iter().all(|&byte| byte == 9));
    }

    #[test]
    fn no_more_than_so_many_wait_for_the_next_thread() {
        let buffers = Buffers::for_writes(1);
        let taken: Vec<_> = (0..=MAX_POOLED_BUFFERS)
            .map(|_| buffers.take().unwrap())
            .collect();
        for buffer in taken {
            buffers.put_back(buffer, 0);
        }
        assert_eq!(buffers.spare().len(), MAX_POOLED_BUFFERS);
        buffers.take().unwrap();
        assert_eq!(buffers.spare().len(), MAX_POOLED_BUFFERS - 1);
    }
}
