//! Write to a file that is kept inside its inode.

use super::xattr::drop_capability;
use super::{Checked, Choices, Execute, Mutation, inode_reply, pass};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::limits::MAX_INLINE_BYTES;
use pandofs_types::{FsError, Ino, LeaseKey};

impl Execute for op::WriteInline {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        fitting(
            &cx.inode(view, self.ino)?,
            view,
            self.offset,
            self.data.len(),
        )?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let inode = cx.inode(&txn.view(), self.ino)?;
        fitting(&inode, &txn.view(), self.offset, self.data.len())?;
        write(txn, cx, self.ino, inode, self.offset, &self.data)
    }

    fn needs_space(&self, view: &View<'_>) -> Result<bool, Stop> {
        let end = self.offset.saturating_add(self.data.len() as u64);
        Ok(inline_bytes(view, self.ino)?.is_some_and(|has| has < end))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// Bytes of a file that are kept inside its inode.
pub(super) fn limit(view: &View<'_>) -> u64 {
    (view.map.settings.inline_bytes as usize).min(MAX_INLINE_BYTES) as u64
}

/// Bytes that an inode holds of its file, if it does.
pub(super) fn inline_bytes(view: &View<'_>, ino: Ino) -> Result<Option<u64>, Stop> {
    Ok(match view.inode(ino)?.body {
        Body::Inline { data, .. } => Some(data.len() as u64),
        _ => None,
    })
}

/// Refuses what does not fit into the inode.
pub(super) fn fitting(
    inode: &InodeRecord,
    view: &View<'_>,
    offset: u64,
    length: usize,
) -> Result<(), Stop> {
    let limit = limit(view);
    let (layout, striped) = match &inode.body {
        Body::Inline { .. } if offset.saturating_add(length as u64) <= limit => return Ok(()),
        Body::Inline { layout, .. } => (*layout, false),
        Body::Striped(layout) | Body::Sparse(layout) => (*layout, true),
        _ => return Err(FsError::Invalid.into()),
    };
    Err(Refusal::NotInline { layout, striped }.into())
}

/// Writes what fits into the inode.
pub(super) fn write(
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    ino: Ino,
    mut inode: InodeRecord,
    offset: u64,
    written: &[u8],
) -> Result<Mutation, Stop> {
    let Body::Inline { data, .. } = &mut inode.body else {
        return Err(Stop::Broken(format!("inode {ino} was inline when checked")));
    };
    let start = offset as usize;
    let end = start + written.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(written);
    inode.size = inode.size.max(end as u64);
    changed(txn, cx, ino, &mut inode)?;
    Ok(Mutation::Done(Reply::Inode(inode_reply(
        &txn.view(),
        ino,
        &inode,
    )?)))
}

/// Stores an inode whose contents the caller has changed: times, set-id bits and capabilities follow.
pub(super) fn changed(
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    ino: Ino,
    inode: &mut InodeRecord,
) -> Result<(), Stop> {
    inode.mtime = cx.choices.time;
    pass(&mut inode.ctime, cx.choices.time);
    inode.mode = mode_after_write(cx.caller, inode);
    drop_capability(txn, ino, inode)?;
    txn.put_inode(ino, inode);
    Ok(())
}
