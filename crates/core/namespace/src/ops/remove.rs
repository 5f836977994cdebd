//! Unlink and rmdir: the entry goes here, the inode loses a name where it is.

use super::{Checked, Execute, Plan, PlanAnswer};
use crate::permission::must_own;
use crate::touches::entry_key;
use crate::{Context, Stop, View};
use pandofs_api::{Step, op, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, Name};

impl Execute for op::Unlink {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        plan(view, cx, (self.dir, &self.name), Kind::Other).map(Checked::from)
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.dir, &self.name)]
    }
}

impl Execute for op::Rmdir {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        plan(view, cx, (self.dir, &self.name), Kind::Dir { holder: None }).map(Checked::from)
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.dir, &self.name)]
    }
}

/// Kind of inode to be removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory, which the session has removed under its grant if one is named.
    Dir {
        holder: Option<step::Holder>,
    },
    Other,
}

pub(super) fn plan(
    view: &View<'_>,
    cx: &Context<'_>,
    (dir, name): (Ino, &Name),
    kind: Kind,
) -> Result<Plan, Stop> {
    let (owned, entry) = cx.taken_name(view, dir, name)?;
    match (kind, entry.kind == FileKind::Dir) {
        (Kind::Dir { .. }, false) => return Err(FsError::NotDir.into()),
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
        Kind::Dir { holder } => Step::DropDir(step::DropDir {
            dir: entry.ino,
            must_own,
            holder,
        }),
        Kind::Other => Step::Unlink(step::Unlink {
            ino: entry.ino,
            must_own,
            time,
        }),
    };
    Ok(Plan {
        steps: vec![(view.shard, remove), (entry.shard, free)],
        answer: PlanAnswer::Removed { ino: entry.ino },
    })
}
