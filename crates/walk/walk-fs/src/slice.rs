//! Items of work; and names of a directory put together for another thread.
//!
//! A slice is, for each entry: its kind (one byte), its inode's number (8 bytes, little-endian),
//! its name and a NUL.

use crate::dir::Dir;
use rustix::fs::FileType;
use std::ffi::CStr;
use std::sync::Arc;

/// An item of work.
#[derive(Debug)]
pub(crate) enum Item<D> {
    /// To be listed.
    Directory(Arc<Dir<D>>),
    /// Names of the directory, to be visited.
    Slice(Arc<Dir<D>>, Box<[u8]>),
    /// Something that a visitor has put off, see [`crate::Entry::later`].
    Task(Arc<Dir<D>>, Box<[u8]>),
}

/// Of each entry besides its name: kind and inode number.
const HEAD_BYTES: usize = 9;

const KINDS: [FileType; 8] = [
    FileType::Unknown,
    FileType::RegularFile,
    FileType::Directory,
    FileType::Symlink,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharacterDevice,
    FileType::BlockDevice,
];

pub(crate) fn push(slice: &mut Vec<u8>, kind: FileType, ino: u64, name: &CStr) {
    let kind = KINDS.iter().position(|it| *it == kind).unwrap_or(0);
    slice.push(kind as u8);
    slice.extend_from_slice(&ino.to_le_bytes());
    slice.extend_from_slice(name.to_bytes_with_nul());
}

pub(crate) fn entries(slice: &[u8]) -> impl Iterator<Item = (FileType, u64, &CStr)> {
    let mut rest = slice;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at_checked(HEAD_BYTES)?;
        let name = CStr::from_bytes_until_nul(tail).ok()?;
        rest = &tail[name.to_bytes_with_nul().len()..];
        let (kind, ino) = head.split_first_chunk::<1>()?;
        let ino = u64::from_le_bytes(ino.try_into().ok()?);
        Some((*KINDS.get(usize::from(kind[0]))?, ino, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_as_they_went_in() {
        let given = [
            (FileType::RegularFile, 7, c"a"),
            (FileType::Unknown, u64::MAX, c"new\nline \xff"),
            (FileType::BlockDevice, 0, c"b"),
        ];
        let mut slice = Vec::new();
        for (kind, ino, name) in given {
            push(&mut slice, kind, ino, name);
        }
        assert_eq!(entries(&slice).collect::<Vec<_>>(), given);
        assert_eq!(entries(&[]).count(), 0);
    }
}
