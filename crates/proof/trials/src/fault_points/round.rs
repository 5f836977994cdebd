//! One round of work, with every kind of operation that changes the name space.

use super::hunt::Hunt;
use super::mirror::Mirror;
use crate::cluster::{CALLER, fresh_directory};
use anyhow::{Context, Result, ensure};
use pandofs_api::DirSettings;
use pandofs_client::Client;
use pandofs_placement::DirPolicy;
use pandofs_types::limits::MIN_SPLIT_THRESHOLD;
use pandofs_types::{FileLock, Ino, LockKind, LockMode, LockRange};
use std::time::{Duration, Instant};

/// Entries that make a directory with the smallest threshold split again and again.
const WIDE: usize = 40;
/// Of them, those that stay when it is to become one partition again.
const NARROW: usize = 1;
/// Time that a directory may take to split, a killed server included.
const SPLIT_LIMIT: Duration = Duration::from_secs(30);
/// Time to wait for it to become one partition again.
const MERGE_LIMIT: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// So much that it does not stay inline.
const LARGE: usize = 100_000;

/// Works in a directory of its own, which is gone at the end.
///
/// # Errors
/// A state that is not as it must be, or the file system's errors.
pub(super) fn play(client: &Client, hunt: &Hunt<'_>) -> Result<()> {
    let (name, root) = fresh_directory(client, Ino::ROOT, "fault-points")?;
    // So that what is in one directory is on several shards.
    let settings = DirSettings {
        policy: Some(DirPolicy::Random),
        ..DirSettings::default()
    };
    client.set_dir_settings(&CALLER, root, settings)?;
    let mut tree = Mirror::new(client, hunt, root);
    directories(&mut tree).context("directories")?;
    files(&mut tree).context("files")?;
    names(&mut tree).context("names")?;
    open_files(client, &mut tree).context("open files")?;
    tree.verify()?;
    wide(client, &mut tree).context("a directory that splits")?;
    tree.verify()?;
    tree.remove_all()?;
    client.rmdir(&CALLER, Ino::ROOT, &name)?;
    // There is no tree any more.
    hunt.check(|| Ok(()))
}

fn directories(tree: &mut Mirror<'_>) -> Result<()> {
    for path in [
        "a",
        "b",
        "c",
        "a/below",
        "a/below/deep",
        "b/below",
        "c/empty",
    ] {
        tree.mkdir(path)?;
    }
    tree.chmod("c", 0o2755)?;
    tree.set_attribute("a/below", Some(b"of a directory"))?;
    // Into another directory, with what is below it; over an empty one; and there and back.
    tree.rename("a/below", "b/moved")?;
    tree.rename("b/below", "c/empty")?;
    tree.exchange("b/moved/deep", "c/empty")?;
    tree.rmdir("c/empty")
}

fn files(tree: &mut Mirror<'_>) -> Result<()> {
    for (path, content) in [
        ("a/one", "1"),
        ("a/two", "22"),
        ("a/three", "333"),
        ("b/x", "x"),
    ] {
        tree.file(path, content.as_bytes())?;
    }
    let large: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    tree.file("c/large", &large)?;
    tree.truncate("c/large", LARGE / 2)?;
    tree.truncate("c/large", LARGE)?;
    tree.truncate("a/two", 5_000)?;
    tree.file("b/cut", &large)?;
    tree.truncate("b/cut", 0)?;
    tree.chmod("a/one", 0o600)?;
    tree.set_attribute("a/one", Some(b"first"))?;
    tree.set_attribute("a/one", Some(b"second"))?;
    tree.set_attribute("a/three", Some(b"not for long"))?;
    tree.set_attribute("a/three", None)?;
    tree.symlink("b/symlink", "../a/one")?;
    tree.fifo("c/fifo")?;
    tree.unnamed("a", "c/named-later", b"without a name at first")
}

fn names(tree: &mut Mirror<'_>) -> Result<()> {
    tree.link("a/one", "b/link")?;
    tree.link("a/one", "c/link")?;
    tree.link("c/large", "a/large")?;
    tree.rename("a/two", "c/two")?;
    tree.rename("a/three", "b/x")?;
    tree.rename("b/symlink", "a/symlink")?;
    tree.exchange("b/x", "c/two")?;
    tree.exchange("b/link", "c/fifo")?;
    // From every directory to every other: which side decides is chance.
    for (path, other) in [
        ("a/large", "b/x"),
        ("b/x", "a/large"),
        ("c/two", "a/symlink"),
        ("c/large", "a/large"),
    ] {
        tree.exchange(path, other)?;
    }
    tree.rename("c/large", "b/cut")?;
    tree.unlink("a/large")?;
    tree.unlink("a/one")?;
    tree.unlink("c/named-later")
}

/// Files that are removed while they are open, and locks.
fn open_files(client: &Client, tree: &mut Mirror<'_>) -> Result<()> {
    let ino = tree.create("b/open", b"to be removed")?;
    tree.link("b/open", "c/open")?;
    let lock = FileLock {
        kind: LockKind::Record,
        owner: 1,
        pid: 1,
        mode: LockMode::Exclusive,
        range: LockRange { first: 0, last: 9 },
    };
    client.try_lock(ino, 1, lock)?;
    tree.check()?;
    tree.unlink("b/open")?;
    tree.unlink("c/open")?;
    client.write(&CALLER, ino, 6, b"gone")?;
    tree.check()?;
    let read = client.read(&CALLER, ino, 0, LARGE)?;
    ensure!(read == b"to be goneved", "an open file reads as {read:?}");
    client.unlock(ino, 1, LockKind::Record, 1, lock.range)?;
    client.release(ino)?;
    tree.check()
}

/// A directory that splits, has files with other names elsewhere, and becomes one partition again.
fn wide(client: &Client, tree: &mut Mirror<'_>) -> Result<()> {
    let dir = tree.mkdir("wide")?;
    let settings = DirSettings {
        threshold: Some(MIN_SPLIT_THRESHOLD),
        max_partitions: Some(8),
        ..DirSettings::default()
    };
    client.set_dir_settings(&CALLER, dir, settings)?;
    for number in 0..WIDE {
        let path = format!("wide/{number}");
        match number % 4 {
            0 => tree.mkdir(&path).map(|_| ())?,
            1 => {
                tree.file(&path, path.as_bytes())?;
                tree.link(&path, &format!("a/{number}"))?;
            }
            _ => tree.file(&path, path.as_bytes())?,
        }
    }
    ensure!(
        has_partitions(client, dir, SPLIT_LIMIT, |count| count > 1)?,
        "it has not split after {} s",
        SPLIT_LIMIT.as_secs()
    );
    tree.chmod("wide", 0o700)?;
    tree.verify()?;
    for number in NARROW..WIDE {
        let path = format!("wide/{number}");
        match number % 4 {
            0 => tree.rmdir(&path)?,
            _ => tree.unlink(&path)?,
        }
    }
    // A message that asks for a merge may be lost with a server, and nothing is wrong then.
    has_partitions(client, dir, MERGE_LIMIT, |count| count == 1)?;
    Ok(())
}

/// Waits for the wanted number of partitions; answers whether it came.
fn has_partitions(
    client: &Client,
    dir: Ino,
    limit: Duration,
    wanted: impl Fn(u32) -> bool,
) -> Result<bool> {
    let begun = Instant::now();
    while !wanted(client.dir_info(&CALLER, dir)?.map.active_count()) {
        if begun.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(true)
}
