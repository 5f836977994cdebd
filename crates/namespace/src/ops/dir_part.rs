//! One shard's part of a directory's attributes.

use crate::{Stop, View};
use pandofs_api::{DirPart, Reply};
use pandofs_types::Ino;

pub fn read(view: &View<'_>, dir: Ino) -> Result<Reply, Stop> {
    match view.parts(dir)? {
        Some(parts) => Ok(Reply::Part(DirPart {
            entries: parts.entries(),
            subdirs: parts.subdirs(),
            mtime: parts.mtime,
            ctime: parts.ctime,
            map: parts.map,
        })),
        None => Err(view.no_parts(dir)?),
    }
}
