//! Flags and modes of the kernel for space, seeks and writes.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::errno::errno;
use crate::ops::PandoFs;
use pandofs_api::Allocation;
use pandofs_client::Seek;
use pandofs_fuse_kernel::{Errno, FileHandle, OpenFlags};
use pandofs_types::Ino;

/// In the handle of a file that was opened with `O_APPEND`, past the kernel's page cache.
const APPENDING: u64 = 1 << 63;

/// Returns whether a file opened with these flags is written to at its end.
pub(crate) fn appends(flags: OpenFlags) -> bool {
    flags.0 & libc::O_APPEND != 0 && flags.0 & libc::O_ACCMODE != libc::O_RDONLY
}

/// The handle of an open file that has this number.
pub(crate) fn handle(number: u64, flags: OpenFlags) -> FileHandle {
    FileHandle(number | if appends(flags) { APPENDING } else { 0 })
}

/// Returns whether a write goes to the file's end, wherever that is, and not where the kernel takes
/// it to be. Not if the flag was set later (`F_SETFL`): the kernel then keeps what is written in
/// its cache, where it takes it to belong.
pub(crate) fn goes_to_the_end(handle: FileHandle, flags: OpenFlags) -> bool {
    handle.0 & APPENDING != 0 && flags.0 & libc::O_APPEND != 0
}

/// Returns whether what is read through this handle goes to the program alone, and not to the
/// kernel's cache.
pub(crate) fn is_past_the_cache(handle: FileHandle, flags: OpenFlags) -> bool {
    handle.0 & APPENDING != 0 || flags.0 & libc::O_DIRECT != 0
}

/// Returns whether who writes with these flags is to know that the servers have it.
pub(crate) fn wants_it_done(flags: OpenFlags) -> bool {
    flags.0 & (libc::O_DIRECT | libc::O_DSYNC | libc::O_SYNC) != 0
}

/// The request of fallocate(2) with this mode. Collapsing and inserting ranges, which move what
/// follows, the kernel refuses by itself.
pub(crate) fn allocation(mode: i32) -> Result<Allocation, Errno> {
    let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => Ok(Allocation::Reserve { keep_size }),
        libc::FALLOC_FL_PUNCH_HOLE if keep_size => Ok(Allocation::Punch),
        libc::FALLOC_FL_ZERO_RANGE => Ok(Allocation::Zero { keep_size }),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// The target of lseek(2); all but holes and data the kernel knows.
pub(crate) fn seek(whence: i32) -> Result<Seek, Errno> {
    match whence {
        libc::SEEK_DATA => Ok(Seek::Data),
        libc::SEEK_HOLE => Ok(Seek::Hole),
        _ => Err(Errno::EINVAL),
    }
}

impl PandoFs {
    /// As fallocate(2).
    pub(crate) fn allocate(
        &self,
        call: &Call,
        ino: Ino,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let allocation = allocation(mode)?;
        call.changes(vec![Changed::Inode(ino)])?;
        let caller = &call.caller().truncating(|| self.client.groups_decide(ino));
        let done = self
            .client
            .allocate(caller, ino, offset, length, allocation);
        done.map_err(errno)
    }

    /// As lseek(2) for holes and data.
    pub(crate) fn seek(
        &self,
        call: &Call,
        ino: Ino,
        offset: i64,
        whence: i32,
    ) -> Result<u64, Errno> {
        let what = seek(whence)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = self.client.seek(&call.caller().alone(), ino, offset, what);
        found.map_err(errno)?.ok_or(Errno::ENXIO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fallocate_are_what_the_man_page_says() {
        use libc::{
            FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
            FALLOC_FL_ZERO_RANGE,
        };
        let (yes, no) = (true, false);
        let reserve = |keep_size| Ok(Allocation::Reserve { keep_size });
        let zero = |keep_size| Ok(Allocation::Zero { keep_size });
        assert_eq!(allocation(0), reserve(no));
        assert_eq!(allocation(FALLOC_FL_KEEP_SIZE), reserve(yes));
        assert_eq!(
            allocation(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE),
            Ok(Allocation::Punch)
        );
        assert_eq!(allocation(FALLOC_FL_ZERO_RANGE), zero(no));
        assert_eq!(
            allocation(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE),
            zero(yes)
        );
        for mode in [FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE, 1 << 20] {
            assert_eq!(allocation(mode), Err(Errno::EOPNOTSUPP), "{mode:#x}");
        }
    }

    #[test]
    fn only_what_was_opened_to_append_is_written_to_at_its_end() {
        let flags = |flags| OpenFlags(flags);
        let appending = flags(libc::O_WRONLY | libc::O_APPEND);
        assert!(goes_to_the_end(handle(1, appending), appending));
        // The flag was taken off, or set later.
        assert!(!goes_to_the_end(
            handle(1, appending),
            flags(libc::O_WRONLY)
        ));
        let plain = handle(2, flags(libc::O_RDWR));
        assert!(!goes_to_the_end(
            plain,
            flags(libc::O_RDWR | libc::O_APPEND)
        ));
        assert!(!appends(flags(libc::O_RDONLY | libc::O_APPEND)));
    }
}
