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
    /// A close of a descriptor asks for no `Flush`.
    pub const NOFLUSH: u32 = 1 << 5;
}

/// Flags for abilities of a kernel that a file system wants (`FUSE_INIT`).
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// The flags have a second half.
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}
