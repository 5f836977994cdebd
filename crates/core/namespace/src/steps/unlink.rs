//! A file loses a name.

use super::free::forget_inode;
use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::check_owner;
use crate::records::ReclaimRecord;
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey};

impl Perform for step::Unlink {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let (ino, must_own) = (self.ino, self.must_own);
        let lock = Lock::Inode(ino);
        locks.check(&lock, own)?;
        let inode = view.inode(ino)?;
        if inode.kind == FileKind::Dir || inode.nlink == 0 {
            // The entry that says otherwise is another shard's, and which of the two is wrong is for `fsck` to
            // find.
            return Err(FsError::Io.into());
        }
        check_owner(must_own, &inode)?;
        Ok(Prepared {
            locks: vec![lock],
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let (ino, time) = (self.ino, self.time);
        let mut inode = txn.view().inode(ino).map_err(no_longer)?;
        assert!(inode.nlink > 0, "inode {ino} lost more names than it had");
        inode.nlink -= 1;
        advance(&mut inode.ctime, time);
        if inode.nlink > 0 {
            txn.put_inode(ino, &inode);
        } else if given.choices.closed.contains(&ino) {
            forget_inode(txn, ino, inode)?;
        } else {
            txn.put_inode(ino, &inode);
            // A cut goes on; the one that finishes it finds that the inode has no name.
            let cut = matches!(
                txn.view().reclaim(ino)?,
                Some(ReclaimRecord::Truncate { .. })
            );
            if !cut {
                txn.put_reclaim(ino, &ReclaimRecord::Orphan);
            }
        }
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Inode(self.ino)])
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.ino)]
    }

    fn victim(&self, _view: &View<'_>) -> Result<Option<Ino>, Stop> {
        Ok(Some(self.ino))
    }
}
