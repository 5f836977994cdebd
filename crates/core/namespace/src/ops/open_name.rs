//! Open by name: lookup and open at once, where the inode is with its name. That the session has it open is the driver's
//! to remember.

use super::Execute;
use crate::{Context, Stop, View};
use pandofs_api::{EntryReply, Reply, op};
use pandofs_types::{FileKind, FsError};

impl Execute for op::OpenName {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let owned = cx.name(view, self.dir, &self.name)?;
        let entry = view
            .entry(self.dir, owned.position, &self.name)?
            .ok_or(FsError::NotFound)?;
        let is_opened = entry.shard == view.shard && entry.kind == FileKind::File;
        let inode = match is_opened {
            true => {
                let open = op::Open {
                    ino: entry.ino,
                    access: self.access,
                    truncate: false,
                    data: false,
                };
                match open.read(view, cx)? {
                    Reply::Inode(inode) => Some(inode),
                    other => return Err(Stop::Broken(format!("an open is answered {other:?}"))),
                }
            }
            false => None,
        };
        Ok(Reply::Entry(EntryReply {
            ino: entry.ino,
            kind: entry.kind,
            shard: entry.shard,
            inode,
        }))
    }
}
