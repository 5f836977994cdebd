//! Extended attributes in the name spaces `user.`, `trusted.` and `security.`; the lists in `system.` are
//! [`super::acl`]'s.

use super::{Checked, Choices, Execute, Mutation, acl, pass};
use crate::permission::{READ, STICKY, WRITE, check_inode};
use crate::records::InodeRecord;
use crate::{Context, Stop, Txn, View, keys};
use pandofs_api::{Reply, XattrMode, op};
use pandofs_types::acl::{ACCESS_ACL, DEFAULT_ACL};
use pandofs_types::limits::{
    MAX_XATTR_BYTES_PER_INODE, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS_PER_INODE,
};
use pandofs_types::{AclKind, Capabilities, FileKind, FsError, Ino, LeaseKey};
use std::ops::ControlFlow;

/// File capabilities: they go when the file is written to, cut or given away.
const CAPABILITY: &[u8] = b"security.capability";

/// Owner of attributes, which says who may read and change them (xattr(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    /// Of files and directories: for callers that may read and write these.
    User,
    /// Of administrators of the system; nobody else sees them.
    Trusted,
    /// Of administrators of the system; everybody reads them.
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

impl Execute for op::GetXattr {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let acl = AclKind::of_name(&self.name);
        let namespace = match acl {
            Some(_) => None,
            None => Some(namespace(&self.name)?),
        };
        let inode = cx.inode(view, self.ino)?;
        if let Some(kind) = acl {
            return acl::get(&inode, kind);
        }
        if inode.xattrs == 0 {
            return Err(FsError::NoAttribute.into());
        }
        match namespace {
            Some(Namespace::User) if has_users(&inode) => check_inode(cx.caller, READ, &inode)?,
            Some(Namespace::Trusted) if cx.caller.has(Capabilities::SYS_ADMIN) => {}
            Some(Namespace::Security) => {}
            _ => return Err(FsError::NoAttribute.into()),
        }
        let value = view.raw(&keys::xattr(view.shard, self.ino, &self.name))?;
        Ok(Reply::Value(value.ok_or(FsError::NoAttribute)?))
    }
}

impl Execute for op::ListXattr {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        let inode = cx.inode(view, self.ino)?;
        let mut names = Vec::new();
        if inode.acls.access.is_some() {
            names.push(serde_bytes::ByteBuf::from(ACCESS_ACL));
        }
        if inode.acls.default.is_some() {
            names.push(serde_bytes::ByteBuf::from(DEFAULT_ACL));
        }
        let sees_trusted = cx.caller.has(Capabilities::SYS_ADMIN);
        if inode.xattrs > 0 {
            for_each(view, self.ino, &mut |name, _| {
                if sees_trusted || namespace(name) != Ok(Namespace::Trusted) {
                    names.push(serde_bytes::ByteBuf::from(name));
                }
            })?;
        }
        Ok(Reply::Names(names))
    }
}

impl Execute for op::SetXattr {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        if let Some(change) = acl::Change::of(self.ino, &self.name, &self.value)? {
            return change.check(view, cx);
        }
        settable(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        if let Some(change) = acl::Change::of(self.ino, &self.name, &self.value)? {
            return change.apply(txn, cx);
        }
        let mut inode = settable(self, &txn.view(), cx)?;
        let view = txn.view();
        match view.raw(&keys::xattr(view.shard, self.ino, &self.name))? {
            Some(old) => inode.xattr_bytes -= bytes(&self.name, &old),
            None => inode.xattrs += 1,
        }
        inode.xattr_bytes += bytes(&self.name, &self.value);
        pass(&mut inode.ctime, cx.choices.time);
        txn.put_xattr(self.ino, &self.name, self.value.clone());
        txn.put_inode(self.ino, &inode);
        Ok(Mutation::Done(Reply::Done))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

impl Execute for op::RemoveXattr {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        if let Some(change) = acl::Change::of(self.ino, &self.name, &[])? {
            return change.check(view, cx);
        }
        removable(self, view, cx)?;
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        if let Some(change) = acl::Change::of(self.ino, &self.name, &[])? {
            return change.apply(txn, cx);
        }
        let (mut inode, old) = removable(self, &txn.view(), cx)?;
        assert!(
            inode.xattrs > 0,
            "inode {} has an attribute and counts none",
            self.ino
        );
        inode.xattrs -= 1;
        inode.xattr_bytes -= bytes(&self.name, &old);
        pass(&mut inode.ctime, cx.choices.time);
        txn.delete_xattr(self.ino, &self.name);
        txn.put_inode(self.ino, &inode);
        Ok(Mutation::Done(Reply::Done))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// Returns whether it can have users' attributes.
fn has_users(inode: &InodeRecord) -> bool {
    matches!(inode.kind, FileKind::File | FileKind::Dir)
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
fn changeable(
    view: &View<'_>,
    cx: &Context<'_>,
    ino: Ino,
    name: &[u8],
) -> Result<InodeRecord, Stop> {
    let namespace = namespace(name)?;
    let inode = cx.inode(view, ino)?;
    if namespace != Namespace::User {
        let needed = match name {
            CAPABILITY => Capabilities::SETFCAP,
            _ => Capabilities::SYS_ADMIN,
        };
        if !cx.caller.has(needed) {
            return Err(FsError::NotPermitted.into());
        }
        return Ok(inode);
    }
    if !has_users(&inode) {
        return Err(FsError::NotPermitted.into());
    }
    let sticky = inode.kind == FileKind::Dir && inode.mode & STICKY != 0;
    if sticky && !cx.caller.owns(inode.uid) {
        return Err(FsError::NotPermitted.into());
    }
    check_inode(cx.caller, WRITE, &inode)?;
    Ok(inode)
}

/// The inode, if the attribute may be set and fits.
fn settable(set: &op::SetXattr, view: &View<'_>, cx: &Context<'_>) -> Result<InodeRecord, Stop> {
    if set.value.len() > MAX_XATTR_VALUE_BYTES {
        return Err(FsError::TooBig.into());
    }
    let inode = changeable(view, cx, set.ino, &set.name)?;
    let old = view.raw(&keys::xattr(view.shard, set.ino, &set.name))?;
    match set.mode {
        XattrMode::Create if old.is_some() => return Err(FsError::Exists.into()),
        XattrMode::Replace if old.is_none() => return Err(FsError::NoAttribute.into()),
        _ => {}
    }
    if old.is_none() && usize::from(inode.xattrs) >= MAX_XATTRS_PER_INODE {
        return Err(FsError::NoSpace.into());
    }
    let freed = old.map_or(0, |old| bytes(&set.name, &old));
    if inode.xattr_bytes - freed + bytes(&set.name, &set.value) > MAX_XATTR_BYTES_PER_INODE {
        return Err(FsError::NoSpace.into());
    }
    Ok(inode)
}

/// The inode and the attribute's value, if it may be removed.
fn removable(
    remove: &op::RemoveXattr,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<(InodeRecord, Vec<u8>), Stop> {
    let inode = changeable(view, cx, remove.ino, &remove.name)?;
    let old = view.raw(&keys::xattr(view.shard, remove.ino, &remove.name))?;
    Ok((inode, old.ok_or(FsError::NoAttribute)?))
}

/// Bytes of an attribute that count against the limit.
fn bytes(name: &[u8], value: &[u8]) -> u32 {
    u32::try_from(name.len() + value.len()).expect("an attribute is bounded")
}
