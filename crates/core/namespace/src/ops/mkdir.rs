//! Mkdir: the policy of the parent says on which shard the new directory's home is; on another one than
//! the entry's it is a branch point, and making it a distributed operation (Xiong et al., table 1).

use super::create::too_high;
use super::{ByLoad, Checked, Choices, Execute, Mutation, Plan, PlanAnswer};
use crate::permission::inherit;
use crate::records::PartsRecord;
use crate::{Context, Stop, Txn, View, paths};
use pandofs_api::{NewDir, Step, op, step};
use pandofs_placement::{DirPolicy, place_directory, place_new_directory};
use pandofs_types::{FileKind, Ino, LeaseKey};

impl Execute for op::Mkdir {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let (plan, parts) = plan(self, view, cx, None)?;
        Ok(Checked {
            plan: Some(plan),
            adapts: matches!(policy(view, &parts), DirPolicy::Adaptive(_)),
        })
    }

    /// The parent's placement state that follows the choice is stored when the operation begins, whatever becomes of it:
    /// of many that are under way at once each must see the choices of those before, or all of them would take the same
    /// shard.
    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let (plan, parts) = plan(self, &txn.view(), cx, None)?;
        txn.put_parts(self.dir, &parts);
        Ok(Mutation::Plan(plan))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }

    /// It counts in the directory's grain whatever becomes of the plan.
    fn touches(&self, _view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![LeaseKey::Parts(self.dir)])
    }

    fn by_load(&self, view: &View<'_>) -> Option<ByLoad> {
        let near = match view.parts(self.dir) {
            Ok(Some(parts)) => Some(parts.grain.dir_shard),
            _ => None,
        };
        Some(ByLoad { near })
    }
}

/// Where subdirectories of the directory with these partitions go.
pub(super) fn policy(view: &View<'_>, parts: &PartsRecord) -> DirPolicy {
    parts.settings.policy.unwrap_or(view.map.policy)
}

/// The steps, and the parent's partitions with the placement state that follows the choice; the directory's number, if its
/// session has chosen it and its home is to give it that.
pub(super) fn plan(
    mkdir: &op::Mkdir,
    view: &View<'_>,
    cx: &Context<'_>,
    chosen: Option<Ino>,
) -> Result<(Plan, PartsRecord), Stop> {
    too_high(mkdir.mode)?;
    let Context {
        caller, choices, ..
    } = *cx;
    let dir = mkdir.dir;
    let mut parts = cx.free_name(view, dir, &mkdir.name)?.parts;
    let policy = policy(view, &parts);
    let mut drawn = choices.drawn(view);
    // Its session has answered that it is there, by the cluster map that it had then: a newer one draws of other shards.
    if let Some(ino) = chosen.or(choices.ino) {
        drawn.random = u64::from(ino.birth_shard().0);
    }
    let home = parts.map.home();
    let path = paths::path_of_new(&parts, &mkdir.name);
    let path_shard = path
        .as_ref()
        .and_then(|path| view.map.path_shard(path.as_bytes()));
    let is_root = dir == Ino::ROOT;
    let placed = match path_shard {
        Some(shard) if policy == DirPolicy::CrushPath => {
            place_directory(policy, &parts.grain, is_root, shard)
        }
        _ => place_new_directory(policy, &parts.grain, is_root, home, &drawn),
    };
    let above = match path_shard == Some(placed.shard) {
        true => paths::above_new(view, cx.locks, dir, &parts)?,
        false => None,
    };
    let (gid, mode, acls) = inherit(caller, &parts, FileKind::Dir, mkdir.mode, mkdir.umask);
    let new = NewDir {
        parent: dir,
        mode,
        uid: caller.uid,
        gid,
        grain: placed.child,
        settings: parts.settings.clone(),
        time: choices.time,
        acls,
        chosen: chosen.map(|ino| (cx.session, ino)),
        path,
        above,
    };
    parts.grain = placed.parent_after;
    let insert = Step::Insert(step::Insert {
        dir,
        name: mkdir.name.clone(),
        ino: None,
        kind: FileKind::Dir,
        shard: placed.shard,
        replace: false,
        caller: caller.clone(),
        time: choices.time,
    });
    let plan = Plan {
        steps: vec![
            (view.shard, insert),
            (placed.shard, Step::NewDir(Box::new(new))),
        ],
        answer: PlanAnswer::Made {
            shard: placed.shard,
        },
    };
    Ok((plan, parts))
}
