//! Mounting by mount(2), and by fuse3's set-user-id helper for users that may not; unmounting alike.

use crate::device::{self, Device};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::CString;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The helper, and the variable by which it is told where to send the connection.
const HELPER: &str = "fusermount3";
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// A mount to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The source that `mount` and `df` show.
    pub source: String,
    /// The part of the type after `fuse.`.
    pub subtype: String,
    /// Those of mount(2) that the kernel goes by itself.
    pub flags: MountFlags,
    /// The same flags in the helper's words, and other options of its.
    pub helper_options: Vec<String>,
    /// Others than the user who mounts may use it.
    pub allow_other: bool,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// More mount data for the kernel, each as `NAME=VALUE`.
    pub data: Vec<String>,
}

impl Mount {
    /// Mounts a new connection to the kernel and returns it.
    ///
    /// # Errors
    /// The system's, or what the helper says.
    pub fn at(&self, mountpoint: &Path) -> io::Result<OwnedFd> {
        match self.directly(mountpoint)? {
            Some(device) => Ok(device),
            None => self.by_helper(mountpoint),
        }
    }

    /// `None` when this process may not mount.
    fn directly(&self, mountpoint: &Path) -> io::Result<Option<OwnedFd>> {
        let device = match Device::open() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            device => device?,
        };
        let mode = mountpoint.metadata()?.mode();
        let data = CString::new(self.kernel_data(device.as_raw_fd(), mode))?;
        let mounted = rustix::mount::mount(
            self.source.as_str(),
            mountpoint,
            format!("fuse.{}", self.subtype),
            self.flags,
            data.as_c_str(),
        );
        match mounted {
            Ok(()) => Ok(Some(device)),
            Err(Errno::PERM) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The mount data of the kernel's FUSE (Documentation/filesystems/fuse.rst).
    fn kernel_data(&self, device: i32, root_mode: u32) -> String {
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let mut data =
            format!("fd={device},rootmode={root_mode:o},user_id={user},group_id={group}");
        for option in self.common_options() {
            data += ",";
            data += option;
        }
        data
    }

    /// Options of the kernel that the helper knows by the same names.
    fn common_options(&self) -> impl Iterator<Item = &str> {
        let permissions = self.default_permissions.then_some("default_permissions");
        let others = self.allow_other.then_some("allow_other");
        let more = self.data.iter().map(String::as_str);
        permissions.into_iter().chain(others).chain(more)
    }

    /// Has the helper mount, which sends the connection over a socket: its standard input, since
    /// that is open in it anyway.
    fn by_helper(&self, mountpoint: &Path) -> io::Result<OwnedFd> {
        let (own, helpers) = UnixStream::pair()?;
        let mut options = vec![
            format!("fsname={}", self.source),
            format!("subtype={}", self.subtype),
        ];
        options.extend(self.common_options().map(str::to_owned));
        options.extend_from_slice(&self.helper_options);
        let mut command = Command::new(HELPER);
        command
            .args(["-o", &options.join(","), "--"])
            .arg(mountpoint)
            .env(HELPER_SOCKET, "0")
            .stdin(OwnedFd::from(helpers))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // With it goes this process's copy of the helper's end, or nobody would notice its death.
        drop(command);
        let received = receive_connection(&own);
        let mut complaint = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut complaint)?;
        }
        let status = child.wait()?;
        match received {
            Ok(device) if status.success() => Ok(device),
            Ok(_) | Err(_) => Err(io::Error::other(format!(
                "{HELPER} did not mount: {}",
                complaint.trim()
            ))),
        }
    }
}

/// The descriptor that comes over a socket (unix(7)).
fn receive_connection(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    loop {
        let into = &mut [IoSliceMut::new(&mut byte)];
        match recvmsg(socket.as_fd(), into, &mut control, flags) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| io::Error::other("no connection was sent"))
}

