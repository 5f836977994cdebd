//! Extended attributes in the `user.` name space.

use super::Choices;
use crate::permission::{READ, STICKY, WRITE, check_inode};
use crate::records::InodeRecord;
use crate::{Locks, Stop, Txn, View, keys, locks::Lock};
use pandofs_api::{Reply, XattrMode};
use pandofs_types::limits::{
    MAX_XATTR_BYTES_PER_INODE, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS_PER_INODE,
};
use pandofs_types::{Credentials, FileKind, FsError, Ino};
use std::ops::ControlFlow;

const PREFIX: &[u8] = b"user.";

fn check_name(name: &[u8]) -> Result<(), FsError> {
    if !name.starts_with(PREFIX) {
        return Err(FsError::NotSupported);
    }
    if name.len() == PREFIX.len() || name.contains(&0) {
        return Err(FsError::Invalid);
    }
    if name.len() > MAX_XATTR_NAME_BYTES {
        return Err(FsError::Invalid);
    }
    Ok(())
}

pub fn get(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
) -> Result<Reply, Stop> {
    check_name(name)?;
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if inode.xattrs == 0 {
        return Err(FsError::NoAttribute.into());
    }
    check_inode(caller, READ, &inode)?;
    let value = view.raw(&keys::xattr(view.shard, ino, name))?;
    Ok(Reply::Value(value.ok_or(FsError::NoAttribute)?))
}

pub fn list(view: &View<'_>, locks: &Locks, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    let mut names = Vec::new();
    if inode.xattrs > 0 {
        for_each(view, ino, &mut |name, _| {
            names.push(serde_bytes::ByteBuf::from(name))
        })?;
    }
    Ok(Reply::Names(names))
}

/// Visits names and values of all attributes of an inode.
pub(crate) fn for_each(
    view: &View<'_>,
    ino: Ino,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), Stop> {
    let prefix = keys::xattrs(view.shard, ino);
    view.scan_prefix(&prefix, &mut |key, value| {
        visit(&key[prefix.len()..], value);
        Ok(ControlFlow::Continue(()))
    })
}

/// Files and directories may have such attributes; in a sticky directory's case only its owner gives
/// them (xattr(7)).
fn check_change(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
) -> Result<InodeRecord, Stop> {
    check_name(name)?;
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if !matches!(inode.kind, FileKind::File | FileKind::Dir) {
        return Err(FsError::NotPermitted.into());
    }
    let sticky = inode.kind == FileKind::Dir && inode.mode & STICKY != 0;
    if sticky && !caller.is_superuser() && caller.uid != inode.uid {
        return Err(FsError::NotPermitted.into());
    }
    check_inode(caller, WRITE, &inode)?;
    Ok(inode)
}

pub fn check_set(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
) -> Result<InodeRecord, Stop> {
    if value.len() > MAX_XATTR_VALUE_BYTES {
        return Err(FsError::TooBig.into());
    }
    let inode = check_change(view, locks, caller, ino, name)?;
    let old = view.raw(&keys::xattr(view.shard, ino, name))?;
    match mode {
        XattrMode::Create if old.is_some() => return Err(FsError::Exists.into()),
        XattrMode::Replace if old.is_none() => return Err(FsError::NoAttribute.into()),
        _ => {}
    }
    if old.is_none() && usize::from(inode.xattrs) >= MAX_XATTRS_PER_INODE {
        return Err(FsError::NoSpace.into());
    }
    let freed = old.map_or(0, |old| bytes(name, &old));
    if inode.xattr_bytes - freed + bytes(name, value) > MAX_XATTR_BYTES_PER_INODE {
        return Err(FsError::NoSpace.into());
    }
    Ok(inode)
}

pub fn apply_set(
    txn: &mut Txn<'_, '_>,
    ino: Ino,
    mut inode: InodeRecord,
    name: &[u8],
    value: &[u8],
    choices: &Choices,
) -> Result<Reply, Stop> {
    let view = txn.view();
    match view.raw(&keys::xattr(view.shard, ino, name))? {
        Some(old) => inode.xattr_bytes -= bytes(name, &old),
        None => inode.xattrs += 1,
    }
    inode.xattr_bytes += bytes(name, value);
    inode.ctime = choices.time;
    txn.put_xattr(ino, name, value.to_vec());
    txn.put_inode(ino, &inode);
    Ok(Reply::Done)
}

pub fn check_remove(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
) -> Result<InodeRecord, Stop> {
    let inode = check_change(view, locks, caller, ino, name)?;
    if view.raw(&keys::xattr(view.shard, ino, name))?.is_none() {
        return Err(FsError::NoAttribute.into());
    }
    Ok(inode)
}

pub fn apply_remove(
    txn: &mut Txn<'_, '_>,
    ino: Ino,
    mut inode: InodeRecord,
    name: &[u8],
    choices: &Choices,
) -> Result<Reply, Stop> {
    let view = txn.view();
    let old = view
        .raw(&keys::xattr(view.shard, ino, name))?
        .ok_or(FsError::NoAttribute)?;
    assert!(
        inode.xattrs > 0,
        "inode {ino} has an attribute and counts none"
    );
    inode.xattrs -= 1;
    inode.xattr_bytes -= bytes(name, &old);
    inode.ctime = choices.time;
    txn.delete_xattr(ino, name);
    txn.put_inode(ino, &inode);
    Ok(Reply::Done)
}

/// What an attribute counts against the limit.
fn bytes(name: &[u8], value: &[u8]) -> u32 {
    u32::try_from(name.len() + value.len()).expect("an attribute is bounded")
}
