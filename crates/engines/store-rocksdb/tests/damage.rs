//! Directories that are no sound store of this version: refused, and left as they were.

#![allow(clippy::unwrap_used, reason = "what tests call is test code, too")]

use pandofs_storage::store::suite::{assert_a_prefix, numbered};
use pandofs_storage::store::{Batch, KvRead, Store, StoreError};
use pandofs_store_rocksdb::{Options, RocksStore};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Batches in the stores made here.
const WRITTEN: u32 = 100;

/// A flushed store that is not open.
fn stopped_store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for number in 1..=WRITTEN {
        store.write(&numbered(number)).unwrap();
    }
    store.flush().unwrap();
    directory
}

fn open(path: &Path) -> Result<RocksStore, StoreError> {
    RocksStore::open(path, Options::default())
}

fn open_read_only(path: &Path) -> Result<RocksStore, StoreError> {
    RocksStore::open_read_only(path, Options::default())
}

/// Every file of a directory with its contents.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|file| (file.clone(), fs::read(&file).unwrap()))
        .collect()
}

fn file_that(path: &Path, fits: impl Fn(&str) -> bool) -> PathBuf {
    contents(path)
        .into_keys()
        .find(|file| fits(file.file_name().unwrap().to_str().unwrap()))
        .unwrap()
}

