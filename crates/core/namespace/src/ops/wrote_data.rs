//! A client reports what it wrote to a file's data objects: size and times (flushed lazily).

use super::xattr::drop_capability;
use super::{Checked, Choices, Execute, Mutation, advance, inode_reply, pass, setattr};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Reply, op};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{FileKind, FsError, LeaseKey};

/// `TryAgain` where it makes the file longer while data objects are still to be truncated.
impl Execute for op::WroteData {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        file(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let mut inode = file(self, &txn.view(), cx)?;
        if lasts(self, &inode) {
            grow(self, txn, cx, &mut inode)?;
        }
        let reply = inode_reply(&txn.view(), self.ino, &inode)?;
        Ok(Mutation::Done(Reply::Inode(reply)))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

fn file(wrote: &op::WroteData, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    let inode = cx.inode(view, wrote.ino)?;
    if inode.kind != FileKind::File {
        return Err(FsError::Invalid.into());
    }
    // Else bytes that are still to be cut off would be read: some objects have followed the truncation and take what is written
    // by its count, and the file's new end is behind what another object still has.
    if lasts(wrote, &inode) && wrote.end > inode.size {
        setattr::check_followed(view, wrote.ino)?;
    }
    Ok(inode)
}

/// Test that the data objects took it after the last truncation. Else what of it lay beyond the new end is gone, and is not to
/// come back as zeros.
fn lasts(wrote: &op::WroteData, inode: &InodeRecord) -> bool {
    wrote.truncations >= inode.truncations
}

fn grow(
    wrote: &op::WroteData,
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    inode: &mut InodeRecord,
) -> Result<(), Stop> {
    if wrote.end > MAX_FILE_BYTES {
        return Err(FsError::FileTooBig.into());
    }
    // Also if the client did not know of a hole: somebody may have truncated the file since it last heard of it.
    if (wrote.sparse || wrote.start > inode.size)
        && let Body::Striped(layout) = inode.body
    {
        inode.body = Body::Sparse(layout);
    }
    inode.size = inode.size.max(wrote.end);
    advance(&mut inode.mtime, wrote.mtime);
    pass(&mut inode.ctime, wrote.mtime);
    inode.mode = mode_after_write(cx.caller, inode);
    drop_capability(txn, wrote.ino, inode)?;
    txn.put_inode(wrote.ino, inode);
    Ok(())
}
