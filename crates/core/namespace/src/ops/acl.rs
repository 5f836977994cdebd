//! Access control lists, which programs read and set as extended attributes. They are kept with the
//! permission bits and not with the attributes: in the inode, and for a directory wherever its names are,
//! since every request for a name looks at them.

use super::{Checked, Mutation, Plan, PlanAnswer, pass};
use crate::permission::SET_GID;
use crate::records::InodeRecord;
use crate::{Context, Stop, Txn, View, paths};
use pandofs_api::{Reply, SetAcl, Step};
use pandofs_types::{Acl, AclKind, Acls, Credentials, FileKind, FsError, Ino};

/// A list that is to be set or taken away. Whether it is to be there or not (`XATTR_CREATE`, `XATTR_REPLACE`) does not
/// matter, as on other file systems of Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    ino: Ino,
    kind: AclKind,
    /// `None` takes it away.
    acl: Option<Acl>,
}

impl Change {
    /// The change that setting an attribute is, if it is one of a list; without a value the list is taken away.
    pub fn of(ino: Ino, name: &[u8], value: &[u8]) -> Result<Option<Change>, Stop> {
        let Some(kind) = AclKind::of_name(name) else {
            return Ok(None);
        };
        let acl = Acl::from_xattr(value)?;
        Ok(Some(Change { ino, kind, acl }))
    }

    /// The plan that the change needs where the directory has partitions elsewhere, or none.
    /// Stops with the reasons for which it is refused.
    pub fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        Ok(match self.checked(view, cx)? {
            (_, Some(plan)) => plan.into(),
            (_, None) => Checked::HERE,
        })
    }

    /// The inode, and a plan if it is a directory, which may have partitions on other shards.
    fn checked(
        &self,
        view: &View<'_>,
        cx: &Context<'_>,
    ) -> Result<(InodeRecord, Option<Plan>), Stop> {
        let inode = cx.inode(view, self.ino)?;
        check_owner(cx.caller, &inode, self.kind, self.acl.as_ref())?;
        if inode.kind != FileKind::Dir {
            return Ok((inode, None));
        }
        let set = SetAcl {
            dir: self.ino,
            kind: self.kind,
            acl: self.acl.clone(),
            caller: cx.caller.clone(),
            time: cx.choices.time,
        };
        let step = Step::SetAcl(Box::new(set));
        let mut steps = vec![(view.shard, step)];
        if self.kind == AclKind::Access {
            let stamp = cx.choices.random;
            steps.extend(paths::lines(view.map, self.ino, false, stamp));
        }
        let plan = Plan {
            steps,
            answer: PlanAnswer::Done,
        };
        Ok((inode, Some(plan)))
    }

    /// Makes the change, or gives the plan that does.
    pub fn apply(self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (mut inode, plan) = self.checked(&txn.view(), cx)?;
        if let Some(plan) = plan {
            return Ok(Mutation::Plan(plan));
        }
        let gid = inode.gid;
        let (mode, acls) = (&mut inode.mode, &mut inode.acls);
        if set(cx.caller, self.kind, self.acl, mode, gid, acls) {
            pass(&mut inode.ctime, cx.choices.time);
            txn.put_inode(self.ino, &inode);
        }
        Ok(Mutation::Done(Reply::Done))
    }
}

/// The list in the form of the extended attribute; `NoAttribute` without one, `NotSupported` of a
/// symbolic link.
pub fn get(inode: &InodeRecord, kind: AclKind) -> Result<Reply, Stop> {
    if inode.kind == FileKind::Symlink {
        return Err(FsError::NotSupported.into());
    }
    let acl = inode.acls.get(kind).ok_or(FsError::NoAttribute)?;
    Ok(Reply::Value(acl.to_xattr()))
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

/// Sets a list, and with an access list the permission bits that go with it; whether there was anything to
/// change. A list that says no more than permission bits do is kept as these alone. A set-group-id bit
/// goes when somebody sets the list who is not in the group. A list that is taken away leaves the
/// permission bits as they are.
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
