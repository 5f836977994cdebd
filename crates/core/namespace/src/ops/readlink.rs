//! Readlink.

use super::Execute;
use crate::records::Body;
use crate::{Context, Stop, View};
use pandofs_api::{Reply, op};
use pandofs_types::FsError;

impl Execute for op::ReadLink {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        match cx.inode(view, self.ino)?.body {
            Body::Symlink(target) => Ok(Reply::Link(target)),
            _ => Err(FsError::Invalid.into()),
        }
    }
}
