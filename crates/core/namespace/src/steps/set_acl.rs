//! An access control list of a directory changes, at its home and at every partition.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::{acl, pass};
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{SetAcl, Step, StepResult};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey};

impl Perform for SetAcl {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let set = self;
        let lock = Lock::Inode(set.dir);
        locks.check(&lock, own)?;
        if set.dir.birth_shard() == view.shard {
            let inode = view.inode(set.dir)?;
            if inode.kind != FileKind::Dir {
                return Err(FsError::NotDir.into());
            }
            acl::check_owner(&set.caller, &inode, set.kind, set.acl.as_ref())?;
        }
        let Some(parts) = view.parts(set.dir)? else {
            if set.dir.birth_shard() == view.shard {
                return Err(FsError::NotFound.into());
            }
            // The coordinator named this shard and has not heard yet that the partition here was merged
            // into another one, whose shard is asked as well.
            return Ok(Prepared {
                locks: vec![lock],
                ..Prepared::default()
            });
        };
        let follow = parts
            .map
            .shards()
            .into_iter()
            .filter(|&shard| shard != view.shard && shard != set.dir.birth_shard())
            .map(|shard| {
                let set = Box::new(set.clone());
                (shard, Step::SetAcl(set))
            })
            .collect();
        Ok(Prepared {
            result: StepResult::default(),
            follow,
            locks: vec![lock],
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let SetAcl {
            dir,
            kind,
            ref acl,
            ref caller,
            time,
        } = *self;
        let Some(mut parts) = txn.view().parts(dir)? else {
            return Ok(());
        };
        // The same function of the same arguments on copies of the same attributes.
        let changed = acl::set(
            caller,
            kind,
            acl.clone(),
            &mut parts.mode,
            parts.gid,
            &mut parts.acls,
        );
        if !changed {
            return Ok(());
        }
        if dir.birth_shard() == txn.shard {
            let mut inode = txn.view().inode(dir).map_err(no_longer)?;
            inode.mode = parts.mode;
            inode.acls = parts.acls.clone();
            pass(&mut inode.ctime, time);
            txn.put_inode(dir, &inode);
        }
        parts.ctime = parts.ctime.max(time);
        txn.put_parts(dir, &parts);
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Inode(self.dir)])
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.dir), LeaseKey::Parts(self.dir)]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}
