//! Numbers of the kernel's interface that file systems name (`include/uapi/linux/fuse.h`).

/// The version that is spoken; what came later is not used.
pub(crate) const MAJOR: u32 = 7;
pub(crate) const MINOR: u32 = 40;
/// The oldest kernel's minor version: from here on the answer to the first request is as long as it
/// is now (Linux 3.15).
pub(crate) const OLDEST_MINOR: u32 = 23;

/// Flags of an answer to `Open` and `Create`.
pub mod open {
    /// Reads and writes go past the kernel's cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// The kernel keeps the pages of the file that it has from before.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// A close of a descriptor asks for no `Flush`.
    pub const NOFLUSH: u32 = 1 << 5;
}

/// Flags for abilities of a kernel that a file system wants (`FUSE_INIT`).
pub mod init {
    /// Sends several reads of a file at once, not one after another.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Asks for locks of fcntl(2); without it the kernel keeps them itself.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// Looks up `.` and `..`, by which handles of an NFS server are found again.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes may be larger than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Leaves the umask to the file system, which knows default access control lists.
    pub const DONT_MASK: u64 = 1 << 6;
    /// Asks for locks of flock(2); without it the kernel keeps them itself.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// Drops a file's pages when its attributes show another size or time.
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// Knows listings that bring attributes.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// Chooses between listings with and without attributes by what programs do.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// Has direct reads and writes of a program under way without waiting for each.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Looks up and lists in one directory by several threads at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// Checks access control lists itself and caches them.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// The answer to `FUSE_INIT` says how large requests may be.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Keeps targets of links.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Leaves it to the file system to take set-id bits off, and says where that is due.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// The flags have a second half.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Sends requests over io_uring as soon as it is ready for that.
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
    /// Lets files that are opened past the cache be mapped as shared.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}
