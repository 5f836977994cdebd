//! Read of a file that is kept beside its inode.

use super::{Execute, inode_reply};
use crate::records::Body;
use crate::{Context, Stop, View};
use pandofs_api::{FileBody, Reply, op};

/// Answers with the data if it is inline, with the layout if it is not.
impl Execute for op::ReadInline {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        let mut reply = inode_reply(view, self.ino, &inode)?;
        if let Body::Inline { held, layout } = inode.body {
            let data = view.inline_data(self.ino, held)?;
            reply.body = FileBody::Inline { data, layout };
        }
        Ok(Reply::Inode(reply))
    }
}
