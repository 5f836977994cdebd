//! Access control lists, which programs read and set as extended attributes. They are kept with the
//! permission bits and not with the attributes: in the inode, and for a directory wherever its names are,
//! since every request for a name looks at them.

use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::SET_GID;
use crate::records::InodeRecord;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{Reply, Request, SetAcl, Step, op};
use pandofs_types::{Acl, AclKind, Acls, Credentials, FileKind, FsError, Ino};

/// What a list is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    ino: Ino,
    kind: AclKind,
    /// `None` takes it away.
    acl: Option<Acl>,
}

impl Change {
    /// The change that a request makes, if it is one of a list. Whether the list is to be there or not
    /// (`XATTR_CREATE`, `XATTR_REPLACE`) does not matter, as on other file systems of Linux.
    pub fn of(request: &Request) -> Result<Option<Change>, Stop> {
        let (ino, name, value): (_, _, &[u8]) = match request {
            Request::SetXattr(op::SetXattr {
                ino, name, value, ..
            }) => (ino, name, value),
            Request::RemoveXattr(op::RemoveXattr { ino, name }) => (ino, name, &[]),
            _ => return Ok(None),
        };
        let Some(kind) = AclKind::of_name(name) else {
            return Ok(None);
        };
        Ok(Some(Change {
            ino: *ino,
            kind,
            acl: Acl::from_xattr(value)?,
        }))
    }
}

pub enum Checked {
    Here(Box<InodeRecord>),
    Plan(Plan),
}

pub fn get(inode: &InodeRecord, kind: AclKind) -> Result<Reply, Stop> {
    if inode.kind == FileKind::Symlink {
        return Err(FsError::NotSupported.into());
    }
    let acl = inode.acls.get(kind).ok_or(FsError::NoAttribute)?;
    Ok(Reply::Value(acl.to_xattr()))
}

pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    change: Change,
    choices: &Choices,
) -> Result<Checked, Stop> {
    let Change { ino, kind, acl } = change;
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    check_owner(caller, &inode, kind, acl.as_ref())?;
    if inode.kind != FileKind::Dir {
        return Ok(Checked::Here(Box::new(inode)));
    }
    let set = SetAcl {
        dir: ino,
        kind,
        acl,
        caller: caller.clone(),
        time: choices.time,
    };
    let step = Step::SetAcl { set: Box::new(set) };
    Ok(Checked::Plan(Plan {
        steps: vec![(view.shard, step)],
        answer: PlanAnswer::Done,
    }))
}

/// Whether the caller may set this list, and the inode have it.
pub(crate) fn check_owner(
    caller: &Credentials,
    inode: &InodeRecord,
    kind: AclKind,
    acl: Option<&Acl>,
) -> Result<(), Stop> {
    if inode.kind == FileKind::Symlink {
        return Err(FsError::NotSupported.into());
    }
    if kind == AclKind::Default && inode.kind != FileKind::Dir && acl.is_some() {
        return Err(FsError::Access.into());
    }
    if !caller.owns(inode.uid) {
        return Err(FsError::NotPermitted.into());
    }
    Ok(())
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    mut inode: InodeRecord,
    change: Change,
    choices: &Choices,
) -> Reply {
    let Change { ino, kind, acl } = change;
    let changed = set(
        caller,
        kind,
        acl,
        &mut inode.mode,
        inode.gid,
        &mut inode.acls,
    );
    if changed {
        inode.ctime = choices.time;
        txn.put_inode(ino, &inode);
    }
    Reply::Done
}

/// Sets a list, and with an access list the permission bits that go with it; whether there was anything to
/// change. What says no more than permission bits do is kept as these alone. A set-group-id bit goes when
/// somebody sets the list who is not in the group. A list that is taken away leaves the permission bits as
/// they are.
pub(crate) fn set(
    caller: &Credentials,
    kind: AclKind,
    acl: Option<Acl>,
    mode: &mut u16,
    gid: u32,
    acls: &mut Acls,
) -> bool {
    if acl.is_none() && acls.get(kind).is_none() {
        return false;
    }
    match kind {
        AclKind::Default => acls.default = acl.map(Box::new),
        AclKind::Access => {
            if let Some(acl) = &acl {
                *mode = *mode & !0o777 | acl.permissions();
                if !caller.in_group_or_capable(gid) {
                    *mode &= !SET_GID;
                }
            }
            acls.access = acl.filter(|acl| !acl.is_mode()).map(Box::new);
        }
    }
    true
}
