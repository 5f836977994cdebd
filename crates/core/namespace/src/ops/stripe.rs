//! A file outgrows what is kept inline: what is kept beside its inode goes into its first data object.
//!
//! The shard writes it, not the client that wants more room: of two clients that copied it themselves,
//! the slower one's copy would undo what the faster one has written since. Until it is written the
//! inode is locked.

use super::write_inline::inline_bytes;
use super::{Checked, Choices, Execute, Mutation, inode_reply};
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{FIRST_TRUNCATIONS, Reply, op};
use pandofs_types::{FsError, LeaseKey, ServerId, TxId};

impl Execute for op::Stripe {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let inode = file(self, view, cx)?;
        // To be in memory when the record is applied.
        view.inline_data(self.ino, inode.held())?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let mut inode = file(self, &txn.view(), cx)?;
        let ino = self.ino;
        if let Body::Inline { layout, held } = inode.body {
            let data = txn.view().inline_data(ino, held)?;
            txn.forget_inline(ino, held);
            inode.body = if u64::from(held) < inode.size {
                Body::Sparse(layout)
            } else {
                Body::Striped(layout)
            };
            inode.truncations = FIRST_TRUNCATIONS;
            if !data.is_empty() {
                let tx = TxId {
                    coordinator: txn.shard,
                    sequence: txn.new_sequence(),
                };
                txn.put_reclaim(ino, &ReclaimRecord::Fill { tx, layout, data });
            }
            txn.put_inode(ino, &inode);
        }
        Ok(Mutation::Done(Reply::Inode(inode_reply(
            &txn.view(),
            ino,
            &inode,
        )?)))
    }

    /// There is less in the store then; but the client wants to write more than it holds.
    fn needs_space(&self, view: &View<'_>) -> Result<bool, Stop> {
        Ok(inline_bytes(view, self.ino)?.is_some())
    }

    fn fills(&self, view: &View<'_>) -> Result<Option<ServerId>, Stop> {
        Ok(match view.inode(self.ino)?.body {
            Body::Inline { layout, held } if held > 0 => Some(layout.server_of(0)),
            _ => None,
        })
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// A second client that asks finds the file striped, which is what it wants.
fn file(stripe: &op::Stripe, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    let inode = cx.inode(view, stripe.ino)?;
    match &inode.body {
        Body::Inline { .. } | Body::Striped(_) | Body::Sparse(_) => Ok(inode),
        _ => Err(FsError::Invalid.into()),
    }
}
