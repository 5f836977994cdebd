//! A file outgrows its inode: what the inode holds goes into its first data object.
//!
//! The shard writes it, not the client that wants more room: of two clients that copied it themselves,
//! the slower one's copy would undo what the faster one has written since. Until it is written the
//! inode is locked.

use super::inode_reply;
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{FIRST_CUTS, Reply, Request, op};
use pandofs_types::{FsError, Ino, ServerId, TxId};

/// A second client that asks finds the file striped, which is what it wants.
pub fn check(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    match &inode.body {
        Body::Inline { .. } | Body::Striped(_) | Body::Sparse(_) => Ok(inode),
        _ => Err(FsError::Invalid.into()),
    }
}

/// The server that would get what the inode holds, if this asks for that.
pub fn to_fill(view: &View<'_>, request: &Request) -> Result<Option<ServerId>, Stop> {
    let Request::Stripe(op::Stripe { ino }) = request else {
        return Ok(None);
    };
    Ok(match view.inode(*ino)?.body {
        Body::Inline { layout, data, .. } if !data.is_empty() => Some(layout.server_of(0)),
        _ => None,
    })
}

pub fn apply(txn: &mut Txn<'_, '_>, ino: Ino, mut inode: InodeRecord) -> Result<Reply, Stop> {
    if let Body::Inline { layout, data, .. } = inode.body {
        inode.body = if (data.len() as u64) < inode.size {
            Body::Sparse(layout)
        } else {
            Body::Striped(layout)
        };
        inode.cuts = FIRST_CUTS;
        if !data.is_empty() {
            let tx = TxId {
                coordinator: txn.shard,
                sequence: txn.new_sequence(),
            };
            txn.put_reclaim(ino, &ReclaimRecord::Fill { tx, layout, data });
        }
        txn.put_inode(ino, &inode);
    }
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
