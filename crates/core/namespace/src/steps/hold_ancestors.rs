//! Keeps a chain of ancestors where it is while a directory moves below it.
//!
//! The bad interleaving without it: `/a` and `/b` are moved at once, one into the other's subtree,
//! each seen to be no ancestor of its new place, and both end up in a circle that nothing leads to. With
//! it, each move holds the parent of what it moves alone, and the parents of all its new ancestors
//! together with others; the two cannot both be prepared.

use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::records::Body;
use crate::{Stop, Txn, View};
use pandofs_api::{Step, StepResult, step};
use pandofs_types::limits::MAX_DIRECTORY_DEPTH;
use pandofs_types::{FsError, Ino};

impl Perform for step::HoldAncestors {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (from, moving, depth) = (self.from, self.moving, self.depth);
        let (view, locks_held, own) = (&txn.view(), cx.locks, cx.own);
        // The parent of a directory may be there for others and not yet here: it was made with several partitions.
        let is_there = |dir| locks_held.check(&Lock::Made(dir), own);
        let (locks, next) = walk(view, from, moving, depth, &is_there)?;
        for lock in &locks {
            locks_held.check(lock, own)?;
        }
        let follow = next
            .map(|(from, depth)| {
                (
                    from.birth_shard(),
                    Step::HoldAncestors(step::HoldAncestors {
                        from,
                        moving,
                        depth,
                    }),
                )
            })
            .into_iter()
            .collect();
        Ok(Prepared {
            result: StepResult::default(),
            follow,
            locks,
        })
    }

    fn execute(&self, _txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        Ok(())
    }

    fn locks(&self, view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(walk(view, self.from, self.moving, self.depth, &|_| Ok(()))?.0)
    }
}

/// The locks for the ancestors on this shard from `from` upwards, and the first one on another shard.
fn walk(
    view: &View<'_>,
    from: Ino,
    moving: Ino,
    depth: u32,
    is_there: &dyn Fn(Ino) -> Result<(), Stop>,
) -> Result<(LockSet, Option<(Ino, u32)>), Stop> {
    let mut locks = Vec::new();
    let mut at = from;
    let mut depth = depth;
    loop {
        if at == moving {
            return Err(FsError::Invalid.into());
        }
        is_there(at)?;
        let inode = view.stored_inode(at)?.ok_or(FsError::NotFound)?;
        let Body::Dir { parent } = inode.body else {
            return Err(FsError::NotDir.into());
        };
        locks.push(Lock::Ancestor(at));
        if at == Ino::ROOT {
            return Ok((locks, None));
        }
        depth += 1;
        if depth as usize > MAX_DIRECTORY_DEPTH {
            return Err(FsError::Invalid.into());
        }
        if parent.birth_shard() != view.shard {
            return Ok((locks, Some((parent, depth))));
        }
        at = parent;
    }
}
