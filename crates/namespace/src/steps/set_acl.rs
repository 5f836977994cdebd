//! An access control list of a directory changes, at its home and at every partition.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::acl;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{SetAcl, Step, StepResult};
use pandofs_types::{FileKind, FsError, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    set: &SetAcl,
) -> Result<Prepared, Stop> {
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
        // Who named this shard has not heard yet that what was here was merged into another partition,
        // whose shard is asked as well.
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
            (shard, Step::SetAcl { set })
        })
        .collect();
    Ok(Prepared {
        result: StepResult::default(),
        follow,
        locks: vec![lock],
    })
}

pub fn execute(txn: &mut Txn<'_, '_>, set: &SetAcl) -> Result<(), Stop> {
    let SetAcl {
        dir,
        kind,
        ref acl,
        ref caller,
        time,
    } = *set;
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
        inode.ctime = time;
        txn.put_inode(dir, &inode);
    }
    parts.ctime = parts.ctime.max(time);
    txn.put_parts(dir, &parts);
    Ok(())
}
