//! A file outgrows its inode: its client has copied the inline data into data objects.

use super::inode_reply;
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply};
use pandofs_types::{FsError, Ino};

/// Two clients that do this at once copy the same bytes to the same place; the second one finds the
/// file striped, which is what it wants.
pub fn check(view: &View<'_>, locks: &Locks, ino: Ino, seen: u64) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    match &inode.body {
        Body::Inline { version, .. } if *version != seen => Err(Refusal::InlineChanged.into()),
        Body::Inline { .. } | Body::Striped(_) => Ok(inode),
        _ => Err(FsError::Invalid.into()),
    }
}

pub fn apply(txn: &mut Txn<'_, '_>, ino: Ino, mut inode: InodeRecord) -> Result<Reply, Stop> {
    if let Body::Inline { layout, .. } = inode.body {
        inode.body = Body::Striped(layout);
        txn.put_inode(ino, &inode);
    }
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
