//! Setattr, and the settings of directories. For a directory with partitions on other shards it is a
//! distributed operation: rights are in force at every partition before the change is answered.

use super::create::servers;
use super::xattr::drop_capability;
use super::{Checked, Choices, Execute, Mutation, Plan, PlanAnswer, inode_reply, pass};
use crate::permission::{check_set, mode_after, mode_after_write};
use crate::records::{Body, InodeRecord, ReclaimRecord};
use crate::{Context, Stop, Txn, View, paths};
use pandofs_api::{DirSettings, LayoutChoice, Refusal, Reply, SearchCondition, Step, op, step};
use pandofs_placement::DirPolicy;
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{Credentials, FileKind, FsError, Ino, LeaseKey, SetAttr, SetTime, Time};

impl Execute for op::SetAttr {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let (inode, plan) = checked(self, view, cx)?;
        if let Some(size) = self.set.size {
            // To be in memory when the record is applied.
            cut(view, self.ino, inode.held(), size)?;
        }
        Ok(plan.map_or(Checked::HERE, Checked::from))
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (mut inode, plan) = checked(self, &txn.view(), cx)?;
        if let Some(plan) = plan {
            return Ok(Mutation::Plan(plan));
        }
        let (ino, set, now) = (self.ino, &self.set, cx.choices.time);
        set_common(cx.caller, &mut inode, set, now);
        if set.uid.is_some() || set.gid.is_some() {
            drop_capability(txn, ino, &mut inode)?;
        }
        if let Some(size) = set.size {
            truncate(txn, cx, ino, &mut inode, size)?;
            // An explicit time in the same call is the one that stays.
            set_times(&mut inode, set, now);
        }
        txn.put_inode(ino, &inode);
        Ok(Mutation::Done(Reply::Inode(inode_reply(
            &txn.view(),
            ino,
            &inode,
        )?)))
    }

    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Inode(self.ino)])
    }
}

/// The inode, and a plan if it is a directory.
fn checked(
    request: &op::SetAttr,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<(InodeRecord, Option<Plan>), Stop> {
    let set = &request.set;
    if set.mode.is_some_and(|mode| mode > 0o7777) {
        return Err(Refusal::Malformed("mode".to_string()).into());
    }
    if set.size.is_some_and(|size| size > MAX_FILE_BYTES) {
        return Err(FsError::FileTooBig.into());
    }
    let inode = cx.inode(view, request.ino)?;
    check_set(cx.caller, &inode, set)?;
    if set.size.is_some_and(|size| size > inode.size) {
        // Bytes still to be cut off would lie before the new end for a while.
        check_followed(view, request.ino)?;
    }
    let is_dir = inode.kind == FileKind::Dir;
    let plan = is_dir.then(|| {
        let mut plan = plan(view, cx, request.ino, set.clone(), DirSettings::default());
        if changes_search(cx, &inode, set) {
            let stamp = cx.choices.random;
            plan.steps
                .extend(paths::lines(view.map, request.ino, false, stamp));
        }
        plan
    });
    Ok((inode, plan))
}

/// Test that somebody may search the directory afterwards who may not now, or the reverse.
fn changes_search(cx: &Context<'_>, inode: &InodeRecord, set: &SetAttr) -> bool {
    let condition =
        |inode: &InodeRecord| SearchCondition::of(inode.mode, inode.uid, inode.gid, &inode.acls);
    let mut after = inode.clone();
    set_common(cx.caller, &mut after, set, cx.choices.time);
    condition(&after) != condition(inode)
}

/// Settings are the owner's to change.
impl Execute for op::SetDirSettings {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let fits = |layout: LayoutChoice| layout.fits(servers(view));
        let leads = self.settings.policy != Some(DirPolicy::CrushPath)
            || view.map.settings.path_shards.is_some();
        if !self.settings.is_valid() || !self.settings.layout.is_none_or(fits) || !leads {
            return Err(FsError::Invalid.into());
        }
        let inode = cx.inode(view, self.dir)?;
        if inode.kind != FileKind::Dir {
            return Err(FsError::NotDir.into());
        }
        if !cx.caller.owns(inode.uid) {
            return Err(FsError::NotPermitted.into());
        }
        let settings = self.settings.clone();
        Ok(plan(view, cx, self.dir, SetAttr::default(), settings).into())
    }
}

fn plan(view: &View<'_>, cx: &Context<'_>, dir: Ino, set: SetAttr, settings: DirSettings) -> Plan {
    let step = Step::SetDir(step::SetDir {
        dir,
        set,
        settings,
        caller: cx.caller.clone(),
        time: cx.choices.time,
    });
    Plan {
        steps: vec![(view.shard, step)],
        answer: PlanAnswer::Inode { ino: dir },
    }
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
    pass(&mut inode.ctime, now);
}

fn set_times(inode: &mut InodeRecord, set: &SetAttr, now: Time) {
    let time = |set| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    inode.atime = set.atime.map_or(inode.atime, time);
    inode.mtime = set.mtime.map_or(inode.mtime, time);
}

/// Rest of the `held` bytes beside the inode of a file that is given this size; `None` if that is all of them.
fn cut(view: &View<'_>, ino: Ino, held: u32, size: u64) -> Result<Option<Vec<u8>>, Stop> {
    if size >= u64::from(held) {
        return Ok(None);
    }
    if size == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut data = view.inline_data(ino, held)?;
    data.truncate(size as usize);
    Ok(Some(data))
}

/// `TryAgain` while the file's data objects are still to be truncated.
pub(crate) fn check_followed(view: &View<'_>, ino: Ino) -> Result<(), Stop> {
    match view.reclaim(ino)? {
        Some(ReclaimRecord::Truncate { .. }) => Err(Refusal::TryAgain.into()),
        _ => Ok(()),
    }
}

/// Gives the file this size. The driver truncates data objects to it before the request is answered; the
/// reclaim record makes sure of it in a crash, since otherwise bytes that were cut off would come back when
/// the file grows again.
pub(crate) fn truncate(
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    ino: Ino,
    inode: &mut InodeRecord,
    size: u64,
) -> Result<(), Stop> {
    match &mut inode.body {
        Body::Inline { held, .. } => {
            if let Some(data) = cut(&txn.view(), ino, *held, size)? {
                *held = txn.keep_inline(ino, *held, data);
            }
        }
        Body::Striped(layout) | Body::Sparse(layout) => {
            let layout = *layout;
            let was_sparse = matches!(inode.body, Body::Sparse(_));
            // To the size that it has: what was reserved beyond goes. To a larger one: what somebody has written beyond
            // that and not reported.
            let is_truncated = size < inode.size || size == 0 || (was_sparse && size == inode.size);
            if is_truncated || !cx.choices.alone {
                inode.truncations = inode.truncations.saturating_add(1);
                let truncations = inode.truncations;
                if let Some(ReclaimRecord::Truncate { size: pending, .. }) =
                    txn.view().reclaim(ino)?
                {
                    assert!(size <= pending, "{ino} got longer while it was cut");
                }
                txn.put_reclaim(
                    ino,
                    &ReclaimRecord::Truncate {
                        layout,
                        size,
                        truncations,
                    },
                );
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
    inode.mtime = cx.choices.time;
    pass(&mut inode.ctime, cx.choices.time);
    inode.mode = mode_after_write(cx.caller, inode);
    drop_capability(txn, ino, inode)
}
