//! Space for a range of a file that is kept inside its inode, or zeros in it (fallocate(2)). Of a striped
//! file the client asks the data objects, and reports that as it does a write.

use super::xattr::drop_capability;
use super::{Choices, inode_reply, write_inline};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Allocation, Refusal, Reply};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FsError, Ino};
use std::ops::Range;

pub fn check(
    view: &View<'_>,
    locks: &Locks,
    ino: Ino,
    offset: u64,
    length: u64,
    allocation: Allocation,
) -> Result<InodeRecord, Stop> {
    if length == 0 {
        return Err(FsError::Invalid.into());
    }
    let Some(end) = offset
        .checked_add(length)
        .filter(|&end| end <= MAX_FILE_BYTES)
    else {
        return Err(FsError::FileTooBig.into());
    };
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    match &inode.body {
        Body::Inline { layout, .. } => {
            if allocation.reserves() && end > write_inline::limit(view) {
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
        _ => return Err(FsError::Invalid.into()),
    }
    Ok(inode)
}

/// Space inside an inode is bytes that are zeros, up to the file's end; beyond it nothing is kept, as no
/// more than `inline_bytes` is at stake.
pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    range: Range<u64>,
    allocation: Allocation,
    choices: &Choices,
) -> Result<Reply, Stop> {
    let Body::Inline { data, .. } = &mut inode.body else {
        return Err(Stop::Broken(format!("inode {ino} was inline when checked")));
    };
    let held = data.len() as u64;
    if allocation.zeroes() && range.start < held {
        data[range.start as usize..range.end.min(held) as usize].fill(0);
    }
    if allocation == Allocation::Punch && range.end >= held {
        data.truncate(range.start.min(held) as usize);
    }
    if allocation.extends() {
        inode.size = inode.size.max(range.end);
    }
    if allocation.reserves() {
        let end = range.end.min(inode.size).max(held);
        data.resize(end as usize, 0);
    }
    inode.mtime = choices.time;
    inode.ctime = choices.time;
    inode.mode = mode_after_write(caller, &inode);
    drop_capability(txn, ino, &mut inode)?;
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
