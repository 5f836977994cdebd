//! Logs in directories of their own, and what crashes leave of them.

// Each test program uses a part of it.
#![allow(dead_code)]

use pandofs_log_raft_engine::{Options, RaftEngineLog};
use pandofs_storage::log::{Entry, Log, LogError};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes of a log file before its first append.
pub(crate) const FILE_HEADER_BYTES: u64 = 69;

pub(crate) fn open_with(dir: &Path, target_file_bytes: u64) -> Result<RaftEngineLog, LogError> {
    RaftEngineLog::open(dir, Options { target_file_bytes })
}

/// Opens with small files, so that little data makes several.
pub(crate) fn open(dir: &Path) -> Result<RaftEngineLog, LogError> {
    open_with(dir, 64 << 10)
}

/// A copy of a log's directory: what is left when its process is killed now.
pub(crate) fn killed(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// The files of the append queue, oldest first.
pub(crate) fn append_files(dir: &Path) -> Vec<PathBuf> {
    files(dir, "raftlog")
}

pub(crate) fn rewrite_files(dir: &Path) -> Vec<PathBuf> {
    files(dir, "rewrite")
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// The number of the last append file that was synced, and its synced bytes, as `SYNCED` says.
pub(crate) fn synced(dir: &Path) -> (u64, u64) {
    let bytes = fs::read(dir.join("SYNCED")).unwrap();
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    (number(0), number(8))
}

/// Returns the last append file, and where its unsynced bytes begin and end.
pub(crate) fn unsynced(dir: &Path) -> (PathBuf, u64, u64) {
    let path = append_files(dir).pop().unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    let (file, bytes) = synced(dir);
    let begin = if name.parse() == Ok(file) {
        bytes
    } else {
        FILE_HEADER_BYTES
    };
    let content = fs::read(&path).unwrap();
    let zeros = content.iter().rev().take_while(|&&byte| byte == 0).count();
    let end = (content.len() - zeros) as u64;
    (path, begin, end.max(begin))
}

pub(crate) fn flip(path: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    byte[0] ^= 0x40;
    file.write_all_at(&byte, offset).unwrap();
}

/// Appends entry `index` of streams 1 and 2, `bytes` bytes each.
pub(crate) fn append_pair(log: &RaftEngineLog, index: u64, bytes: usize) {
    let payload = vec![index as u8; bytes];
    let entries = [1, 2].map(|stream| Entry {
        stream,
        index,
        payload: &payload,
    });
    log.append(&entries).unwrap();
}

/// Opens a log that cannot be opened.
pub(crate) fn refused(dir: &Path) -> LogError {
    match open(dir) {
        Ok(_) => panic!("the log was opened"),
        Err(error) => error,
    }
}

/// Checks that the log in `dir` is refused because of this file.
pub(crate) fn assert_corrupt(dir: &Path, file: &Path, what: &str) {
    let error = refused(dir);
    let LogError::Corrupt { path, what: found } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, file, "{error}");
    assert!(found.contains(what), "{error}");
}
