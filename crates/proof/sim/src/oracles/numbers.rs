//! An inode number is given out once: all clients that hear of a number hear of the same file each time, which was born
//! at one time and is of one kind, also when a server lost what it had not synced.

use super::Finding;
use pandofs_api::{InodeReply, Reply};
use pandofs_types::{FileKind, Ino, Time};
use std::collections::BTreeMap;

/// All that clients were told of each number.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    known: BTreeMap<Ino, (FileKind, Time)>,
}

impl Numbers {
    pub(super) fn told(&mut self, reply: &Reply) -> Result<(), Finding> {
        let mut inodes: Vec<&InodeReply> = Vec::new();
        match reply {
            Reply::Entry(entry) => inodes.extend(&entry.inode),
            Reply::Inode(inode) => inodes.push(inode),
            Reply::Entries(page) => {
                inodes.extend(page.entries.iter().filter_map(|entry| entry.inode.as_ref()));
            }
            _ => {}
        }
        for inode in inodes {
            let attr = &inode.attr;
            let now = (attr.kind, attr.btime);
            let before = *self.known.entry(attr.ino).or_insert(now);
            if before != now {
                return Err(Finding::new(
                    "numbers",
                    format!("number {} was given to {before:?} and to {now:?}", attr.ino),
                ));
            }
        }
        Ok(())
    }
}
