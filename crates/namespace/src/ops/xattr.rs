//! Extended attributes in the name spaces `user.`, `trusted.` and `security.`; the lists in `system.` are
//! [`super::acl`]'s.

use super::{Choices, acl};
use crate::permission::{READ, STICKY, WRITE, check_inode};
use crate::records::InodeRecord;
use crate::{Locks, Stop, Txn, View, keys, locks::Lock};
use pandofs_api::{Reply, XattrMode};
use pandofs_types::acl::{ACCESS_ACL, DEFAULT_ACL};
use pandofs_types::limits::{
    MAX_XATTR_BYTES_PER_INODE, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS_PER_INODE,
};
use pandofs_types::{AclKind, Capabilities, Credentials, FileKind, FsError, Ino};
use std::ops::ControlFlow;

/// File capabilities: they go when the file is written to, cut or given away.
const CAPABILITY: &[u8] = b"security.capability";

/// Whose attributes they are, and by that who may read and change them (xattr(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    /// Of files and directories: who may read and write these.
    User,
    /// Of who may administer the system; nobody else sees them.
    Trusted,
    /// Of who may administer the system; everybody reads them.
    Security,
}

const NAMESPACES: [(&[u8], Namespace); 3] = [
    (b"user.", Namespace::User),
    (b"trusted.", Namespace::Trusted),
    (b"security.", Namespace::Security),
];

fn namespace(name: &[u8]) -> Result<Namespace, FsError> {
    let (prefix, namespace) = NAMESPACES
        .into_iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .ok_or(FsError::NotSupported)?;
    if name.len() == prefix.len() || name.contains(&0) || name.len() > MAX_XATTR_NAME_BYTES {
        return Err(FsError::Invalid);
    }
    Ok(namespace)
}

pub fn get(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
) -> Result<Reply, Stop> {
    let acl = AclKind::of_name(name);
    let namespace = match acl {
        Some(_) => None,
        None => Some(namespace(name)?),
    };
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if let Some(kind) = acl {
        return acl::get(&inode, kind);
    }
    if inode.xattrs == 0 {
        return Err(FsError::NoAttribute.into());
    }
    match namespace {
        Some(Namespace::User) if has_users(&inode) => check_inode(caller, READ, &inode)?,
        Some(Namespace::Trusted) if caller.has(Capabilities::SYS_ADMIN) => {}
        Some(Namespace::Security) => {}
        _ => return Err(FsError::NoAttribute.into()),
    }
    let value = view.raw(&keys::xattr(view.shard, ino, name))?;
    Ok(Reply::Value(value.ok_or(FsError::NoAttribute)?))
}

/// Whether users' attributes can be given to it.
fn has_users(inode: &InodeRecord) -> bool {
    matches!(inode.kind, FileKind::File | FileKind::Dir)
}

pub fn list(view: &View<'_>, locks: &Locks, caller: &Credentials, ino: Ino) -> Result<Reply, Stop> {
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    let mut names = Vec::new();
    if inode.acls.access.is_some() {
        names.push(serde_bytes::ByteBuf::from(ACCESS_ACL));
    }
    if inode.acls.default.is_some() {
        names.push(serde_bytes::ByteBuf::from(DEFAULT_ACL));
    }
    let sees_trusted = caller.has(Capabilities::SYS_ADMIN);
    if inode.xattrs > 0 {
        for_each(view, ino, &mut |name, _| {
            if sees_trusted || namespace(name) != Ok(Namespace::Trusted) {
                names.push(serde_bytes::ByteBuf::from(name));
            }
        })?;
    }
    Ok(Reply::Names(names))
}

/// Takes file capabilities off, which are for what the file was when they were given.
pub(crate) fn drop_capability(
    txn: &mut Txn<'_, '_>,
    ino: Ino,
    inode: &mut InodeRecord,
) -> Result<(), Stop> {
    if inode.xattrs == 0 {
        return Ok(());
    }
    let view = txn.view();
    if let Some(value) = view.raw(&keys::xattr(view.shard, ino, CAPABILITY))? {
        inode.xattrs -= 1;
        inode.xattr_bytes -= bytes(CAPABILITY, &value);
        txn.delete_xattr(ino, CAPABILITY);
    }
    Ok(())
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

/// Files and directories may have users' attributes; in a sticky directory's case only its owner gives
/// them (xattr(7)).
fn check_change(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    name: &[u8],
) -> Result<InodeRecord, Stop> {
    let namespace = namespace(name)?;
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    if namespace != Namespace::User {
        let needed = match name {
            CAPABILITY => Capabilities::SETFCAP,
            _ => Capabilities::SYS_ADMIN,
        };
        if !caller.has(needed) {
            return Err(FsError::NotPermitted.into());
        }
        return Ok(inode);
    }
    if !has_users(&inode) {
        return Err(FsError::NotPermitted.into());
    }
    let sticky = inode.kind == FileKind::Dir && inode.mode & STICKY != 0;
    if sticky && !caller.owns(inode.uid) {
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
