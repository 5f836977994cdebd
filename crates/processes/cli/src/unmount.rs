//! Takes a mount away, and says who is in the way.

use crate::killed;
use crate::mounts;
use crate::processes::serving_mount;
use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Outcome of an attempt to unmount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    Done,
    /// A program has a file or its working directory there.
    Busy,
}

/// Unmounts `point` once; with `lazy` it is out of sight at once and gone when its last user is.
///
/// # Errors
/// Any failure but that it is in use, with what to do.
pub(crate) fn unmount(point: &Path, lazy: bool) -> Result<Unmounted> {
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match rustix::mount::unmount(point, flags) {
        Ok(()) => Ok(Unmounted::Done),
        Err(Errno::BUSY) => Ok(Unmounted::Busy),
        // Only root may; others through FUSE's helper, for their own mounts.
        Err(Errno::PERM) => with_helper(point, lazy),
        Err(error) => Err(error).with_context(|| format!("cannot unmount {}", point.display())),
    }
}

fn with_helper(point: &Path, lazy: bool) -> Result<Unmounted> {
    const HELPER: &str = "fusermount3";
    let output = Command::new(HELPER)
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(point)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {HELPER}: install fuse3, or unmount as root"))?;
    if output.status.success() {
        return Ok(Unmounted::Done);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Ok(Unmounted::Busy);
    }
    bail!("cannot unmount {}: {}", point.display(), said.trim())
}

/// Takes away what a killed mount left at `point`: a mount whose process is gone. Whether there was
/// one.
///
/// # Errors
/// As [`unmount`].
pub(crate) fn clean_dead_mount(point: &Path) -> Result<bool> {
    // A mount that has its process is alive, and must not be asked: while its servers are away it does
    // not answer, and until it does the question keeps the mount busy and this process from ending.
    if !serving_mount(point).is_empty() {
        return Ok(false);
    }
    if killed::is_killed_mount(point) {
        killed::abort(point)?;
    }
    let mut cleaned = false;
    // There may be several, one over the other.
    while mounts::is_dead(point) {
        unmount(point, true)?;
        cleaned = true;
    }
    Ok(cleaned)
}

/// The time in which users of a mount are looked for. A process that is in execve(2), and closes a file whose server is away,
/// lets nobody see what it uses before that is back.
const LOOK: Duration = Duration::from_secs(5);

/// The processes that use something below `point`, as `name (pid)`: of those that we may look at.
pub(crate) fn users_of(point: &Path) -> Vec<String> {
    let (found, users) = mpsc::channel();
    let point = point.to_owned();
    // Left alone if it takes longer.
    std::thread::spawn(move || look_for_users(&point, &found));
    let deadline = Instant::now() + LOOK;
    let next = || users.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    std::iter::from_fn(|| next().ok()).collect()
}

fn look_for_users(point: &Path, found: &mpsc::Sender<String>) {
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let pid = process.file_name();
        if !pid.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let dir = process.path();
        let opened = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
        let links = ["cwd", "root", "exe"].map(|name| dir.join(name));
        let uses = links
            .into_iter()
            .chain(opened.map(|file| file.path()))
            .any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(point)));
        if uses {
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            let user = format!("{} ({})", name.trim(), pid.display());
            if found.send(user).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_file_open_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let point = fs::canonicalize(scratch.path()).unwrap();
        assert_eq!(users_of(&point), Vec::<String>::new());
        let _open = fs::File::create(point.join("file")).unwrap();
        let pid = std::process::id().to_string();
        assert!(
            users_of(&point)
                .iter()
                .any(|user| user.ends_with(&format!("({pid})")))
        );
        assert!(!clean_dead_mount(&point).unwrap());
    }
}
