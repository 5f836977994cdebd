//! A client reports what it wrote to a file's data objects: size and times (flushed lazily).

use super::xattr::drop_capability;
use super::{advance, inode_reply};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::Reply;
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Time};
use std::ops::Range;

pub fn check(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if inode.kind != FileKind::File {
        return Err(FsError::Invalid.into());
    }
    Ok(inode)
}

/// The data objects have taken it before they followed the last cut: what of it lay beyond the new end is gone, and is not
/// to come back as zeros.
pub fn before_a_cut(txn: &Txn<'_, '_>, ino: Ino, inode: &InodeRecord) -> Result<Reply, Stop> {
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, inode)?))
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    written: Range<u64>,
    mtime: Time,
    sparse: bool,
) -> Result<Reply, Stop> {
    if written.end > MAX_FILE_BYTES {
        return Err(FsError::FileTooBig.into());
    }
    // Also if the client did not know of a hole: somebody may have cut the file since it last heard of it.
    if (sparse || written.start > inode.size)
        && let Body::Striped(layout) = inode.body
    {
        inode.body = Body::Sparse(layout);
    }
    inode.size = inode.size.max(written.end);
    advance(&mut inode.mtime, mtime);
    advance(&mut inode.ctime, mtime);
    inode.mode = mode_after_write(caller, &inode);
    drop_capability(txn, ino, &mut inode)?;
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
