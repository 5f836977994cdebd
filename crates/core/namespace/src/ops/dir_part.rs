//! One shard's part of a directory's attributes.

use super::Execute;
use crate::{Context, Stop, View};
use pandofs_api::{DirPart, Reply, op};

impl Execute for op::DirPart {
    fn read(&self, view: &View<'_>, _cx: &Context<'_>) -> Result<Reply, Stop> {
        match view.parts(self.dir)? {
            Some(parts) => Ok(Reply::Part(DirPart {
                entries: parts.entries(),
                subdirs: parts.subdirs(),
                mtime: parts.mtime,
                ctime: parts.ctime,
                map: parts.map,
            })),
            None => Err(view.no_parts(self.dir)?),
        }
    }
}
