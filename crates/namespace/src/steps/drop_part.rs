//! The empty partitions of a dying directory go, on a shard that is not its home.

use super::Prepared;
use super::drop_dir::{drop_parts, elsewhere, empty_parts};
use crate::locks::{Lock, LockSet};
use crate::{Locks, Stop, Txn, View};
use pandofs_types::{Ino, TxId};

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
        // Who named this shard has not heard yet that what was here was merged. It does not come back
        // meanwhile: whoever has it now is asked as well, and gives nothing away any more.
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

pub fn execute(txn: &mut Txn<'_, '_>, dir: Ino) -> Result<(), Stop> {
    if txn.view().parts(dir)?.is_some() {
        drop_parts(txn, dir)?;
    }
    Ok(())
}
