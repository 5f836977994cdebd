//! Permissions of what is at a name, and of nothing that it leads to.

use crate::stat::Stat;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, openat};
use rustix::io::Errno;
use std::ffi::CStr;

/// Changes the permissions of what is at `name` in `dir`. chmod(2) follows links, and what was a
/// file when it was looked at may be a link by now: root changes the permissions of what is in
/// /home/eve, eve puts a link to /etc/shadow in the place of a file, and everybody may read that.
///
/// # Errors
/// The system's; `LOOP` for a link, `NOENT` without /proc.
pub fn chmod_at(dir: BorrowedFd<'_>, name: &CStr, mode: Mode) -> Result<(), Errno> {
    // That opens nothing which acts when it is opened, and stays what it is, whatever the name
    // becomes.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(dir, name, flags, Mode::empty())?;
    if Stat::of_open(rustix::fd::AsFd::as_fd(&found))?.kind() == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    chmodat(CWD, path, mode, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).unwrap();
        };
        mode(0o600);
        let opened = std::fs::File::open(dir.path()).unwrap();
        let open = Mode::from_raw_mode(0o666);
        assert_eq!(chmod_at(opened.as_fd(), c"link", open), Err(Errno::LOOP));
        let found = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found(), 0o600);
        assert_eq!(chmod_at(opened.as_fd(), c"file", open), Ok(()));
        assert_eq!(found(), 0o666);
        // Files that may not be opened, or whose opening would wait.
        rustix::fs::mknodat(opened.as_fd(), c"fifo", FileType::Fifo, Mode::empty(), 0).unwrap();
        assert_eq!(chmod_at(opened.as_fd(), c"fifo", open), Ok(()));
    }
}