/// Unmounts what is mounted there; fine if nothing is.
///
/// # Errors
/// The system's, or what the helper says; of the kind [`io::ErrorKind::ResourceBusy`] when the
/// mount is in use.
pub fn unmount(path: &Path, flags: UnmountFlags) -> io::Result<()> {
    match rustix::mount::unmount(path, flags) {
        // Not a mount point.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => unmount_by_helper(path, flags),
        Err(error) => Err(error.into()),
    }
}

fn unmount_by_helper(path: &Path, flags: UnmountFlags) -> io::Result<()> {
    let how = if flags.contains(UnmountFlags::DETACH) {
        "-uz"
    } else {
        "-u"
    };
    let output = Command::new(HELPER).args([how, "--"]).arg(path).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    match () {
        () if output.status.success() => Ok(()),
        () if complaint.contains("busy") => Err(io::ErrorKind::ResourceBusy.into()),
        () => Err(io::Error::other(format!("{HELPER}: {}", complaint.trim()))),
    }
}

/// Returns whether this system has FUSE.
pub fn is_there() -> bool {
    Path::new(device::PATH).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount() -> Mount {
        Mount {
            source: "here".to_owned(),
            subtype: "test".to_owned(),
            flags: MountFlags::NOSUID | MountFlags::NODEV,
            helper_options: vec!["nosuid".to_owned(), "nodev".to_owned()],
            allow_other: false,
            default_permissions: true,
            data: Vec::new(),
        }
    }

    #[test]
    fn options_reach_the_kernel() {
        let with_label = Mount {
            allow_other: true,
            default_permissions: false,
            data: vec!["context=a:b".to_owned()],
            ..mount()
        };
        let data = with_label.kernel_data(7, 0o40755);
        assert!(data.starts_with("fd=7,rootmode=40755,user_id="), "{data}");
        assert!(data.ends_with(",allow_other,context=a:b"), "{data}");
        let data = mount().kernel_data(7, 0o40755);
        assert!(data.ends_with(",default_permissions"), "{data}");
    }

    /// The line of a mount in `/proc/self/mounts`.
    fn line_of(path: &Path) -> Option<String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let path = path.to_str().unwrap();
        let mut lines = mounts.lines();
        let found = lines.find(|line| line.split(' ').nth(1) == Some(path));
        found.map(str::to_owned)
    }

    /// Unmounts in the end, whatever comes between.
    struct Mounted<'a>(&'a Path);

    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = unmount(self.0, UnmountFlags::DETACH);
        }
    }

    #[test]
    fn both_ways_mount_and_unmount() {
        if crate::no_fuse_tests() {
            return;
        }
        let at = tempfile::tempdir().unwrap();
        let path = at.path();
        for is_direct in [true, false] {
            assert_eq!(line_of(path), None);
            let device = match is_direct {
                true => mount().directly(path).unwrap().unwrap(),
                false => mount().by_helper(path).unwrap(),
            };
            let mounted = Mounted(path);
            let line = line_of(path).unwrap();
            assert!(line.starts_with("here "), "{line}");
            assert!(line.contains(" fuse.test rw,nosuid,nodev,"), "{line}");
            assert!(line.contains(",default_permissions"), "{line}");
            let name = std::fs::read_link(format!("/proc/self/fd/{}", device.as_raw_fd()));
            assert_eq!(name.unwrap(), Path::new(device::PATH));
            unmount(path, UnmountFlags::empty()).unwrap();
            assert_eq!(line_of(path), None);
            drop(mounted);
        }
        unmount(path, UnmountFlags::empty()).unwrap();
    }

    #[test]
    fn the_helper_says_why_it_does_not_mount() {
        if crate::no_fuse_tests() {
            return;
        }
        let at = tempfile::tempdir().unwrap();
        let missing = at.path().join("missing");
        let error = mount().by_helper(&missing).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        unmount_by_helper(at.path(), UnmountFlags::empty()).unwrap_err();
    }
}