fn assert_corrupt(outcome: Result<RocksStore, StoreError>, path: &Path) {
    match outcome {
        Err(StoreError::Corrupt { what }) => {
            assert!(what.contains(path.to_str().unwrap()), "{what}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn the_format_is_pinned() {
    let directory = stopped_store();
    let marker = fs::read(directory.path().join("FORMAT")).unwrap();
    assert_eq!(marker, b"pandofs-store 1\n");
}

#[test]
fn another_version_is_refused_and_not_touched() {
    let directory = stopped_store();
    for found in ["pandofs-store 2", "", "\u{1b}[31mred"] {
        fs::write(directory.path().join("FORMAT"), format!("{found}\n")).unwrap();
        let before = contents(directory.path());
        for outcome in [open(directory.path()), open_read_only(directory.path())] {
            let error = outcome.err().unwrap();
            let expected = StoreError::WrongFormat {
                path: directory.path().to_path_buf(),
                found: found.escape_debug().to_string(),
                expected: "pandofs-store 1".to_string(),
            };
            assert_eq!(error, expected);
        }
        assert!(contents(directory.path()) == before);
    }
}

#[test]
fn a_directory_that_is_no_store_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("diary.txt"), "dear diary").unwrap();
    for outcome in [open(directory.path()), open_read_only(directory.path())] {
        match outcome.err().unwrap() {
            StoreError::WrongFormat { found, .. } => assert_eq!(found, "no FORMAT file"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(contents(directory.path()).len(), 1);
}

#[test]
fn a_store_that_lost_its_marker_is_not_overwritten() {
    let directory = stopped_store();
    let marker = directory.path().join("FORMAT");
    fs::remove_file(&marker).unwrap();
    assert!(matches!(
        open(directory.path()),
        Err(StoreError::WrongFormat { .. })
    ));
    fs::write(&marker, "pandofs-store 1\n").unwrap();
    assert_eq!(assert_a_prefix(&open(directory.path()).unwrap()), WRITTEN);
}

/// A crash after RocksDB made its files and before they were marked, and one before RocksDB was done
/// (it makes `CURRENT` after the list of files and before its log).
#[test]
fn a_store_whose_making_was_cut_short_is_made_after_all() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    fs::remove_file(directory.path().join("FORMAT")).unwrap();
    fs::write(directory.path().join("FORMAT.new"), "pando").unwrap();
    assert!(matches!(
        open_read_only(directory.path()),
        Err(StoreError::WrongFormat { .. })
    ));
    drop(open(directory.path()).unwrap());
    fs::remove_file(directory.path().join("FORMAT")).unwrap();
    fs::remove_file(directory.path().join("CURRENT")).unwrap();
    fs::remove_file(file_that(directory.path(), |name| name.ends_with(".log"))).unwrap();
    let store = open(directory.path()).unwrap();
    store.write(&numbered(1)).unwrap();
    store.flush().unwrap();
    drop(store);
    assert_eq!(assert_a_prefix(&open(directory.path()).unwrap()), 1);
}

#[test]
fn a_missing_file_is_corruption_and_no_reason_to_begin_anew() {
    for fits in [
        |name: &str| name == "CURRENT",
        |name: &str| name.starts_with("MANIFEST-"),
        |name: &str| name.ends_with(".sst"),
    ] {
        let directory = stopped_store();
        let file = file_that(directory.path(), fits);
        fs::remove_file(&file).unwrap();
        assert_corrupt(open_read_only(directory.path()), directory.path());
        assert_corrupt(open(directory.path()), directory.path());
        assert!(!file.exists());
    }
}

#[test]
fn a_flipped_bit_in_the_list_of_files_is_found_at_once() {
    let directory = stopped_store();
    let file = file_that(directory.path(), |name| name.starts_with("MANIFEST-"));
    let mut bytes = fs::read(&file).unwrap();
    bytes[20] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_corrupt(open(directory.path()), directory.path());
}

#[test]
fn a_flipped_bit_in_a_table_is_found_when_it_is_read() {
    let directory = stopped_store();
    let file = file_that(directory.path(), |name| name.ends_with(".sst"));
    let mut bytes = fs::read(&file).unwrap();
    // In the first data block, which has "count", the first key.
    bytes[10] ^= 1;
    fs::write(&file, bytes).unwrap();
    let store = open(directory.path()).unwrap();
    let is_corrupt = |error: &StoreError| matches!(error, StoreError::Corrupt { .. });
    assert!(is_corrupt(&store.get(b"count").unwrap_err()));
    let scan = store.scan(
        b"",
        b"\xff",
        &mut |_, _| std::ops::ControlFlow::Continue(()),
    );
    assert!(is_corrupt(&scan.unwrap_err()));
}

/// Also of a block that the open store has read already, and would not read again.
#[test]
fn a_flipped_bit_in_a_table_is_found_by_looking_for_it() {
    let directory = stopped_store();
    let store = open(directory.path()).unwrap();
    assert_a_prefix(&store);
    let (mut bytes, mut calls) = (0, 0);
    let mut count = |more| {
        bytes += more;
        calls += 1;
        std::ops::ControlFlow::Continue(())
    };
    store.verify(&mut count).unwrap();
    assert!(bytes > 0 && calls > 1, "{bytes} bytes in {calls} calls");
    let file = file_that(directory.path(), |name| name.ends_with(".sst"));
    let right = fs::read(&file).unwrap();
    let mut wrong = right.clone();
    wrong[10] ^= 1;
    // In place: the open store and the reader that looks see the same file.
    overwrite(&file, &wrong);
    store.get(b"count").unwrap();
    let error = store
        .verify(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(".sst"), "{error}");
    overwrite(&file, &right);
    let mut calls = 0;
    let end_at_once = &mut |_| {
        calls += 1;
        std::ops::ControlFlow::Break(())
    };
    store.verify(end_at_once).unwrap();
    assert_eq!(calls, 1);
}

fn overwrite(file: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

#[test]
fn a_store_is_open_once() {
    let directory = stopped_store();
    let _held = open(directory.path()).unwrap();
    assert!(matches!(open(directory.path()), Err(StoreError::Io { .. })));
}

#[test]
fn a_reader_sees_the_last_flush_and_changes_nothing() {
    let directory = stopped_store();
    let before = contents(directory.path());
    let store = open_read_only(directory.path()).unwrap();
    assert_eq!(assert_a_prefix(&store), WRITTEN);
    let mut batch = Batch::new();
    batch.put(b"key".to_vec(), b"value".to_vec());
    assert!(matches!(store.write(&batch), Err(StoreError::Io { .. })));
    assert!(matches!(store.flush(), Err(StoreError::Io { .. })));
    drop(store);
    let after = contents(directory.path());
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert!(after == before);
}

#[test]
fn a_reader_makes_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    assert!(matches!(
        open_read_only(&missing),
        Err(StoreError::Io { .. })
    ));
    assert!(!missing.exists());
}
