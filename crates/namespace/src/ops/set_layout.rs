//! How a file is to be striped, as long as it has no data: nothing moves what is in data objects.

use super::create::{default_layout, servers};
use super::{Choices, advance, inode_reply};
use crate::records::{Body, InodeRecord};
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{LayoutChoice, Reply};
use pandofs_types::{Credentials, FileKind, FsError, Ino};

/// It is the owner's to change, as a directory's settings are.
pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    layout: &LayoutChoice,
) -> Result<InodeRecord, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if !layout.fits(servers(view)) {
        return Err(FsError::Invalid.into());
    }
    if inode.kind == FileKind::Dir {
        return Err(FsError::IsDir.into());
    }
    if !caller.owns(inode.uid) {
        return Err(FsError::NotPermitted.into());
    }
    match &inode.body {
        // A size without data counts: a hole may be all that somebody wants of it.
        Body::Inline { data, .. } if data.is_empty() && inode.size == 0 => Ok(inode),
        Body::Inline { .. } | Body::Striped(_) | Body::Sparse(_) => Err(FsError::NotEmpty.into()),
        Body::Nothing | Body::Symlink(_) | Body::Dir { .. } => Err(FsError::Invalid.into()),
    }
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    ino: Ino,
    mut inode: InodeRecord,
    layout: &LayoutChoice,
    choices: &Choices,
) -> Result<Reply, Stop> {
    inode.body = Body::Inline {
        data: Vec::new(),
        layout: layout.of_file(default_layout(&txn.view(), ino)),
    };
    advance(&mut inode.ctime, choices.time);
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
