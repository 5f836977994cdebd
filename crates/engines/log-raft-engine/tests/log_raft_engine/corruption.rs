//! Bytes that changed and files that went missing.

use crate::common;

use common::{
    FILE_HEADER_BYTES, append_files, append_pair, assert_corrupt, flip, killed, open, refused,
    rewrite_files, synced, unsynced,
};
use pandofs_storage::log::suite::contents;
use pandofs_storage::log::{Entry, Log, LogError};
use std::fs::{self, File};
use tempfile::TempDir;

/// Bytes of each payload; with [`common::open`]'s small files a few dozen appends fill one.
const PAYLOAD_BYTES: usize = 500;

/// Files that a killed process leaves that synced all but the last appends.
fn log_of_several_files(synced: u64, unsynced: u64) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    for index in 1..=synced {
        append_pair(&log, index, PAYLOAD_BYTES);
    }
    log.sync().unwrap();
    for index in synced + 1..=synced + unsynced {
        append_pair(&log, index, PAYLOAD_BYTES);
    }
    killed(dir.path())
}

#[test]
fn a_changed_byte_in_an_earlier_file_is_found() {
    let dir = log_of_several_files(300, 0);
    let files = append_files(dir.path());
    assert!(files.len() >= 4, "{files:?}");
    for file in &files[..files.len() - 1] {
        let bytes = fs::metadata(file).unwrap().len();
        // The header, an append's header, entries in the middle, the items at the end.
        for offset in [3, FILE_HEADER_BYTES + 2, bytes / 2, bytes - 6] {
            let copy = killed(dir.path());
            let file = copy.path().join(file.file_name().unwrap());
            flip(&file, offset);
            assert_corrupt(copy.path(), &file, "at byte");
        }
    }
    open(dir.path()).unwrap();
}

#[test]
fn a_changed_byte_before_good_appends_of_the_last_file_is_found() {
    for unsynced in [0, 10] {
        let dir = log_of_several_files(20, unsynced);
        let files = append_files(dir.path());
        let (number, synced_bytes) = synced(dir.path());
        assert_eq!((files.len(), number), (1, 1));
        for offset in [
            0,
            FILE_HEADER_BYTES + 20,
            synced_bytes / 2,
            synced_bytes - 1,
        ] {
            let copy = killed(dir.path());
            let file = copy.path().join(files[0].file_name().unwrap());
            flip(&file, offset);
            assert_corrupt(copy.path(), &file, "at byte");
            // It is not touched, so that it can be looked at.
            flip(&file, offset);
            let log = open(copy.path()).unwrap();
            assert_eq!(log.span(2), Some((1, 20 + unsynced)));
        }
    }
}

#[test]
fn a_changed_byte_in_what_was_not_synced_ends_the_log() {
    let dir = log_of_several_files(20, 20);
    let (file, begin, end) = unsynced(dir.path());
    flip(&file, begin + (end - begin) / 2);
    let log = open(dir.path()).unwrap();
    for stream in [1, 2] {
        let (first, last) = log.span(stream).unwrap();
        assert!(first == 1 && (20..40).contains(&last), "{first} to {last}");
        for (index, payload) in contents(&log, stream) {
            assert_eq!(payload, [index as u8; PAYLOAD_BYTES]);
        }
    }
    assert_eq!(log.span(1), log.span(2));
}

#[test]
fn a_synced_end_that_is_missing_is_found() {
    let dir = log_of_several_files(20, 0);
    let (_, synced_bytes) = synced(dir.path());
    let path = append_files(dir.path()).remove(0);
    // In the middle of an append, and where one ends.
    for bytes in [synced_bytes - 1, FILE_HEADER_BYTES, 0] {
        let copy = killed(dir.path());
        let path = copy.path().join(path.file_name().unwrap());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(bytes)
            .unwrap();
        assert_corrupt(copy.path(), &path, "at byte");
    }
}

#[test]
fn without_synced_only_the_last_file_may_end_early() {
    let dir = log_of_several_files(300, 0);
    fs::remove_file(dir.path().join("SYNCED")).unwrap();
    let files = append_files(dir.path());
    let copy = killed(dir.path());
    let earlier = copy.path().join(files[1].file_name().unwrap());
    flip(&earlier, 5_000);
    assert_corrupt(copy.path(), &earlier, "at byte");

    flip(files.last().unwrap(), FILE_HEADER_BYTES + 600);
    let log = open(dir.path()).unwrap();
    let (first, last) = log.span(1).unwrap();
    assert!(first == 1 && last < 300);
    append_pair(&log, last + 1, PAYLOAD_BYTES);
}

