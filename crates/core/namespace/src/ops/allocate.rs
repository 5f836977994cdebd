//! Space for a range of a file that is kept beside its inode, or zeros in it (fallocate(2)). Of a striped
//! file the client asks the data objects, and reports that as it does a write.

use super::write_inline::{changed, inline_bytes, limit};
use super::{Checked, Choices, Execute, Mutation, inode_reply};
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Allocation, Refusal, Reply, op};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{FsError, LeaseKey};

impl Execute for op::Allocate {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let inode = file(self, view, cx)?;
        // To be in memory when the record is applied.
        view.inline_data(self.ino, inode.held())?;
        Ok(Checked::HERE)
    }

    /// Space beside an inode is bytes that are zeros, up to the file's end; beyond it nothing is kept, as no more than
    /// `inline_bytes` is at stake.
    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (ino, allocation) = (self.ino, self.allocation);
        let mut inode = file(self, &txn.view(), cx)?;
        let range = self.offset..self.offset + self.length;
        let mut data = txn.view().inline_data(ino, inode.held())?;
        let held = data.len() as u64;
        if allocation.zeroes() && range.start < held {
            data[range.start as usize..range.end.min(held) as usize].fill(0);
        }
        if allocation == Allocation::Punch && range.end >= held {
            data.truncate(range.start.min(held) as usize);
        }
        if allocation.extends() {
            inode.size = inode.size.max(range.end);
        }
        if allocation.reserves() {
            let end = range.end.min(inode.size).max(held);
            data.resize(end as usize, 0);
        }
        let Body::Inline { held, .. } = &mut inode.body else {
            return Err(Stop::Broken(format!("inode {ino} was inline when checked")));
        };
        *held = txn.keep_inline(ino, *held, data);
        changed(txn, cx, ino, &mut inode)?;
        Ok(Mutation::Done(Reply::Inode(inode_reply(
            &txn.view(),
            ino,
            &inode,
        )?)))
    }

    fn needs_space(&self, view: &View<'_>) -> Result<bool, Stop> {
        let end = self.offset.saturating_add(self.length);
        let reserves = self.allocation.reserves();
        Ok(reserves && inline_bytes(view, self.ino)?.is_some_and(|has| has < end))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The file, if it is kept inline and has room for the range.
fn file(allocate: &op::Allocate, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    if allocate.length == 0 {
        return Err(FsError::Invalid.into());
    }
    let end = allocate.offset.checked_add(allocate.length);
    let end = end.filter(|&end| end <= MAX_FILE_BYTES);
    let end = end.ok_or(FsError::FileTooBig)?;
    let inode = cx.inode(view, allocate.ino)?;
    let (layout, striped) = match &inode.body {
        Body::Inline { layout, .. } => {
            if !allocate.allocation.reserves() || end <= limit(view, layout) {
                return Ok(inode);
            }
            (*layout, false)
        }
        Body::Striped(layout) | Body::Sparse(layout) => (*layout, true),
        _ => return Err(FsError::Invalid.into()),
    };
    Err(Refusal::NotInline { layout, striped }.into())
}
