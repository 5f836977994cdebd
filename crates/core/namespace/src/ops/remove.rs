//! Unlink and rmdir: the entry goes here, the inode loses a name where it is.

use super::{Checked, Execute, Plan, PlanAnswer};
use crate::permission::must_own;
use crate::touches::entry_key;
use crate::{Context, Stop, View};
use pandofs_api::{Step, op, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, Name};

impl Execute for op::Unlink {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        plan(view, cx, self.dir, &self.name, Kind::Other)
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.dir, &self.name)]
    }
}

impl Execute for op::Rmdir {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        plan(view, cx, self.dir, &self.name, Kind::Dir)
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.dir, &self.name)]
    }
}

/// Kind of inode to be removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dir,
    Other,
}

fn plan(
    view: &View<'_>,
    cx: &Context<'_>,
    dir: Ino,
    name: &Name,
    kind: Kind,
) -> Result<Checked, Stop> {
    let (owned, entry) = cx.taken_name(view, dir, name)?;
    match (kind, entry.kind == FileKind::Dir) {
        (Kind::Dir, false) => return Err(FsError::NotDir.into()),
        (Kind::Other, true) => return Err(FsError::IsDir.into()),
        _ => {}
    }
    let must_own = must_own(cx.caller, &owned.parts);
    let time = cx.choices.time;
    let remove = Step::Remove(step::Remove {
        dir,
        name: name.clone(),
        ino: entry.ino,
        caller: cx.caller.clone(),
        time,
    });
    let free = match kind {
        Kind::Dir => Step::DropDir(step::DropDir {
            dir: entry.ino,
            must_own,
        }),
        Kind::Other => Step::Unlink(step::Unlink {
            ino: entry.ino,
            must_own,
            time,
        }),
    };
    let plan = Plan {
        steps: vec![(view.shard, remove), (entry.shard, free)],
        answer: PlanAnswer::Removed { ino: entry.ino },
    };
    Ok(plan.into())
}
