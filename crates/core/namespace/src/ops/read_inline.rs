//! Read of a file that is kept beside its inode.

use super::{Execute, inode_reply};
use crate::records::{Body, InodeRecord};
use crate::{Context, Stop, View};
use pandofs_api::{FileBody, InodeReply, Reply, op};
use pandofs_types::Ino;

/// Answers with the data if it is inline, with the layout if it is not.
impl Execute for op::ReadInline {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        let mut reply = inode_reply(view, self.ino, &inode)?;
        bring_data(view, self.ino, &inode, &mut reply)?;
        Ok(Reply::Inode(reply))
    }
}

/// Puts what the file has inline into an answer, if it is kept so.
pub(super) fn bring_data(
    view: &View<'_>,
    ino: Ino,
    inode: &InodeRecord,
    reply: &mut InodeReply,
) -> Result<(), Stop> {
    if let Body::Inline { held, layout } = inode.body {
        let data = view.inline_data(ino, held)?;
        reply.body = FileBody::Inline { data, layout };
    }
    Ok(())
}
