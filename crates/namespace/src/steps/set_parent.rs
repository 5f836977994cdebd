//! A directory moves below another one.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::{WRITE, check_inode, check_owner};
use crate::records::Body;
use crate::{Locks, Stop, Txn, View};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Time, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    dir: Ino,
    must_own: Option<u32>,
    caller: &Credentials,
) -> Result<Prepared, Stop> {
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

pub fn execute(txn: &mut Txn<'_, '_>, dir: Ino, parent: Ino, time: Time) -> Result<(), Stop> {
    let mut inode = txn.view().inode(dir).map_err(no_longer)?;
    inode.body = Body::Dir { parent };
    advance(&mut inode.ctime, time);
    txn.put_inode(dir, &inode);
    Ok(())
}
