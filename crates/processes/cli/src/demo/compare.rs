//! Compares two trees: names, kinds, permissions, sizes, times, targets of links, contents.

use super::walk::walk;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of what was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    pub entries: u64,
    pub bytes: u64,
}

/// Compares `copy` with `original`; `progress` gets the number of entries so far.
///
/// # Errors
/// The first difference, or what could not be read.
pub(super) fn compare(
    original: &Path,
    copy: &Path,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Compared> {
    let (entries, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    walk(original, &|dir, found| {
        let (there, here) = (original.join(dir), copy.join(dir));
        same_names(&found, &here)?;
        for entry in found {
            let name = entry.file_name();
            let size = same(&there.join(&name), &here.join(&name))?;
            bytes.fetch_add(size, Ordering::Relaxed);
            progress(entries.fetch_add(1, Ordering::Relaxed) + 1);
        }
        Ok(())
    })?;
    Ok(Compared {
        entries: entries.into_inner(),
        bytes: bytes.into_inner(),
    })
}

fn same_names(there: &[DirEntry], here: &Path) -> Result<()> {
    let context = || format!("cannot list {}", here.display());
    let there: BTreeSet<OsString> = there.iter().map(DirEntry::file_name).collect();
    let mut names = BTreeSet::new();
    for entry in here.read_dir().with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        ensure!(
            names.insert(name.clone()),
            "{} is listed twice in {}",
            name.display(),
            here.display()
        );
    }
    if let Some(missing) = there.difference(&names).next() {
        bail!("{} is missing", here.join(missing).display());
    }
    if let Some(extra) = names.difference(&there).next() {
        bail!("{} is not in the original", here.join(extra).display());
    }
    Ok(())
}

/// The bytes of its contents, if both are the same.
fn same(original: &Path, copy: &Path) -> Result<u64> {
    let (a, b) = (metadata(original)?, metadata(copy)?);
    let differs = |what: &str, a: &str, b: &str| -> Result<u64> {
        bail!("{}: {what} is {b}, in the original {a}", copy.display())
    };
    if a.mode() != b.mode() {
        return differs(
            "the mode",
            &format!("{:o}", a.mode()),
            &format!("{:o}", b.mode()),
        );
    }
    if a.is_symlink() {
        let (a, b) = (target(original)?, target(copy)?);
        if a != b {
            return differs(
                "the target",
                &a.display().to_string(),
                &b.display().to_string(),
            );
        }
        return Ok(0);
    }
    if !a.is_file() {
        return Ok(0);
    }
    if a.len() != b.len() {
        return differs("the size", &a.len().to_string(), &b.len().to_string());
    }
    // Archives keep seconds.
    if a.mtime() != b.mtime() {
        return differs("the time", &a.mtime().to_string(), &b.mtime().to_string());
    }
    same_contents(original, copy)?;
    Ok(a.len())
}

fn same_contents(original: &Path, copy: &Path) -> Result<()> {
    const BLOCK: usize = 256 << 10;
    let open = |path: &Path| File::open(path).with_context(|| format!("open {}", path.display()));
    let (mut a, mut b) = (open(original)?, open(copy)?);
    let (mut left, mut right) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0_u64;
    loop {
        let read_left = fill(&mut a, &mut left).with_context(|| original.display().to_string())?;
        let read_right = fill(&mut b, &mut right).with_context(|| copy.display().to_string())?;
        let (left, right) = (&left[..read_left], &right[..read_right]);
        if left != right {
            let same = left.iter().zip(right).take_while(|(a, b)| a == b).count() as u64;
            bail!(
                "{}: byte {} differs from the original",
                copy.display(),
                at + same
            );
        }
        if read_left == 0 {
            return Ok(());
        }
        at += read_left as u64;
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn metadata(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).with_context(|| format!("stat {}", path.display()))
}

fn target(path: &Path) -> Result<std::path::PathBuf> {
    fs::read_link(path).with_context(|| format!("readlink {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::time::SystemTime;

    fn tree(root: &Path) -> PathBuf {
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::write(root.join("sub/file"), vec![7; 300_000]).unwrap();
        symlink("sub/file", root.join("link")).unwrap();
        let file = File::options()
            .write(true)
            .open(root.join("sub/file"))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        root.to_owned()
    }

    /// Report after one change to the copy.
    fn said(change: impl FnOnce(&Path)) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let original = tree(&scratch.path().join("original"));
        let copy = tree(&scratch.path().join("copy"));
        change(&copy);
        match compare(&original, &copy, &|_| {}) {
            Ok(compared) => format!("{compared:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn equal_trees_are_equal() {
        let compared = Compared {
            entries: 4,
            bytes: 300_000,
        };
        assert_eq!(said(|_| {}), format!("{compared:?}"));
    }

    #[test]
    fn every_difference_is_found() {
        let write = |copy: &Path, contents: &[u8]| {
            fs::write(copy.join("sub/file"), contents).unwrap();
            let file = File::options()
                .write(true)
                .open(copy.join("sub/file"))
                .unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        let mut changed = vec![7; 300_000];
        changed[299_999] = 8;
        assert!(said(|copy| write(copy, &changed)).contains("byte 299999 differs"));
        assert!(said(|copy| write(copy, &changed[..5])).contains("the size is 5"));
        assert!(
            said(|copy| fs::remove_dir(copy.join("sub/empty")).unwrap()).contains("is missing")
        );
        assert!(
            said(|copy| fs::write(copy.join("x"), "").unwrap()).contains("not in the original")
        );
        assert!(
            said(|copy| fs::write(copy.join("sub/file"), vec![7; 300_000]).unwrap())
                .contains("the time is")
        );
        assert!(
            said(|copy| {
                fs::remove_file(copy.join("link")).unwrap();
                symlink("elsewhere", copy.join("link")).unwrap();
            })
            .contains("the target is elsewhere")
        );
        assert!(
            said(|copy| {
                let mode = fs::Permissions::from_mode(0o600);
                fs::set_permissions(copy.join("sub/file"), mode).unwrap();
            })
            .contains("the mode is 100600")
        );
    }
}
