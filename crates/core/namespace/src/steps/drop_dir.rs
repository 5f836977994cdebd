//! An empty directory dies, at its home.
//!
//! The home may not know of every partition yet: a shard that has split tells it afterwards. It knows
//! its own children, though, and each shard knows its own, so asking every shard that is found on the
//! way, starting from the home's map, reaches all of them (`DropPart` names what it knows in turn).

use super::free::forget_inode;
use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::permission::check_owner;
use crate::records::PartsRecord;
use crate::{Stop, Txn, View, paths};
use pandofs_api::{Refusal, Step, StepResult, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, ShardId};

impl Perform for step::DropDir {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (dir, must_own) = (self.dir, self.must_own);
        let (view, locks_held, own) = (&txn.view(), cx.locks, cx.own);
        let locks = locks(dir);
        for lock in &locks {
            locks_held.check(lock, own)?;
        }
        let inode = view.inode(dir)?;
        if inode.kind != FileKind::Dir {
            return Err(FsError::NotDir.into());
        }
        check_owner(must_own, &inode)?;
        let parts = empty_parts(view, dir)?;
        Ok(Prepared {
            follow: elsewhere(&parts, dir, view.shard),
            locks,
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let dir = self.dir;
        let inode = txn.view().inode(dir).map_err(no_longer)?;
        if let Some(path) = txn.view().parts(dir)?.and_then(|parts| parts.path) {
            paths::forget(txn, dir, &path)?;
        }
        drop_parts(txn, dir)?;
        forget_inode(txn, dir, inode)
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(locks(self.dir))
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.dir), LeaseKey::Parts(self.dir)]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}

fn locks(dir: Ino) -> LockSet {
    vec![Lock::Dir(dir), Lock::Inode(dir), Lock::Parent(dir)]
}

/// The partitions here, if they are empty and none is being split.
pub(super) fn empty_parts(view: &View<'_>, dir: Ino) -> Result<PartsRecord, Stop> {
    let parts = view
        .parts(dir)?
        .ok_or_else(|| Stop::Broken(format!("directory {dir} has no partition at home")))?;
    if parts.entries() > 0 {
        return Err(FsError::NotEmpty.into());
    }
    // A split under way ends soon, one way or the other.
    if view.split(dir)?.is_some() {
        return Err(Refusal::TryAgain.into());
    }
    Ok(parts)
}

/// A `DropPart` for every other shard but the home that is known to have partitions.
pub(super) fn elsewhere(parts: &PartsRecord, dir: Ino, here: ShardId) -> Vec<(ShardId, Step)> {
    parts
        .map
        .shards()
        .into_iter()
        .filter(|&shard| shard != here && shard != dir.birth_shard())
        .map(|shard| (shard, Step::DropPart(step::DropPart { dir })))
        .collect()
}

pub(super) fn drop_parts(txn: &mut Txn<'_, '_>, dir: Ino) -> Result<(), Stop> {
    let parts = txn
        .view()
        .parts(dir)?
        .ok_or_else(|| Stop::Broken(format!("partitions of {dir} went while locked")))?;
    assert!(
        parts.entries() == 0,
        "directory {dir} got names while it was locked"
    );
    txn.meta.partitions -= parts.parts.len() as u64;
    txn.delete_parts(dir);
    Ok(())
}
