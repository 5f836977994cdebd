//! Write at a file's end, wherever that is when the record is applied: clients that append at the same
//! time overwrite nothing.
//!
//! Of a striped file the shard gives the client the range, and the client writes it. Until it has, and for
//! good if it dies before, the range reads as zeros.

use super::{Checked, Choices, Execute, Mutation, inode_reply, setattr, write_inline};
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{FsError, LeaseKey};

/// Of what is kept inline: refused with `NotInline` when there is no room for more.
impl Execute for op::AppendInline {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let inode = cx.inode(view, self.ino)?;
        write_inline::fitting(&inode, view, inode.size, self.data.len())?;
        write_inline::around(view, self.ino, &inode, inode.size, self.data.len())?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let inode = cx.inode(&txn.view(), self.ino)?;
        let end = inode.size;
        write_inline::fitting(&inode, &txn.view(), end, self.data.len())?;
        write_inline::write(txn, cx, self.ino, inode, end, &self.data)
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(!self.data.is_empty())
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// Of what is striped.
impl Execute for op::Extend {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        striped(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let mut inode = striped(self, &txn.view(), cx)?;
        inode.size += self.length;
        write_inline::changed(txn, cx, self.ino, &mut inode)?;
        let reply = inode_reply(&txn.view(), self.ino, &inode)?;
        Ok(Mutation::Done(Reply::Inode(reply)))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The inode, if its file is striped and may become so long.
fn striped(extend: &op::Extend, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    let inode = cx.inode(view, extend.ino)?;
    match &inode.body {
        Body::Striped(_) | Body::Sparse(_) => {}
        Body::Inline { layout, .. } => {
            return Err(Refusal::NotInline {
                layout: *layout,
                striped: false,
            }
            .into());
        }
        _ => return Err(FsError::Invalid.into()),
    }
    // It would have to wait for the truncation between this and the write, when the file is longer already.
    setattr::check_followed(view, extend.ino)?;
    match inode.size.checked_add(extend.length) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(inode),
        _ => Err(FsError::FileTooBig.into()),
    }
}
