//! A branch file is made: its inode, on another shard than its entry's.
//!
//! It has the lock of an inode until the operation is decided: whoever learnt the number from the answer, and asks for
//! the file before this shard has heard of the outcome, waits. So does who closes it.

use super::Prepared;
use crate::locks::{Lock, LockSet};
use crate::ops::create::inode_of;
use crate::ops::inode_reply;
use crate::{Stop, Txn};
use pandofs_api::{NewFile, StepResult};
use pandofs_types::Ino;

/// Fixes the inode number. If the operation is aborted the number is lost, which harms nothing.
pub fn prepare(txn: &mut Txn<'_, '_>, new: &NewFile) -> Result<Prepared, Stop> {
    let ino = txn.new_ino();
    let view = txn.view();
    let inode = inode_reply(&view, ino, &inode_of(&view, ino, new))?;
    Ok(Prepared {
        result: StepResult {
            inode: Some(Box::new(inode)),
            ..StepResult::default()
        },
        follow: vec![],
        locks: vec![Lock::Inode(ino)],
    })
}

/// The lock of a file that was to be made before a restart.
pub fn locks(own: &StepResult) -> LockSet {
    made(own).map(Lock::Inode).into_iter().collect()
}

/// The inode that was made.
pub fn made(own: &StepResult) -> Option<Ino> {
    own.inode.as_deref().map(|inode| inode.attr.ino)
}

pub fn execute(txn: &mut Txn<'_, '_>, new: &NewFile, own: &StepResult) -> Result<(), Stop> {
    let ino =
        made(own).ok_or_else(|| Stop::Broken("a file was made without a number".to_string()))?;
    let inode = inode_of(&txn.view(), ino, new);
    txn.add_inode(ino, &inode);
    Ok(())
}
