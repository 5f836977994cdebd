//! Create without a name (`O_TMPFILE`): a file that its maker has open, and that is gone when nobody has it
//! open any more, unless it was given a name by then. It has what a file made in the directory would have,
//! and is on the shard where a name at the position that is given would put it: an ordinary operation, and
//! none of the directory, which stays as it is.

use super::create::{new_file, too_high};
use super::{Checked, Execute, Mutation, inode_reply};
use crate::permission::{CHANGE, check_dir};
use crate::records::{PartsRecord, ReclaimRecord};
use crate::{Context, Effect, Stop, Txn, View};
use pandofs_api::{EntryReply, Refusal, Reply, op};
use pandofs_types::{FileKind, Position};

impl Execute for op::CreateUnnamed {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        parts(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let parts = parts(self, &txn.view(), cx)?;
        let ino = txn.new_ino(cx.choices.ino);
        let modes = (self.mode, self.umask);
        let mut inode = new_file(&txn.view(), ino, cx.caller, &parts, modes, cx.choices.time);
        inode.nlink = 0;
        inode.may_be_named = self.may_be_named;
        txn.add_inode(ino, &inode);
        txn.effects.push(Effect::Opened { ino });
        txn.put_reclaim(ino, &ReclaimRecord::Orphan);
        let reply = inode_reply(&txn.view(), ino, &inode).expect("a file has no parts");
        Ok(Mutation::Done(Reply::Entry(EntryReply {
            ino,
            kind: FileKind::File,
            shard: txn.shard,
            inode: Some(reply),
        })))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }
}

/// The directory, as far as it is here.
fn parts(
    create: &op::CreateUnnamed,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<PartsRecord, Stop> {
    too_high(create.mode)?;
    if create.at >= Position::END {
        return Err(Refusal::Malformed(format!("position {:?}", create.at)).into());
    }
    let owned = view.owned_at(create.dir, create.at)?;
    cx.locks.check_rights(create.dir)?;
    check_dir(cx.caller, CHANGE, &owned.parts)?;
    Ok(owned.parts)
}
