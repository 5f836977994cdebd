//! Getattr: an inode by its number; also once its data objects have followed all cuts.

use super::{inode_reply, setattr};
use crate::{Locks, Stop, View, locks::Lock};
use pandofs_api::Reply;
use pandofs_types::Ino;

pub fn read(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    Ok(Reply::Inode(inode_reply(view, ino, &view.inode(ino)?)?))
}

/// `TryAgain` while data objects are still to be cut.
pub fn read_followed(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    setattr::check_followed(view, ino)?;
    read(view, locks, ino)
}
