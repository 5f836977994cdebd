//! Read of a file that is kept inside its inode.

use super::{Execute, file_body, inode_reply};
use crate::{Context, Stop, View};
use pandofs_api::{Reply, op};

/// Answers with the data if it is inline, with the layout if it is not.
impl Execute for op::ReadInline {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        let mut reply = inode_reply(view, self.ino, &inode)?;
        reply.body = file_body(&inode, true);
        Ok(Reply::Inode(reply))
    }
}
