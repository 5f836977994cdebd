use std::io;
use std::ptr;
use std::ptr::NonNull;
use std::slice;

/// What a request has besides the data that is written: its headers, and what other requests consist of.
const HEADERS_SIZE: usize = 4096;

/// Size of the buffer before the session's limits are known. The kernel then sends the initial request only, and wants no
/// less than 8 KiB (`FUSE_MIN_READ_BUFFER`).
const HANDSHAKE_BUFFER_SIZE: usize = 64 * 1024;

/// What of a buffer keeps its memory when it is given back: more than small requests need.
const KEPT_SIZE: usize = 64 * 1024;

/// A buffer for requests from the kernel, of pages of its own: they take memory when they are first written to, and
/// it can be given back.
#[derive(Debug)]
pub(crate) struct FuseReadBuf {
    pages: NonNull<u8>,
    size: usize,
}

impl FuseReadBuf {
    /// A buffer for requests that write no more than this at once.
    pub(crate) fn new(max_write: usize) -> io::Result<Self> {
        // No less than what the kernel wants before it looks at the limit.
        Self::with_size(max_write.max(HEADERS_SIZE) + HEADERS_SIZE)
    }

    /// Creates a `FuseReadBuf` for the initial request.
    pub(crate) fn for_handshake() -> io::Result<Self> {
        Self::with_size(HANDSHAKE_BUFFER_SIZE)
    }

    fn with_size(size: usize) -> io::Result<Self> {
        // SAFETY: memory that nobody else has; the arguments are those of mmap(2) for it.
        let pages = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON,
                -1,
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = NonNull::new(pages.cast());
        let pages = pages.ok_or_else(|| io::Error::other("memory at address 0"))?;
        Ok(Self { pages, size })
    }

    /// The buffer, which begins with a page and so is aligned for every request.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: these bytes are mapped, zeroed by the system, and this one's own.
        unsafe { slice::from_raw_parts_mut(self.pages.as_ptr(), self.size) }
    }

    /// Gives back most of its memory if so many bytes of it were written to. What it held is lost.
    pub(crate) fn give_back(&mut self, used: usize) {
        if used > KEPT_SIZE {
            let rest = &mut self.as_mut()[KEPT_SIZE..];
            // SAFETY: pages of this buffer alone, and nothing refers to what they hold. If the system refuses they
            // stay as they are.
            unsafe {
                libc::madvise(rest.as_mut_ptr().cast(), rest.len(), libc::MADV_DONTNEED);
            }
        }
    }
}

impl Drop for FuseReadBuf {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.pages.as_ptr().cast(), self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_there_whole_and_aligned_also_after_it_was_given_back() {
        let mut buffer = FuseReadBuf::new(1 << 20).unwrap();
        let bytes = buffer.as_mut();
        assert_eq!(bytes.len(), (1 << 20) + HEADERS_SIZE);
        assert_eq!(bytes.as_ptr() as usize % HEADERS_SIZE, 0);
        bytes.fill(7);
        buffer.give_back(KEPT_SIZE);
        assert!(buffer.as_mut().iter().all(|&byte| byte == 7));
        buffer.give_back(KEPT_SIZE + 1);
        assert!(buffer.as_mut()[..KEPT_SIZE].iter().all(|&byte| byte == 7));
        buffer.as_mut().fill(9);
        assert!(buffer.as_mut().iter().all(|&byte| byte == 9));
        assert!(FuseReadBuf::new(0).unwrap().as_mut().len() >= 2 * HEADERS_SIZE);
    }
}
