//! Write at a file's end, wherever that is when the record is applied: who appends from several clients
//! overwrites nothing.
//!
//! Of a striped file the shard gives the client the range, and the client writes it. Until it has, and for
//! good if it dies before, the range reads as zeros.

use super::xattr::drop_capability;
use super::{Choices, inode_reply, setattr, write_inline};
use crate::permission::mode_after_write;
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FsError, Ino};

/// Of what is kept inline: refused with `NotInline` when `length` more bytes are too many.
pub fn check(view: &View<'_>, locks: &Locks, ino: Ino, length: usize) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let end = view.inode(ino)?.size;
    write_inline::check(view, locks, ino, end, length)
}

/// Of what is striped.
pub fn check_extend(
    view: &View<'_>,
    locks: &Locks,
    ino: Ino,
    length: u64,
) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    match &inode.body {
        Body::Striped(_) | Body::Sparse(_) => {}
        Body::Inline { layout, .. } => {
            return Err(Refusal::NotInline {
                layout: *layout,
                striped: false,
            }
            .into());
        }
        _ => return Err(FsError::Invalid.into()),
    }
    // It would have to wait for the cut between this and the write, when the file is longer already.
    setattr::check_followed(view, ino)?;
    match inode.size.checked_add(length) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(inode),
        _ => Err(FsError::FileTooBig.into()),
    }
}

pub fn apply_extend(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    length: u64,
    choices: &Choices,
) -> Result<Reply, Stop> {
    inode.size += length;
    inode.mtime = choices.time;
    inode.ctime = choices.time;
    inode.mode = mode_after_write(caller, &inode);
    drop_capability(txn, ino, &mut inode)?;
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
