//! Other processes of this program.

use crate::mounts;
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// This program, to be started with other arguments. An upgrade may have put another file in its place meanwhile, or none:
/// what runs together is of one version, so it is the file that this process was started from.
///
/// # Errors
/// When the system does not tell which that is.
pub(crate) fn this_program() -> Result<Command> {
    let file = std::env::current_exe().context("cannot find this program's own file")?;
    if file.exists() {
        return Ok(Command::new(file));
    }
    // Not always: the process would be called `exe` in lists of processes.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    Ok(command)
}

/// The processes `pandofs mount … POINT` that are connected to the kernel, as far as we may see them.
pub(crate) fn serving_mount(point: &Path) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for process in processes.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if names_mount(&process.path(), point) && has_fuse_open(&process.path()) {
            found.push(pid);
        }
    }
    found
}

/// A look at a process, or thread, by its directory in `/proc`: is it `pandofs mount … POINT`?
pub(crate) fn names_mount(process: &Path, point: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut arguments = line.split(|&byte| byte == 0);
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(OsStr::from_bytes(program)).file_name();
    let is_ours = name.is_some_and(|name| name.as_bytes().starts_with(b"pandofs"));
    // Of others nothing more is read: what is in execve(2), and closes a file whose server is away, shows nothing else
    // until that is back, and a reader of it waits as long.
    if !is_ours || arguments.next() != Some(b"mount") {
        return false;
    }
    let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
    arguments.any(|argument| {
        let named = cwd.join(OsStr::from_bytes(argument));
        mounts::absolute(&named).is_ok_and(|named| named == point)
    })
}

/// Whether the process with this directory in `/proc` may answer the kernel's requests: one that is still
/// about to mount, as this one perhaps, has not opened the device yet. Of another user's it is believed.
fn has_fuse_open(process: &Path) -> bool {
    let Ok(open) = fs::read_dir(process.join("fd")) else {
        return true;
    };
    open.flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|path| path == Path::new("/dev/fuse")))
}

/// Whether the process was started by an `up` that is gone, and is about to end because of that.
pub(crate) fn is_orphan(pid: u32) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let mut arguments = line.split(|&byte| byte == 0);
    let Some(parent) = arguments
        .find(|argument| *argument == b"--stop-with-parent")
        .and_then(|_| arguments.next())
        .and_then(|parent| std::str::from_utf8(parent).ok())
    else {
        return false;
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let now = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .map(str::trim);
    now.is_some_and(|now| now != parent)
}

/// Waits for a process that is not our child. Whether it is gone in time.
///
/// # Errors
/// The system's.
pub(crate) fn wait_until_gone(pid: u32, deadline: Instant) -> Result<bool> {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else {
        return Ok(true);
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error).context("cannot watch a process"),
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).context("a time limit that is too long")?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot watch a process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_process_serves_a_mount_once_it_is_connected_to_the_kernel() {
        let scratch = tempfile::tempdir().unwrap();
        let point = fs::canonicalize(scratch.path()).unwrap();
        // A shell that runs this script has the command line `pandofs mount POINT`.
        let script = "echo started; read line; exec 3<>/dev/fuse; echo connected; read line";
        fs::write(point.join("mount"), script).unwrap();
        let mut child = Command::new("sh")
            .arg0("pandofs")
            .arg("mount")
            .arg(&point)
            .current_dir(&point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stdin = child.stdin.take().unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "started");
        assert_eq!(serving_mount(&point), Vec::<u32>::new());
        stdin.write_all(b"go on\n").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "connected");
        assert_eq!(serving_mount(&point), [child.id()]);
        drop(stdin);
        child.wait().unwrap();
        assert_eq!(serving_mount(&point), Vec::<u32>::new());
    }

    #[test]
    fn a_process_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let soon = || Instant::now() + Duration::from_millis(20);
        assert!(!wait_until_gone(child.id(), soon()).unwrap());
        drop(child.stdin.take());
        assert!(wait_until_gone(child.id(), Instant::now() + Duration::from_secs(20)).unwrap());
        child.wait().unwrap();
        assert!(wait_until_gone(child.id(), soon()).unwrap());
    }
}
