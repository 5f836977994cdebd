//! Lookup: what a name leads to.

use super::{Execute, inode_reply};
use crate::{Context, Stop, View, locks::Lock};
use pandofs_api::{EntryReply, Reply, op};
use pandofs_types::{FsError, Ino};

impl Execute for op::Lookup {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let owned = cx.name(view, self.dir, &self.name)?;
        let entry = view
            .entry(self.dir, owned.position, &self.name)?
            .ok_or(FsError::NotFound)?;
        let inode = if entry.shard == view.shard {
            cx.locks.check(&Lock::Inode(entry.ino), None)?;
            // The name may have come here, with a part of its directory, before the outcome of the operation that
            // makes the directory it leads to.
            cx.locks.check(&Lock::Made(entry.ino), None)?;
            Some(inode_reply(
                view,
                entry.ino,
                &named_inode(view, entry.ino)?,
            )?)
        } else {
            None
        };
        Ok(Reply::Entry(EntryReply {
            ino: entry.ino,
            kind: entry.kind,
            shard: entry.shard,
            inode,
        }))
    }
}

/// The inode that an entry says is here.
pub(crate) fn named_inode(view: &View<'_>, ino: Ino) -> Result<crate::records::InodeRecord, Stop> {
    view.stored_inode(ino)?
        .ok_or_else(|| Stop::Broken(format!("an entry leads to inode {ino}, which is not here")))
}
