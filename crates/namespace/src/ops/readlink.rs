//! Readlink.

use crate::records::Body;
use crate::{Locks, Stop, View, locks::Lock};
use pandofs_api::Reply;
use pandofs_types::{FsError, Ino};

pub fn read(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    match view.inode(ino)?.body {
        Body::Symlink(target) => Ok(Reply::Link(target)),
        _ => Err(FsError::Invalid.into()),
    }
}
