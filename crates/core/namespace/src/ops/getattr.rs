//! Getattr: an inode by its number; also once its data objects have followed all truncations.

use super::{Execute, inode_reply, setattr};
use crate::{Context, Stop, View};
use pandofs_api::{Reply, op};

impl Execute for op::GetAttr {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        Ok(Reply::Inode(inode_reply(view, self.ino, &inode)?))
    }
}

/// `TryAgain` while data objects are still to be truncated.
impl Execute for op::Followed {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        setattr::check_followed(view, self.ino)?;
        Ok(Reply::Inode(inode_reply(view, self.ino, &inode)?))
    }
}
