//! Rename: the old name goes here; the new one, what it led to, and for a directory its parent and its
//! new ancestors are steps wherever they are.

use super::create::whiteout;
use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::{Locks, Stop, View};
use pandofs_api::{Refusal, Step, Whiteout};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, ShardId};

/// The new name, and where the client believes it to belong.
#[derive(Clone, Copy)]
pub struct To<'a> {
    pub dir: Ino,
    pub name: &'a Name,
    pub shard: ShardId,
}

#[derive(Clone, Copy)]
pub struct How {
    /// What has the new name stays, and the rename is refused.
    pub no_replace: bool,
    /// The old name leads to a white-out afterwards.
    pub whiteout: bool,
}

#[allow(clippy::too_many_arguments)]
pub fn plan(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    to: To<'_>,
    how: How,
    choices: &Choices,
) -> Result<Plan, Stop> {
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
    let entry = view
        .entry(dir, owned.position, name)?
        .ok_or(FsError::NotFound)?;
    check_dir(caller, CHANGE, &owned.parts)?;
    if to.shard.0 >= view.map.shard_count() {
        return Err(Refusal::NewNameMisdirected(None).into());
    }
    // A number that no shard gave out names no directory.
    if to.dir.birth_shard().0 >= view.map.shard_count() {
        return Err(FsError::NotFound.into());
    }
    let must_own = must_own(caller, &owned.parts);
    let time = choices.time;
    let moves_dir = entry.kind == FileKind::Dir && dir != to.dir;
    if entry.kind == FileKind::Dir && to.dir == entry.ino {
        return Err(FsError::Invalid.into());
    }
    let takes = if how.whiteout {
        let whiteout = Whiteout {
            dir,
            name: name.clone(),
            ino: entry.ino,
            new: whiteout(caller, &owned.parts, time),
            caller: caller.clone(),
        };
        Step::Whiteout {
            whiteout: Box::new(whiteout),
        }
    } else {
        Step::Remove {
            dir,
            name: name.clone(),
            ino: entry.ino,
            caller: caller.clone(),
            time,
        }
    };
    let mut steps = vec![
        (view.shard, takes),
        (
            to.shard,
            Step::Insert {
                dir: to.dir,
                name: to.name.clone(),
                ino: Some(entry.ino),
                kind: entry.kind,
                shard: entry.shard,
                replace: !how.no_replace,
                caller: caller.clone(),
                time,
            },
        ),
    ];
    if moves_dir {
        // Before `HoldAncestors`: of two moves into each other's subtree each then holds what the other
        // one asks for, so that the younger gives way and sees the new tree when it tries again.
        steps.push((
            entry.shard,
            Step::SetParent {
                dir: entry.ino,
                parent: to.dir,
                must_own,
                caller: caller.clone(),
                time,
            },
        ));
        steps.push((
            to.dir.birth_shard(),
            Step::HoldAncestors {
                from: to.dir,
                moving: entry.ino,
                depth: 0,
            },
        ));
    } else {
        steps.push((
            entry.shard,
            Step::Touch {
                ino: entry.ino,
                must_own,
                time,
            },
        ));
    }
    Ok(Plan {
        steps,
        answer: PlanAnswer::Renamed { ino: entry.ino },
    })
}
