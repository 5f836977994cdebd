//! Bytes of small files that openings have brought.
//!
//! A program that opens a file to read it reads it, as a rule, and the shard answers the opening of a small one with its
//! bytes. They are believed while the file's attributes are leased and have the time of change with which the bytes came:
//! each change of contents has a later one, and nobody changes them before the lease is recalled.

use crate::boottime;
use crate::core::Core;
use crate::file::File;
use crate::first_bytes::KeptBytes;
use pandofs_api::{FileBody, InodeReply};
use pandofs_types::{Attr, Ino, Time};
use std::sync::Arc;

/// Bytes that one opening has brought.
#[derive(Debug)]
pub(crate) struct Brought {
    data: Vec<u8>,
    changed: Time,
    size: u64,
    /// Of all files.
    kept: Arc<KeptBytes>,
}

impl Drop for Brought {
    fn drop(&mut self) {
        self.kept.remove(self.data.len());
    }
}

impl Brought {
    /// `None`: it brought nothing, or there is no room for more.
    fn of(kept: &Arc<KeptBytes>, inode: &mut InodeReply) -> Option<Brought> {
        let FileBody::Inline { data, .. } = &mut inode.body else {
            return None;
        };
        if data.is_empty() || !kept.add(data.len()) {
            return None;
        }
        Some(Brought {
            data: std::mem::take(data),
            changed: inode.attr.ctime,
            size: inode.attr.size,
            kept: Arc::clone(kept),
        })
    }

    /// The bytes, if the file is as it was.
    pub(crate) fn bytes(&self, attr: &Attr) -> Option<&[u8]> {
        let is_same = attr.ctime == self.changed && attr.size == self.size;
        is_same.then_some(&self.data)
    }
}

impl Core {
    /// Whether it is of use that the opening of a file for these rights brings its bytes.
    pub(crate) fn brings(&self, ino: Ino, access: u16, truncate: bool) -> bool {
        const READ: u16 = 4;
        let is_read = access == READ && !truncate;
        is_read && self.lease_cache.is_on() && !self.grants.is_exclusive(ino)
    }

    /// Takes what a server's answer to an opening has brought.
    pub(crate) fn take_brought(&self, file: &File, inode: &mut InodeReply) {
        if let Some(brought) = Brought::of(&self.brought_bytes, inode) {
            file.bring(brought);
        }
    }

    /// A range of a file kept inline, if an opening has brought it and nothing has changed since.
    pub(crate) fn read_brought(&self, file: &File, offset: u64, length: usize) -> Option<Vec<u8>> {
        if !file.has_brought() {
            return None;
        }
        let leased = self.lease_cache.attr(file.ino);
        let leased = leased.filter(|(_, until)| *until > boottime::now());
        file.brought_range(leased.map(|(attr, _)| attr).as_ref(), offset, length)
    }
}
