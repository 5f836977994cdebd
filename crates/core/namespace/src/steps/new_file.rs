//! A branch file is made: its inode, on another shard than its entry's.
//!
//! It has the lock of an inode until the operation is decided: a client that learnt the number from the answer, and
//! asks for the file before this shard has heard of the outcome, waits. So does a close of it.

use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::ops::create::inode_of;
use crate::ops::inode_reply;
use crate::{Stop, Txn, View};
use pandofs_api::{NewFile, StepResult};
use pandofs_types::Ino;

impl Perform for NewFile {
    /// Fixes the inode number. If the operation is aborted the number is lost, which harms nothing.
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let ino = txn.new_ino(cx.choices.ino);
        let view = txn.view();
        let inode = inode_reply(&view, ino, &inode_of(&view, ino, self))?;
        Ok(Prepared {
            result: StepResult {
                inode: Some(Box::new(inode)),
                ..StepResult::default()
            },
            follow: vec![],
            locks: vec![Lock::Inode(ino)],
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let ino = made(given.own)
            .ok_or_else(|| Stop::Broken("a file was made without a number".to_string()))?;
        let inode = inode_of(&txn.view(), ino, self);
        txn.add_inode(ino, &inode);
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, own: &StepResult) -> Result<LockSet, Stop> {
        Ok(made(own).map(Lock::Inode).into_iter().collect())
    }

    fn needs_space(&self) -> bool {
        true
    }
}

/// The inode that was made.
pub fn made(own: &StepResult) -> Option<Ino> {
    own.inode.as_deref().map(|inode| inode.attr.ino)
}
