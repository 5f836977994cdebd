//! Mounts that were killed and cannot end, and how they are set free.
//!
//! A thread of a mount may wait in the kernel, where no signal reaches it, for the lock of a
//! directory that a program holds while it waits for the mount's answer. Once the mount is killed
//! no answer comes, and the thread, which still has `/dev/fuse` open, keeps the kernel from telling
//! the program so: both stay for ever. Aborting the connection tells the program, which lets go of
//! the lock.

use crate::mounts;
use crate::processes::names_mount;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::fs;
use std::path::Path;

/// Where the kernel shows FUSE connections, each in a directory that is called as its device.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// A zombie's mark: the main thread has ended. Of a child that cannot be waited for yet, another thread has not.
pub(crate) fn is_ending(pid: u32) -> bool {
    // Not `stat`, which waits for a process in execve(2).
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('Z'))
}

/// A search for threads, as far as we may see them, of a process that mounted `point` and whose main thread was killed.
pub(crate) fn is_killed_mount(point: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|&pid| is_ending(pid)).any(|pid| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let mut threads = threads.into_iter().flatten().flatten();
        // A thread that was ended has no command line any more.
        threads.any(|thread| names_mount(&thread.path(), point))
    })
}

/// Has the kernel answer all that waits for the mount at `point`, and that asks it from now on, with an error.
///
/// # Errors
/// When we may not, with what root can do.
pub(crate) fn abort(point: &Path) -> Result<()> {
    let all = mounts::all()?;
    let Some(mount) = mounts::at(&all, point) else {
        return Ok(());
    };
    let abort = Path::new(CONNECTIONS)
        .join(mount.device.to_string())
        .join("abort");
    if !abort.exists() {
        show_connections();
    }
    fs::write(&abort, "1").with_context(|| {
        format!(
            "the mount on {} was killed while programs used it, and they keep each other waiting: as root, write 1 to {}",
            point.display(),
            abort.display()
        )
    })
}

/// Mounts what shows connections, as systemd does; where that cannot be done the attempt to write says it.
fn show_connections() {
    let mounted = rustix::mount::mount(
        "none",
        CONNECTIONS,
        "fusectl",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None::<&std::ffi::CStr>,
    );
    if let Err(error) = mounted
        && error != Errno::BUSY
    {
        tracing::debug!(%error, "cannot mount what shows FUSE connections");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_not_ending() {
        assert!(!is_ending(std::process::id()));
        assert!(!is_killed_mount(Path::new("/")));
    }
}
