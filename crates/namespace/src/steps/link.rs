//! A file gets one more name, or its first.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::{advance, inode_reply};
use crate::records::ReclaimRecord;
use crate::{Effect, Locks, Stop, Txn, View};
use pandofs_api::StepResult;
use pandofs_types::limits::MAX_LINKS;
use pandofs_types::{FileKind, FsError, Ino, Time, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    ino: Ino,
    time: Time,
) -> Result<Prepared, Stop> {
    let lock = Lock::Inode(ino);
    locks.check(&lock, own)?;
    let mut inode = view.inode(ino)?;
    if inode.kind == FileKind::Dir {
        return Err(FsError::NotPermitted.into());
    }
    if inode.nlink == 0 && !inode.may_be_named {
        return Err(FsError::NotFound.into());
    }
    if inode.nlink >= MAX_LINKS {
        return Err(FsError::TooManyLinks.into());
    }
    inode.nlink += 1;
    advance(&mut inode.ctime, time);
    let after = inode_reply(view, ino, &inode)?;
    Ok(Prepared {
        result: StepResult {
            inode: Some(Box::new(after)),
            ..StepResult::default()
        },
        follow: vec![],
        locks: vec![lock],
    })
}

pub fn execute(txn: &mut Txn<'_, '_>, ino: Ino, time: Time) -> Result<(), Stop> {
    let mut inode = txn.view().inode(ino).map_err(no_longer)?;
    if inode.nlink == 0 {
        // A cut or a filling goes on; whoever finishes it finds that the inode has a name.
        if matches!(txn.view().reclaim(ino)?, Some(ReclaimRecord::Orphan)) {
            txn.delete_reclaim(ino);
            txn.effects.push(Effect::Reclaim { ino });
        }
        inode.may_be_named = false;
    }
    inode.nlink += 1;
    advance(&mut inode.ctime, time);
    txn.put_inode(ino, &inode);
    Ok(())
}