#[test]
fn missing_files_are_named() {
    let dir = log_of_several_files(300, 0);
    let files = append_files(dir.path());
    for missing in &files[1..] {
        let copy = killed(dir.path());
        let missing = copy.path().join(missing.file_name().unwrap());
        fs::remove_file(&missing).unwrap();
        assert_corrupt(copy.path(), &missing, "missing");
    }
    let copy = killed(dir.path());
    for file in append_files(copy.path()) {
        fs::remove_file(file).unwrap();
    }
    let last = copy.path().join(files.last().unwrap().file_name().unwrap());
    assert_corrupt(copy.path(), &last, "missing");
}

#[test]
fn streams_that_lack_their_first_entries_are_named() {
    let dir = log_of_several_files(300, 0);
    let log = open(dir.path()).unwrap();
    // Writes each stream's first index anew, in the last file.
    log.prune(1, 1).unwrap();
    log.prune(2, 1).unwrap();
    drop(log);
    fs::remove_file(&append_files(dir.path())[0]).unwrap();
    assert_corrupt(dir.path(), dir.path(), "lacks its entries 2 to");
}

#[test]
fn rewritten_entries_are_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let idle = Entry {
        stream: 9,
        index: 1,
        payload: b"stands still",
    };
    log.append(&[idle]).unwrap();
    for index in 1..=600 {
        append_pair(&log, index, PAYLOAD_BYTES);
    }
    log.prune(1, 599).unwrap();
    log.prune(2, 599).unwrap();
    log.reclaim().unwrap();
    let dir = killed(dir.path());
    let rewritten = rewrite_files(dir.path()).pop().unwrap();
    let bytes = fs::read(&rewritten).unwrap();
    let payload = bytes
        .windows(12)
        .position(|window| window == b"stands still");
    let payload = payload.expect("the entry was rewritten") as u64;

    flip(&rewritten, payload);
    assert_corrupt(dir.path(), &rewritten, "at byte");
    flip(&rewritten, payload);
    let copy = killed(dir.path());
    let missing = copy.path().join(rewritten.file_name().unwrap());
    fs::remove_file(&missing).unwrap();
    assert_corrupt(copy.path(), &missing, "missing");

    let log = open(dir.path()).unwrap();
    assert_eq!(contents(&log, 9), [(1, b"stands still".to_vec())]);
}

#[test]
fn a_file_that_was_only_begun_is_begun_again() {
    for begun in [&b""[..], b"RAFT-LOG", &[0; 4_096]] {
        let dir = log_of_several_files(300, 0);
        // Closing cuts off the space that was reserved, as beginning the next file does.
        drop(open(dir.path()).unwrap());
        let files = append_files(dir.path());
        let next = format!("{:016}.raftlog", files.len() + 1);
        fs::write(dir.path().join(&next), begun).unwrap();
        let log = open(dir.path()).unwrap();
        assert_eq!(log.span(1), Some((1, 300)));
        for index in 301..=400 {
            append_pair(&log, index, PAYLOAD_BYTES);
        }
        drop(log);
        assert_eq!(open(dir.path()).unwrap().span(2), Some((1, 400)));
    }
}

#[test]
fn a_changed_byte_is_found_by_reading_while_the_log_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    for index in 1..=300 {
        append_pair(&log, index, PAYLOAD_BYTES);
    }
    let file = append_files(dir.path()).remove(1);
    flip(&file, 10_000);
    let mut visited = 0;
    let error = log
        .read(1, 0, &mut |_, _| {
            visited += 1;
            Ok(())
        })
        .unwrap_err();
    assert!(
        matches!(&error, LogError::Corrupt { path, .. } if *path == file),
        "{error}"
    );
    assert!(visited < 300);
    append_pair(&log, 301, PAYLOAD_BYTES);
    flip(&file, 10_000);
    assert_eq!(contents(&log, 1).len(), 301);
}

#[test]
fn other_formats_are_refused() {
    let dir = log_of_several_files(10, 0);
    let path = dir.path().join("FORMAT");
    assert_eq!(fs::read(&path).unwrap(), b"pandofs-log 1\n");
    fs::write(&path, "pandofs-log 2\n").unwrap();
    let expected = LogError::WrongFormat {
        path: path.clone(),
        found: "pandofs-log 2".to_owned(),
        expected: "pandofs-log 1".to_owned(),
    };
    assert_eq!(refused(dir.path()), expected);
    fs::remove_file(&path).unwrap();
    assert!(matches!(refused(dir.path()), LogError::WrongFormat { .. }));
}
