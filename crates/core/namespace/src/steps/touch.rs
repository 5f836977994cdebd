//! An inode's ctime changes because its name did.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::check_owner;
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, step};
use pandofs_types::{Ino, LeaseKey};

impl Perform for step::Touch {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let (ino, must_own) = (self.ino, self.must_own);
        let lock = Lock::Inode(ino);
        locks.check(&lock, own)?;
        check_owner(must_own, &view.inode(ino)?)?;
        Ok(Prepared {
            locks: vec![lock],
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let (ino, time) = (self.ino, self.time);
        let mut inode = txn.view().inode(ino).map_err(no_longer)?;
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

    // A new directory may be renamed or exchanged at once.
    fn dir(&self) -> Option<Ino> {
        Some(self.ino)
    }
}
