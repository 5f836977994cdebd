//! Layout of a file that has no data yet: nothing moves what is in data objects.

use super::create::{default_layout, servers};
use super::{Checked, Choices, Execute, Mutation, advance, inode_reply};
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, Txn, View};
use pandofs_api::{Reply, op};
use pandofs_types::{FileKind, FsError, LeaseKey};

impl Execute for op::SetLayout {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        empty(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let mut inode = empty(self, &txn.view(), cx)?;
        inode.body = Body::Inline {
            held: 0,
            layout: self.layout.of_file(default_layout(&txn.view(), self.ino)),
        };
        advance(&mut inode.ctime, cx.choices.time);
        txn.put_inode(self.ino, &inode);
        let reply = inode_reply(&txn.view(), self.ino, &inode)?;
        Ok(Mutation::Done(Reply::Inode(reply)))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The file, if it has no data. Its layout is the owner's to change, as a directory's settings are.
fn empty(set: &op::SetLayout, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    let inode = cx.inode(view, set.ino)?;
    if !set.layout.fits(servers(view)) {
        return Err(FsError::Invalid.into());
    }
    if inode.kind == FileKind::Dir {
        return Err(FsError::IsDir.into());
    }
    if !cx.caller.owns(inode.uid) {
        return Err(FsError::NotPermitted.into());
    }
    match &inode.body {
        // A size without data counts: a hole may be all that somebody wants of it.
        Body::Inline { held: 0, .. } if inode.size == 0 => Ok(inode),
        Body::Inline { .. } | Body::Striped(_) | Body::Sparse(_) => Err(FsError::NotEmpty.into()),
        Body::Nothing | Body::Symlink(_) | Body::Dir { .. } => Err(FsError::Invalid.into()),
    }
}
