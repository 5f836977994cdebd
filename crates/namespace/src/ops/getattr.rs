//! Getattr: an inode by its number.

use super::inode_reply;
use crate::{Locks, Stop, View, locks::Lock};
use pandofs_api::Reply;
use pandofs_types::Ino;

pub fn read(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    Ok(Reply::Inode(inode_reply(view, ino, &view.inode(ino)?)?))
}
