//! Directories as `getdents(2)` lists them.

use super::{E, FileType, Number, SeekFrom, Text, call, lseek, open};
use crate::case::{Call, Outcome};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, RawDir};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: Vec<u8>,
    pub inode: u64,
    pub kind: FileType,
    /// `d_off`: where the listing goes on after this entry, as `telldir` gives it.
    pub next: u64,
}

/// Returns the entries of one call of `getdents64` with a buffer of so many bytes; none at the end.
pub(crate) fn getdents(dir: &OwnedFd, size: usize) -> Call<Vec<Entry>> {
    let mut buffer = vec![MaybeUninit::uninit(); size];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut entries = Vec::new();
    let result = loop {
        match raw.next() {
            None => break Ok(entries),
            Some(Err(errno)) => break Err(errno),
            Some(Ok(entry)) => entries.push(Entry {
                name: entry.file_name().to_bytes().to_vec(),
                inode: entry.ino(),
                kind: entry.file_type(),
                next: entry.next_entry_cookie(),
            }),
        }
        if raw.is_buffer_empty() {
            break Ok(entries);
        }
    };
    call!("getdents64", [Number(dir), size], result)
}

/// All that is left to list, `.` and `..` included.
pub(crate) fn rest_of(dir: &OwnedFd, size: usize) -> Outcome<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let entries = getdents(dir, size).ok()?;
        if entries.is_empty() {
            return Ok(all);
        }
        all.extend(entries);
    }
}

pub(crate) fn opendir(path: impl Text) -> Call<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY, 0)
}

/// `seekdir` on the descriptor of a directory.
pub(crate) fn seekdir(dir: &OwnedFd, position: u64) -> Outcome {
    lseek(dir, SeekFrom::Start(position)).ok().map(drop)
}

/// Returns whether it is `.` or `..`.
pub(crate) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The names in a directory, without `.` and `..`.
pub(crate) fn names_in(path: impl Text) -> Outcome<BTreeSet<String>> {
    let entries = rest_of(&opendir(path).ok()?, 32_768)?;
    let names = entries.iter().filter(|it| !is_dot(&it.name));
    Ok(names
        .map(|it| String::from_utf8_lossy(&it.name).into_owned())
        .collect())
}

/// Fails as a directory that was removed is free to, or lists nothing.
pub(crate) fn lists_nothing(dir: &OwnedFd) -> Outcome {
    match getdents(dir, 32_768).result() {
        Ok(entries) if entries.iter().all(|it| is_dot(&it.name)) => Ok(()),
        Err(E::NOENT) => Ok(()),
        found => crate::case::holds("getdents64", false, "nothing or ENOENT", found),
    }
}
