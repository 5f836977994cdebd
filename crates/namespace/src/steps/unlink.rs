//! A file loses a name.

use super::Prepared;
use super::free::forget_inode;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::{Choices, advance};
use crate::permission::check_owner;
use crate::records::ReclaimRecord;
use crate::{Locks, Stop, Txn, View};
use pandofs_types::{FileKind, FsError, Ino, Time, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    ino: Ino,
    must_own: Option<u32>,
) -> Result<Prepared, Stop> {
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

pub fn execute(txn: &mut Txn<'_, '_>, ino: Ino, time: Time, choices: &Choices) -> Result<(), Stop> {
    let mut inode = txn.view().inode(ino).map_err(no_longer)?;
    assert!(inode.nlink > 0, "inode {ino} lost more names than it had");
    inode.nlink -= 1;
    advance(&mut inode.ctime, time);
    if inode.nlink > 0 {
        txn.put_inode(ino, &inode);
    } else if choices.closed.contains(&ino) {
        forget_inode(txn, ino, inode)?;
    } else {
        txn.put_inode(ino, &inode);
        // A cut goes on; whoever finishes it finds that the inode has no name.
        let cut = matches!(txn.view().reclaim(ino)?, Some(ReclaimRecord::Cut { .. }));
        if !cut {
            txn.put_reclaim(ino, &ReclaimRecord::Orphan);
        }
    }
    Ok(())
}
