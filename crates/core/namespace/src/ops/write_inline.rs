//! Write to a file that is kept beside its inode.

use super::xattr::drop_capability;
use super::{Checked, Choices, Execute, Mutation, inode_reply, pass};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Layout, Refusal, Reply, op};
use pandofs_types::limits::MAX_INLINE_BYTES;
use pandofs_types::{FsError, Ino, LeaseKey};

impl Execute for op::WriteInline {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let inode = cx.inode(view, self.ino)?;
        fitting(&inode, view, self.offset, self.data.len())?;
        around(view, self.ino, &inode, self.offset, self.data.len())?;
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

/// Bytes of a file that are kept beside its inode: no more than go into its first data object as one stripe unit.
pub(super) fn limit(view: &View<'_>, layout: &Layout) -> u64 {
    let kept = view.map.settings.inline_bytes.min(layout.unit);
    u64::from(kept).min(MAX_INLINE_BYTES as u64)
}

/// Bytes of a file that are kept beside its inode, if it is kept so.
pub(super) fn inline_bytes(view: &View<'_>, ino: Ino) -> Result<Option<u64>, Stop> {
    Ok(match view.inode(ino)?.body {
        Body::Inline { held, .. } => Some(u64::from(held)),
        _ => None,
    })
}

/// Refuses what is too much to be kept inline.
pub(super) fn fitting(
    inode: &InodeRecord,
    view: &View<'_>,
    offset: u64,
    length: usize,
) -> Result<(), Stop> {
    let end = offset.saturating_add(length as u64);
    let (layout, striped) = match &inode.body {
        Body::Inline { layout, .. } if end <= limit(view, layout) => return Ok(()),
        Body::Inline { layout, .. } => (*layout, false),
        Body::Striped(layout) | Body::Sparse(layout) => (*layout, true),
        _ => return Err(FsError::Invalid.into()),
    };
    Err(Refusal::NotInline { layout, striped }.into())
}

/// Bytes that are kept of a file, if some of them stay where so much is written. Checks read it too, so that it is in memory
/// when the record is applied.
pub(super) fn around(
    view: &View<'_>,
    ino: Ino,
    inode: &InodeRecord,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, Stop> {
    let held = inode.held();
    if offset == 0 && length >= held as usize {
        return Ok(Vec::new());
    }
    view.inline_data(ino, held)
}

/// Writes what fits beside the inode.
pub(super) fn write(
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    ino: Ino,
    mut inode: InodeRecord,
    offset: u64,
    written: &[u8],
) -> Result<Mutation, Stop> {
    let mut data = around(&txn.view(), ino, &inode, offset, written.len())?;
    let Body::Inline { held, .. } = &mut inode.body else {
        return Err(Stop::Broken(format!("inode {ino} was inline when checked")));
    };
    let start = offset as usize;
    let end = start + written.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(written);
    *held = txn.keep_inline(ino, *held, data);
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
