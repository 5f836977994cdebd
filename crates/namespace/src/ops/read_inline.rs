//! Read a file that is kept inside its inode.

use super::{file_body, inode_reply};
use crate::{Locks, Stop, View, locks::Lock};
use pandofs_api::Reply;
use pandofs_types::Ino;

/// Answers with the data if it is inline, with the layout if it is not.
pub fn read(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    let mut reply = inode_reply(view, ino, &inode)?;
    reply.body = file_body(&inode, true);
    Ok(Reply::Inode(reply))
}
