//! Read-ahead of the kernel.

use rustix::fs::{AtFlags, StatxFlags};
use std::io;
use std::path::Path;

/// Has the kernel read this many bytes ahead of a program that reads a file in order. FUSE lets a
/// file system ask for less than the default of 128 KiB only, which is far less than a message to a
/// server takes.
///
/// # Errors
/// The system's; users other than root may not.
pub(crate) fn set(mountpoint: &Path, bytes: usize) -> io::Result<()> {
    // Asks no server: the one that would answer may not be there yet.
    let root = rustix::fs::statx(
        rustix::fs::CWD,
        mountpoint,
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::empty(),
    )?;
    let (major, minor) = (root.stx_dev_major, root.stx_dev_minor);
    std::fs::write(
        format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
        (bytes >> 10).to_string(),
    )
}
