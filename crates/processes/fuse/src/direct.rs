//! Mounting without a helper program, for processes that may.
//!
//! `fuser` can do this too, but then it unmounts the mount point once more when the session is over
//! (0.18 takes a dead connection for a mounted one), and whatever was mounted there meanwhile is
//! gone: `umount X; mount X` would now and then end with nothing mounted. A session that was given
//! a connection unmounts nothing.

use crate::options::Options;
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel's `fuse`, and what mount(8) looks for a helper by (`mount.fuse.pandofs`).
pub const FS_TYPE: &str = "fuse.pandofs";

/// Has the kernel read this many bytes ahead of a program that reads a file in order. FUSE lets a
/// file system ask for less than the default of 128 KiB only, which is far less than a message to a
/// server takes.
///
/// # Errors
/// The system's; who is not root may not.
pub(crate) fn read_ahead(mountpoint: &Path, bytes: usize) -> io::Result<()> {
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

/// Mounts a new FUSE connection and returns it; `None` when this process may not mount.
pub(crate) fn mount(mountpoint: &Path, options: &Options) -> io::Result<Option<OwnedFd>> {
    let device = match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        // The helper may be allowed to.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        device => device?,
    };
    let mode = mountpoint.metadata()?.mode();
    let data = CString::new(mount_data(device.as_raw_fd(), mode, options))?;
    match rustix::mount::mount(
        options.fs_name.as_str(),
        mountpoint,
        FS_TYPE,
        options.kernel.of_mount(),
        data.as_c_str(),
    ) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The mount data of the kernel's FUSE (Documentation/filesystems/fuse.rst).
fn mount_data(device: i32, root_mode: u32, options: &Options) -> String {
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let mut data = format!("fd={device},rootmode={root_mode:o},user_id={user},group_id={group}");
    if options.default_permissions {
        data += ",default_permissions";
    }
    if options.allow_other {
        data += ",allow_other";
    }
    for more in &options.mount_data {
        data += ",";
        data += more;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_kernel() {
        let options = Options {
            allow_other: true,
            default_permissions: false,
            mount_data: vec!["context=a:b".to_owned()],
            ..Options::default()
        };
        let data = mount_data(7, 0o40755, &options);
        assert!(data.starts_with("fd=7,rootmode=40755,user_id="), "{data}");
        assert!(data.ends_with(",allow_other,context=a:b"), "{data}");
        let options = Options {
            allow_other: false,
            default_permissions: true,
            mount_data: Vec::new(),
            ..options
        };
        assert!(mount_data(7, 0o40755, &options).ends_with(",default_permissions"));
    }
}
