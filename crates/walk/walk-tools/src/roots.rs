//! Roots that are named in files, and those that must not be.

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names in a file, each with a NUL after it; of standard input for `-`.
///
/// # Errors
/// When it cannot be read, or a name is empty.
pub(crate) fn from_file(option: &str, file: &OsStr) -> Result<Vec<OsString>> {
    let list = if file == "-" {
        let mut list = Vec::new();
        std::io::stdin().lock().read_to_end(&mut list)?;
        list
    } else {
        std::fs::read(file).with_context(|| format!("{option}: {}", file.display()))?
    };
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let list = list.strip_suffix(b"\0").unwrap_or(&list);
    list.split(|byte| *byte == 0)
        .map(|root| {
            if root.is_empty() {
                bail!("{option}: {}: a name is empty", file.display());
            }
            Ok(OsStr::from_bytes(root).to_owned())
        })
        .collect()
}

/// Returns whether it is the root of the file system, by whatever name.
pub(crate) fn is_slash(root: &OsStr) -> bool {
    is_slash_by(root, AtFlags::SYMLINK_NOFOLLOW)
}

/// The same, or a link that leads there.
pub(crate) fn leads_to_slash(root: &OsStr) -> bool {
    is_slash_by(root, AtFlags::empty())
}

fn is_slash_by(root: &OsStr, flags: AtFlags) -> bool {
    let bytes = root.as_bytes();
    let same = |path: &Path| {
        statx(CWD, path, flags, StatxFlags::INO)
            .ok()
            .map(|it| (it.stx_dev_major, it.stx_dev_minor, it.stx_ino))
    };
    let only_slashes = !bytes.is_empty() && bytes.iter().all(|byte| *byte == b'/');
    let this = same(Path::new(root));
    only_slashes || this.is_some() && this == same(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_many_names() {
        for root in ["/", "//", "/.", "/usr/..", "/proc/self/root/", "/../"] {
            assert!(is_slash(root.as_ref()), "{root}");
        }
        for root in ["", "/usr", "no such file", "."] {
            assert!(!is_slash(root.as_ref()), "{root}");
            assert!(!leads_to_slash(root.as_ref()), "{root}");
        }
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/usr/..", &link).unwrap();
        assert!(leads_to_slash(link.as_os_str()) && !is_slash(link.as_os_str()));
    }

    #[test]
    fn names_end_with_a_nul() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("names");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            from_file("--files0-from", file.as_os_str())
        };
        assert_eq!(read(b"a\0b c\n\0").unwrap(), ["a", "b c\n"]);
        assert_eq!(read(b"a\0b").unwrap(), ["a", "b"]);
        assert_eq!(read(b"").unwrap(), Vec::<OsString>::new());
        assert!(read(b"a\0\0b").is_err() && read(b"\0").is_err());
    }
}
