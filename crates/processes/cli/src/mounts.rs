//! Mounted file systems, from `/proc/self/mountinfo`.

use crate::datadir::DataDir;
use anyhow::{Context, Result};
use pandofs_handles::mounts::{self, Line, SOURCE_PREFIX};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// The source that a mount of the file system with this cluster map is to have, unless it is given.
pub(crate) fn source_of(cluster_map: &Path) -> OsString {
    let mut source = OsStr::from_bytes(SOURCE_PREFIX).to_owned();
    source.push(cluster_map);
    source
}

/// Path that a source names, with the prefix or without: a cluster map, or the directory of a
/// cluster made by `up`.
pub(crate) fn named_by(source: &OsStr) -> &Path {
    let bytes = source.as_bytes();
    Path::new(OsStr::from_bytes(
        bytes.strip_prefix(SOURCE_PREFIX).unwrap_or(bytes),
    ))
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub point: PathBuf,
    pub fs_type: String,
    /// The source that was mounted.
    pub source: OsString,
    /// The minor number of its device, which for file systems without a disk is all of it.
    pub device: u32,
}

impl Mount {
    pub(crate) fn is_pandofs(&self) -> bool {
        self.named().is_some()
    }

    /// Path that the source of a PandoFS mount names.
    fn named(&self) -> Option<&Path> {
        mounts::named(&self.fs_type, &self.source)
    }

    /// The cluster map of a PandoFS mount.
    pub(crate) fn cluster_map(&self) -> Option<PathBuf> {
        let named = self.named()?;
        Some(match named.is_dir() {
            true => DataDir::new(named.to_owned()).cluster_map(),
            false => named.to_owned(),
        })
    }
}

/// All mounts this process sees, in the order in which they were made.
///
/// # Errors
/// When the system's list cannot be read.
pub(crate) fn all() -> Result<Vec<Mount>> {
    const LIST: &str = "/proc/self/mountinfo";
    let text = fs::read(LIST).with_context(|| format!("cannot read {LIST}"))?;
    Ok(text
        .split(|&byte| byte == b'\n')
        .filter_map(parse_line)
        .collect())
}

/// The mounts of PandoFS.
///
/// # Errors
/// As [`all`].
pub(crate) fn pandofs_mounts() -> Result<Vec<Mount>> {
    Ok(all()?.into_iter().filter(Mount::is_pandofs).collect())
}

/// The mount on exactly this path, the topmost if there are several.
pub(crate) fn at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rfind(|mount| mount.point == point)
}

/// The mount that holds `path`, whether or not something is there, without asking the mount itself.
pub(crate) fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let path = absolute(path).ok()?;
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    holding.max_by_key(|mount| mount.point.components().count())
}

/// `path` without `.` and `..`, made absolute, symbolic links followed above its last existing part
/// where that can be done; a dead mount at its end is not touched.
///
/// # Errors
/// When the current directory is gone.
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    let (Some(parent), Some(name)) = (plain.parent(), plain.file_name()) else {
        return Ok(plain);
    };
    Ok(fs::canonicalize(parent).map_or_else(|_| plain.clone(), |parent| parent.join(name)))
}

/// How long to wait for a mount that may be dead. One whose process we cannot see, and whose servers are
/// away, does not answer at all, and is not dead.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the process of the mount at `point` is gone: the kernel answers "Transport endpoint is not
/// connected". `statfs`, because attributes may still be cached.
pub(crate) fn is_dead(point: &Path) -> bool {
    let (sender, answer) = mpsc::channel();
    let point = point.to_owned();
    let asking = std::thread::Builder::new()
        .name("probe".into())
        .spawn(move || {
            // The channel has no receiver once the time is over.
            let _ = sender.send(rustix::fs::statfs(&point).err());
        });
    let gone = [Some(Errno::NOTCONN), Some(Errno::CONNABORTED)];
    asking.is_ok()
        && answer
            .recv_timeout(PROBE_TIMEOUT)
            .is_ok_and(|error| gone.contains(&error))
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let line = Line::parse(line)?;
    Some(Mount {
        point: PathBuf::from(line.point),
        fs_type: line.fs_type,
        source: line.source,
        device: line.device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_understood() {
        let line = br"36 35 0:41 / /mnt/a\040b rw,nosuid shared:1 master:2 - fuse pandofs:/d\134x/cluster.json rw,user_id=0";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!(mount.device, 41);
        let map = Path::new(r"/d\x/cluster.json");
        assert_eq!(mount.cluster_map().as_deref(), Some(map));
        assert_eq!(mount.source, source_of(Path::new(r"/d\x/cluster.json")));
        let other = parse_line(b"36 35 0:41 / /mnt rw - ext4 pandofs:/x rw").unwrap();
        assert!(!other.is_pandofs());
        // As it was given to mount(8), which knows by it what is mounted.
        let named = parse_line(b"36 35 0:41 / /mnt rw - fuse.pandofs /etc/map.json rw").unwrap();
        let map = Path::new("/etc/map.json");
        assert_eq!(named.cluster_map().as_deref(), Some(map));
        let other = parse_line(b"36 35 0:41 / /mnt rw - fuse.sshfs /etc/map.json rw").unwrap();
        assert!(!other.is_pandofs());
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 2 3 / /x rw"), None);
        assert!(!all().unwrap().is_empty());
    }

    #[test]
    fn the_innermost_mount_holds_a_path() {
        let mount = |point: &str| Mount {
            point: point.into(),
            fs_type: "x".into(),
            source: "y".into(),
            device: 1,
        };
        let mounts = [
            mount("/"),
            mount("/nowhere/a"),
            mount("/nowhere/a/b"),
            mount("/nowhere/a"),
        ];
        assert_eq!(
            containing(&mounts, Path::new("/nowhere/a/b/c")),
            Some(&mounts[2])
        );
        assert_eq!(
            containing(&mounts, Path::new("/nowhere/a/b/../c")),
            Some(&mounts[3])
        );
        assert_eq!(
            containing(&mounts, Path::new("/nowhere/ab")),
            Some(&mounts[0])
        );
        assert_eq!(at(&mounts, Path::new("/nowhere/a/b")), Some(&mounts[2]));
        assert_eq!(at(&mounts, Path::new("/nowhere")), None);
    }
}
