//! A file gets one more name, or its first.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::{advance, inode_reply};
use crate::records::ReclaimRecord;
use crate::{Effect, LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, step};
use pandofs_types::limits::MAX_LINKS;
use pandofs_types::{FileKind, FsError, Ino, LeaseKey};

impl Perform for step::Link {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let (ino, time) = (self.ino, self.time);
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

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let (ino, time) = (self.ino, self.time);
        let mut inode = txn.view().inode(ino).map_err(no_longer)?;
        if inode.nlink == 0 {
            // A cut or a filling goes on; the one that finishes it finds that the inode has a name.
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

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Inode(self.ino)])
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.ino)]
    }

    // A request to link to a directory in the making is refused because it is one.
    fn dir(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
