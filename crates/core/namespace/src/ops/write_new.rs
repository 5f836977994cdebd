//! Write_new: the contents of an empty file, in one request whatever their length.

use super::write_inline::{changed, limit, write};
use super::{Checked, Choices, Execute, Mutation, inode_reply};
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{FIRST_TRUNCATIONS, Layout, Refusal, Reply, op};
use pandofs_types::limits::MAX_NEW_FILE_BYTES;
use pandofs_types::{FsError, LeaseKey, ServerId, TxId};

impl Execute for op::WriteNew {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        empty(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (ino, data) = (self.ino, &self.data);
        let (mut inode, layout) = empty(self, &txn.view(), cx)?;
        if data.len() as u64 <= limit(&txn.view(), &layout) {
            return write(txn, cx, ino, inode, 0, data);
        }
        inode.body = Body::Striped(layout);
        inode.truncations = FIRST_TRUNCATIONS;
        inode.size = data.len() as u64;
        let tx = TxId {
            coordinator: txn.shard,
            sequence: txn.new_sequence(),
        };
        let data = data.clone();
        txn.put_reclaim(ino, &ReclaimRecord::Fill { tx, layout, data });
        changed(txn, cx, ino, &mut inode)?;
        let reply = inode_reply(&txn.view(), ino, &inode)?;
        Ok(Mutation::Done(Reply::Inode(reply)))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(!self.data.is_empty())
    }

    fn fills(&self, view: &View<'_>) -> Result<Option<ServerId>, Stop> {
        Ok(match view.inode(self.ino)?.body {
            Body::Inline { layout, .. } if self.data.len() as u64 > limit(view, &layout) => {
                Some(layout.server_of(0))
            }
            _ => None,
        })
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The file, if it is empty and the bytes fit, and its layout once it is striped.
fn empty(
    new: &op::WriteNew,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<(InodeRecord, Layout), Stop> {
    if new.data.len() > MAX_NEW_FILE_BYTES {
        let text = format!("{} bytes of a new file", new.data.len());
        return Err(Refusal::Malformed(text).into());
    }
    let inode = cx.inode(view, new.ino)?;
    let (layout, striped) = match &inode.body {
        Body::Inline { layout, held: 0 }
            if inode.size == 0 && new.data.len() <= layout.unit as usize =>
        {
            return Ok((inode.clone(), *layout));
        }
        Body::Inline { layout, .. } => (*layout, false),
        Body::Striped(layout) | Body::Sparse(layout) => (*layout, true),
        _ => return Err(FsError::Invalid.into()),
    };
    Err(Refusal::NotInline { layout, striped }.into())
}
