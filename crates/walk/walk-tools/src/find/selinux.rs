//! Contexts of SELinux, which are extended attributes.

use pandofs_walk_fs::Entry;
use rustix::fs::{FileType, getxattr, lgetxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const ATTRIBUTE: &str = "security.selinux";
/// Bytes: no attribute is longer.
const MOST_BYTES: usize = 64 << 10;

/// Returns whether the kernel has it switched on.
pub(crate) fn is_there() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// That of an entry; of what a link leads to if it is followed.
///
/// # Errors
/// When it has none.
pub(crate) fn context(entry: &mut Entry<'_, ()>) -> Result<Vec<u8>, Errno> {
    // The call for attributes takes a path: the directory is open, which is short.
    let fd = entry.dir_fd().as_raw_fd();
    let name = OsStr::from_bytes(entry.name().to_bytes());
    let path = if fd < 0 {
        Path::new(name).to_path_buf()
    } else {
        Path::new(&format!("/proc/self/fd/{fd}")).join(name)
    };
    let mut bytes = vec![0; MOST_BYTES];
    let length = if entry.kind() == FileType::Symlink {
        lgetxattr(path, ATTRIBUTE, &mut bytes)?
    } else {
        getxattr(path, ATTRIBUTE, &mut bytes)?
    };
    bytes.truncate(length);
    // It ends with a NUL.
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}
