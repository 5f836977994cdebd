//! Rename: the old name goes here; the new one, what it led to, and for a directory its parent and its
//! new ancestors are steps wherever they are.

use super::create::whiteout;
use super::{Checked, Execute, Plan, PlanAnswer};
use crate::permission::must_own;
use crate::touches::entry_key;
use crate::{Context, Stop, View, paths};
use pandofs_api::{Refusal, Step, Whiteout, op, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, ShardId};

impl Execute for op::Rename {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let (dir, caller) = (self.dir, cx.caller);
        let (owned, entry) = cx.taken_name(view, dir, &self.name)?;
        check_other(view, self.new_dir, self.new_shard)?;
        let time = cx.choices.time;
        let must_own = must_own(caller, &owned.parts);
        let moves_dir = entry.kind == FileKind::Dir && dir != self.new_dir;
        if entry.kind == FileKind::Dir && self.new_dir == entry.ino {
            return Err(FsError::Invalid.into());
        }
        let takes = if self.whiteout {
            let whiteout = Whiteout {
                dir,
                name: self.name.clone(),
                ino: entry.ino,
                new: whiteout(caller, &owned.parts, time),
                caller: caller.clone(),
            };
            Step::Whiteout(Box::new(whiteout))
        } else {
            Step::Remove(step::Remove {
                dir,
                name: self.name.clone(),
                ino: entry.ino,
                caller: caller.clone(),
                time,
            })
        };
        let mut steps = vec![
            (view.shard, takes),
            (
                self.new_shard,
                Step::Insert(step::Insert {
                    dir: self.new_dir,
                    name: self.new_name.clone(),
                    ino: Some(entry.ino),
                    kind: entry.kind,
                    shard: entry.shard,
                    replace: !self.no_replace,
                    caller: caller.clone(),
                    time,
                }),
            ),
        ];
        if moves_dir {
            // Before `HoldAncestors`: of two moves into each other's subtree each then holds what the other
            // one asks for, so that the younger gives way and sees the new tree when it tries again.
            steps.push((
                entry.shard,
                Step::SetParent(step::SetParent {
                    dir: entry.ino,
                    parent: self.new_dir,
                    must_own,
                    caller: caller.clone(),
                    time,
                }),
            ));
            steps.push((
                self.new_dir.birth_shard(),
                Step::HoldAncestors(step::HoldAncestors {
                    from: self.new_dir,
                    moving: entry.ino,
                    depth: 0,
                }),
            ));
        } else {
            steps.push((
                entry.shard,
                Step::Touch(step::Touch {
                    ino: entry.ino,
                    must_own,
                    time,
                }),
            ));
        }
        if entry.kind == FileKind::Dir {
            let stamp = cx.choices.random;
            steps.extend(paths::lines(view.map, entry.ino, true, stamp));
        }
        let plan = Plan {
            steps,
            answer: PlanAnswer::Renamed { ino: entry.ino },
        };
        Ok(plan.into())
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![
            entry_key(view, self.dir, &self.name),
            entry_key(view, self.new_dir, &self.new_name),
        ]
    }
}

/// Refuses the number of a directory or a shard that cannot be there.
pub(super) fn check_other(view: &View<'_>, dir: Ino, shard: ShardId) -> Result<(), Stop> {
    if shard.0 >= view.map.shard_count() {
        return Err(Refusal::NewNameMisdirected(None).into());
    }
    // A number that no shard gave out names no directory.
    if dir.birth_shard().0 >= view.map.shard_count() {
        return Err(FsError::NotFound.into());
    }
    Ok(())
}
