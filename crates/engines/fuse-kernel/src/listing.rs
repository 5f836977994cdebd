//! Answers to the kernel's listings of directories.

use crate::attr::{Entry, FileAttr, FileType};
use crate::bytes::Writer;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Entries begin at multiples of so many bytes.
const ALIGNMENT: usize = 8;

/// Entries of a directory in the making, no more than the kernel has room for.
#[derive(Debug)]
pub struct Listing {
    room: usize,
    bytes: Vec<u8>,
}

impl Listing {
    /// Of so many bytes at most, as the request says.
    pub fn within(room: u32) -> Listing {
        Listing {
            room: room as usize,
            bytes: Vec::new(),
        }
    }

    /// Adds an entry to the answer to `Readdir`; false if there is no room for it. `cookie`: what
    /// the kernel asks for the entries after this one with.
    #[must_use]
    pub fn add(&mut self, ino: u64, cookie: u64, kind: FileType, name: &OsStr) -> bool {
        let mut head = Writer::new();
        encode_dirent(ino, cookie, kind, name, &mut head);
        self.push(head.as_bytes(), name)
    }

    /// Adds an entry to the answer to `Readdirplus`.
    #[must_use]
    pub fn add_plus(&mut self, entry: &Entry, cookie: u64, name: &OsStr) -> bool {
        let FileAttr { ino, kind, .. } = entry.attr;
        let mut head = Writer::new();
        entry.encode(&mut head);
        encode_dirent(ino, cookie, kind, name, &mut head);
        self.push(head.as_bytes(), name)
    }

    fn push(&mut self, head: &[u8], name: &OsStr) -> bool {
        let length = head.len() + name.len();
        let end = self.bytes.len() + length.next_multiple_of(ALIGNMENT);
        if end > self.room {
            return false;
        }
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.resize(end, 0);
        true
    }

    /// The answer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// `struct fuse_dirent`, without the name.
fn encode_dirent(ino: u64, cookie: u64, kind: FileType, name: &OsStr, to: &mut Writer) {
    to.u64(ino).u64(cookie);
    to.u32(name.len() as u32).u32(kind.bits() >> 12);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_there_are_no_more_than_fit() {
        let mut listing = Listing::within(64);
        assert!(listing.add(7, 3, FileType::Directory, OsStr::new("abc")));
        assert_eq!(listing.as_bytes().len(), 32);
        assert!(listing.add(8, 4, FileType::RegularFile, OsStr::new("12345678")));
        assert_eq!(listing.as_bytes().len(), 64);
        assert!(!listing.add(9, 5, FileType::RegularFile, OsStr::new("")));
        assert_eq!(listing.as_bytes().len(), 64);
    }
}
