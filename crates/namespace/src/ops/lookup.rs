//! Lookup: what a name leads to.

use super::inode_reply;
use crate::permission::{SEARCH, check_dir};
use crate::{Locks, Stop, View, locks::Lock};
use pandofs_api::{EntryReply, Reply};
use pandofs_types::{Credentials, FsError, Ino, Name};

pub fn read(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
) -> Result<Reply, Stop> {
    let owned = view.owned(dir, name)?;
    locks.check(
        &Lock::Entry {
            dir,
            position: owned.position,
            name: name.clone(),
        },
        None,
    )?;
    check_dir(caller, SEARCH, &owned.parts)?;
    let entry = view
        .entry(dir, owned.position, name)?
        .ok_or(FsError::NotFound)?;
    let inode = if entry.shard == view.shard {
        locks.check(&Lock::Inode(entry.ino), None)?;
        // The name may have come here, with a part of its directory, before the outcome of the operation that
        // makes the directory it leads to.
        locks.check(&Lock::Made(entry.ino), None)?;
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

/// The inode that an entry says is here.
pub(crate) fn named_inode(view: &View<'_>, ino: Ino) -> Result<crate::records::InodeRecord, Stop> {
    view.stored_inode(ino)?
        .ok_or_else(|| Stop::Broken(format!("an entry leads to inode {ino}, which is not here")))
}
