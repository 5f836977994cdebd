//! Mkdir: the policy of the parent says on which shard the new directory's home is; on another one than
//! the entry's it is a branch point, and making it a distributed operation (Xiong et al., table 1).

use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, inherit};
use crate::records::PartsRecord;
use crate::{Locks, Stop, View};
use pandofs_api::{NewDir, Refusal, Step};
use pandofs_placement::{DirPolicy, place_new_directory};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name};

/// Where subdirectories of the directory with these partitions go.
pub fn policy(view: &View<'_>, parts: &PartsRecord) -> DirPolicy {
    parts.settings.policy.unwrap_or(view.map.policy)
}

/// Also gives the parent's partitions with the placement state that follows the choice. It is stored when
/// the operation begins, whatever becomes of it: of many that are under way at once each must see the
/// choices of those before, or all of them would take the same shard.
#[allow(clippy::too_many_arguments)]
pub fn plan(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    mode: u16,
    umask: u16,
    choices: &Choices,
) -> Result<(Plan, PartsRecord), Stop> {
    if mode > 0o7777 {
        return Err(Refusal::Malformed(format!("mode {mode:#o}")).into());
    }
    let owned = view.owned(dir, name)?;
    locks.check(
        &Lock::Entry {
            dir,
            position: owned.position,
            name: name.clone(),
        },
        None,
    )?;
    check_dir(caller, SEARCH, &owned.parts)?;
    if view.entry(dir, owned.position, name)?.is_some() {
        return Err(FsError::Exists.into());
    }
    check_dir(caller, CHANGE, &owned.parts)?;
    let mut parts = owned.parts;
    let policy = policy(view, &parts);
    let drawn = choices.drawn(view);
    let home = parts.map.home();
    let placed = place_new_directory(policy, &parts.grain, dir == Ino::ROOT, home, &drawn);
    let (gid, mode, acls) = inherit(caller, &parts, FileKind::Dir, mode, umask);
    let new = NewDir {
        parent: dir,
        mode,
        uid: caller.uid,
        gid,
        grain: placed.child,
        settings: parts.settings.clone(),
        time: choices.time,
        acls,
    };
    parts.grain = placed.parent_after;
    let insert = Step::Insert {
        dir,
        name: name.clone(),
        ino: None,
        kind: FileKind::Dir,
        shard: placed.shard,
        replace: false,
        caller: caller.clone(),
        time: choices.time,
    };
    let plan = Plan {
        steps: vec![
            (view.shard, insert),
            (placed.shard, Step::NewDir { new: Box::new(new) }),
        ],
        answer: PlanAnswer::Made {
            shard: placed.shard,
        },
    };
    Ok((plan, parts))
}
