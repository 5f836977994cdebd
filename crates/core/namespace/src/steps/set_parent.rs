//! A directory moves below another one.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::{WRITE, check_inode, check_owner};
use crate::records::Body;
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey};

impl Perform for step::SetParent {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let (dir, must_own, caller) = (self.dir, self.must_own, &self.caller);
        let lock = Lock::Parent(dir);
        locks.check(&lock, own)?;
        let inode = view.inode(dir)?;
        if inode.kind != FileKind::Dir {
            return Err(FsError::NotDir.into());
        }
        check_owner(must_own, &inode)?;
        // Its `..` is written to.
        check_inode(caller, WRITE, &inode)?;
        Ok(Prepared {
            locks: vec![lock],
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let (dir, parent, time) = (self.dir, self.parent, self.time);
        let mut inode = txn.view().inode(dir).map_err(no_longer)?;
        inode.body = Body::Dir { parent };
        advance(&mut inode.ctime, time);
        txn.put_inode(dir, &inode);
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Parent(self.dir)])
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.dir)]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}
