//! The empty partitions of a dying directory go, on a shard that is not its home.

use super::Prepared;
use super::drop_dir::{drop_parts, elsewhere, empty_parts};
use crate::locks::{Lock, LockSet};
use crate::{Locks, Stop, Txn, View};
use pandofs_types::{FsError, Ino, TxId};

pub(super) fn locks(dir: Ino) -> LockSet {
    vec![Lock::Dir(dir), Lock::Inode(dir)]
}

pub fn prepare(
    view: &View<'_>,
    locks_held: &Locks,
    own: Option<TxId>,
    dir: Ino,
) -> Result<Prepared, Stop> {
    let locks = locks(dir);
    for lock in &locks {
        locks_held.check(lock, own)?;
    }
    if view.parts(dir)?.is_none() {
        // A map names this shard, so the partition was here; only the directory's end takes it.
        return Err(FsError::NotFound.into());
    }
    let parts = empty_parts(view, dir)?;
    Ok(Prepared {
        follow: elsewhere(&parts, dir, view.shard),
        locks,
        ..Prepared::default()
    })
}

pub fn execute(txn: &mut Txn<'_, '_>, dir: Ino) -> Result<(), Stop> {
    drop_parts(txn, dir)
}
