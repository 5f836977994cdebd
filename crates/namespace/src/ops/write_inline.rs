//! Write to a file that is kept inside its inode.

use super::xattr::drop_capability;
use super::{Choices, inode_reply};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply};
use pandofs_types::limits::MAX_INLINE_BYTES;
use pandofs_types::{Credentials, Ino};

/// Bytes of a file that are kept inside its inode.
pub(super) fn limit(view: &View<'_>) -> u64 {
    (view.map.settings.inline_bytes as usize).min(MAX_INLINE_BYTES) as u64
}

pub fn check(
    view: &View<'_>,
    locks: &Locks,
    ino: Ino,
    offset: u64,
    length: usize,
) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    let limit = limit(view);
    match &inode.body {
        Body::Inline { layout, .. } => {
            if offset.saturating_add(length as u64) > limit {
                return Err(Refusal::NotInline {
                    layout: *layout,
                    striped: false,
                }
                .into());
            }
        }
        Body::Striped(layout) | Body::Sparse(layout) => {
            return Err(Refusal::NotInline {
                layout: *layout,
                striped: true,
            }
            .into());
        }
        _ => return Err(pandofs_types::FsError::Invalid.into()),
    }
    Ok(inode)
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    offset: u64,
    written: &[u8],
    choices: &Choices,
) -> Result<Reply, Stop> {
    let Body::Inline { data, .. } = &mut inode.body else {
        return Err(Stop::Broken(format!("inode {ino} was inline when checked")));
    };
    let start = offset as usize;
    let end = start + written.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(written);
    inode.size = inode.size.max(end as u64);
    inode.mtime = choices.time;
    inode.ctime = choices.time;
    inode.mode = mode_after_write(caller, &inode);
    drop_capability(txn, ino, &mut inode)?;
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
