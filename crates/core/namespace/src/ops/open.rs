//! Open: checks rights; with `truncate` also empties the file. That the session has it open is the
//! driver's to remember.

use super::read_inline::bring_data;
use super::{Checked, Choices, Execute, Mutation, inode_reply, setattr::truncate};
use crate::permission::{WRITE, check_inode};
use crate::records::InodeRecord;
use crate::{Context, Effect, Stop, Txn, View};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::{FileKind, FsError, LeaseKey};

impl Execute for op::Open {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = inode(self, view, cx, self.access)?;
        let mut reply = inode_reply(view, self.ino, &inode)?;
        if self.data {
            bring_data(view, self.ino, &inode, &mut reply)?;
        }
        Ok(Reply::Inode(reply))
    }

    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        file(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let mut inode = file(self, &txn.view(), cx)?;
        truncate(txn, cx, self.ino, &mut inode, 0)?;
        txn.put_inode(self.ino, &inode);
        txn.effects.push(Effect::Opened { ino: self.ino });
        let reply = inode_reply(&txn.view(), self.ino, &inode)?;
        Ok(Mutation::Done(Reply::Inode(reply)))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The file that is opened and emptied.
fn file(open: &op::Open, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    let inode = inode(open, view, cx, open.access | WRITE)?;
    match inode.kind {
        FileKind::File => Ok(inode),
        FileKind::Dir => Err(FsError::IsDir.into()),
        _ => Err(FsError::Invalid.into()),
    }
}

fn inode(
    open: &op::Open,
    view: &View<'_>,
    cx: &Context<'_>,
    access: u16,
) -> Result<InodeRecord, Stop> {
    if access > 7 {
        return Err(Refusal::Malformed(format!("access {access}")).into());
    }
    let inode = cx.inode(view, open.ino)?;
    check_inode(cx.caller, access, &inode)?;
    Ok(inode)
}
