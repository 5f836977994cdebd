//! Setattr, and the settings of directories. For a directory with partitions on other shards it is a
//! distributed operation: rights are in force at every partition before the change is answered.

use super::create::servers;
use super::xattr::drop_capability;
use super::{Choices, Plan, PlanAnswer, inode_reply};
use crate::locks::Lock;
use crate::permission::{check_set, mode_after, mode_after_write};
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{DirSettings, LayoutChoice, Refusal, Reply, Step};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FileKind, FsError, Ino, SetAttr, SetTime, Time};

pub enum Checked {
    Here(Box<InodeRecord>),
    Plan(Plan),
}

pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    set: &SetAttr,
    choices: &Choices,
) -> Result<Checked, Stop> {
    if set.mode.is_some_and(|mode| mode > 0o7777) {
        return Err(Refusal::Malformed("mode".to_string()).into());
    }
    if set.size.is_some_and(|size| size > MAX_FILE_BYTES) {
        return Err(FsError::FileTooBig.into());
    }
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    check_set(caller, &inode, set)?;
    if inode.kind != FileKind::Dir {
        return Ok(Checked::Here(Box::new(inode)));
    }
    Ok(Checked::Plan(plan(
        view,
        ino,
        caller,
        set.clone(),
        DirSettings::default(),
        choices,
    )))
}

/// Settings are the owner's to change.
pub fn plan_settings(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    settings: &DirSettings,
    choices: &Choices,
) -> Result<Plan, Stop> {
    let fits = |layout: LayoutChoice| layout.fits(servers(view));
    if !settings.is_valid() || !settings.layout.is_none_or(fits) {
        return Err(FsError::Invalid.into());
    }
    locks.check(&Lock::Inode(dir), None)?;
    let inode = view.inode(dir)?;
    if inode.kind != FileKind::Dir {
        return Err(FsError::NotDir.into());
    }
    if !caller.owns(inode.uid) {
        return Err(FsError::NotPermitted.into());
    }
    Ok(plan(
        view,
        dir,
        caller,
        SetAttr::default(),
        settings.clone(),
        choices,
    ))
}

fn plan(
    view: &View<'_>,
    dir: Ino,
    caller: &Credentials,
    set: SetAttr,
    settings: DirSettings,
    choices: &Choices,
) -> Plan {
    let step = Step::SetDir {
        dir,
        set,
        settings,
        caller: caller.clone(),
        time: choices.time,
    };
    Plan {
        steps: vec![(view.shard, step)],
        answer: PlanAnswer::Inode { ino: dir },
    }
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    set: &SetAttr,
    choices: &Choices,
) -> Result<Reply, Stop> {
    set_common(caller, &mut inode, set, choices.time);
    if set.uid.is_some() || set.gid.is_some() {
        drop_capability(txn, ino, &mut inode)?;
    }
    if let Some(size) = set.size {
        cut(txn, caller, ino, &mut inode, size, choices)?;
        // An explicit time in the same call is the one that stays.
        set_times(&mut inode, set, choices.time);
    }
    txn.put_inode(ino, &inode);
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}

/// All but the size.
pub(crate) fn set_common(caller: &Credentials, inode: &mut InodeRecord, set: &SetAttr, now: Time) {
    inode.mode = mode_after(caller, inode, set);
    if set.mode.is_some() {
        inode.acls.chmod(inode.mode);
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    set_times(inode, set, now);
    inode.ctime = now;
}

fn set_times(inode: &mut InodeRecord, set: &SetAttr, now: Time) {
    let time = |set| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    inode.atime = set.atime.map_or(inode.atime, time);
    inode.mtime = set.mtime.map_or(inode.mtime, time);
}

/// `TryAgain` while the file's data objects are still to be cut.
pub(crate) fn check_followed(view: &View<'_>, ino: Ino) -> Result<(), Stop> {
    match view.reclaim(ino)? {
        Some(ReclaimRecord::Cut { .. }) => Err(Refusal::TryAgain.into()),
        _ => Ok(()),
    }
}

/// Gives the file this size. What lies beyond in data objects is cut by the driver before the request
/// is answered; the reclaim record makes sure of it in a crash, since otherwise bytes that were cut off
/// would come back when the file grows again.
pub(crate) fn cut(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    inode: &mut InodeRecord,
    size: u64,
    choices: &Choices,
) -> Result<(), Stop> {
    match &mut inode.body {
        Body::Inline { data, .. } => {
            data.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        Body::Striped(layout) | Body::Sparse(layout) => {
            let layout = *layout;
            let was_sparse = matches!(inode.body, Body::Sparse(_));
            // To the size that it has: what was reserved beyond goes. To a larger one: what somebody has written beyond
            // that and not reported.
            let is_cut = size < inode.size || size == 0 || (was_sparse && size == inode.size);
            if is_cut || !choices.alone {
                inode.cuts = inode.cuts.saturating_add(1);
                let cuts = inode.cuts;
                let size = match txn.view().reclaim(ino)? {
                    Some(ReclaimRecord::Cut { size: pending, .. }) => pending.min(size),
                    _ => size,
                };
                txn.put_reclaim(ino, &ReclaimRecord::Cut { layout, size, cuts });
            }
            inode.body = if size > inode.size || (was_sparse && size > 0) {
                Body::Sparse(layout)
            } else {
                Body::Striped(layout)
            };
        }
        _ => {}
    }
    inode.size = size;
    inode.mtime = choices.time;
    inode.ctime = choices.time;
    inode.mode = mode_after_write(caller, inode);
    drop_capability(txn, ino, inode)
}
