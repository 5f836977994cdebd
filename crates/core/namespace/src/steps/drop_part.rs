//! The empty partitions of a dying directory go, on a shard that is not its home.

use super::drop_dir::{drop_parts, elsewhere, empty_parts};
use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::{Stop, Txn, View};
use pandofs_api::{StepResult, step};
use pandofs_types::{Ino, LeaseKey};

impl Perform for step::DropPart {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let dir = self.dir;
        let (view, locks_held, own) = (&txn.view(), cx.locks, cx.own);
        let locks = locks(dir);
        for lock in &locks {
            locks_held.check(lock, own)?;
        }
        if view.parts(dir)?.is_none() {
            // The coordinator named this shard and has not heard yet that the partition here was merged. It does
            // not come back meanwhile: the shard that has it now is asked as well, and gives nothing away any more.
            return Ok(Prepared {
                locks,
                ..Prepared::default()
            });
        }
        let parts = empty_parts(view, dir)?;
        Ok(Prepared {
            follow: elsewhere(&parts, dir, view.shard),
            locks,
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let dir = self.dir;
        if txn.view().parts(dir)?.is_some() {
            drop_parts(txn, dir)?;
        }
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(locks(self.dir))
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Parts(self.dir)]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}

fn locks(dir: Ino) -> LockSet {
    vec![Lock::Dir(dir), Lock::Inode(dir)]
}
