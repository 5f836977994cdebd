//! An inode's ctime changes because its name did.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::check_owner;
use crate::{Locks, Stop, Txn, View};
use pandofs_types::{Ino, Time, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    ino: Ino,
    must_own: Option<u32>,
) -> Result<Prepared, Stop> {
    let lock = Lock::Inode(ino);
    locks.check(&lock, own)?;
    check_owner(must_own, &view.inode(ino)?)?;
    Ok(Prepared {
        locks: vec![lock],
        ..Prepared::default()
    })
}

pub fn execute(txn: &mut Txn<'_, '_>, ino: Ino, time: Time) -> Result<(), Stop> {
    let mut inode = txn.view().inode(ino).map_err(no_longer)?;
    advance(&mut inode.ctime, time);
    txn.put_inode(ino, &inode);
    Ok(())
}
