//! Validation of a participant's answer against the step it was asked for.
//!
//! A coordinator performs its own steps with the results of the others', and prepares or passes on the
//! steps that follow from them. So a result that names no inode where one was to be made, or the same
//! file's unlinking twice, would only be found out when the operation is committed and nothing can be
//! refused any more.

use pandofs_api::{CommitMessage, Refused, Step, StepNumber, StepResult, Swap, SwappedEntry, step};
use pandofs_commit::Coordination;
use pandofs_namespace::ops::create::kind_of;
use pandofs_namespace::steps::{lines_of, moved};
use pandofs_placement::ClusterMap;
use pandofs_types::{FileKind, ShardId};

/// Test that the message can be what `from` answers for its step `number`. A message that tells nothing
/// of a step (the end of an operation, the question for it) always can.
pub(crate) fn fits(
    map: &ClusterMap,
    coordination: &Coordination,
    from: ShardId,
    number: StepNumber,
    message: &CommitMessage,
) -> bool {
    let Some(entry) = coordination
        .steps
        .get(usize::from(number.0))
        .filter(|entry| entry.shard == from)
    else {
        return false;
    };
    match message {
        CommitMessage::Prepared { result, follow, .. } => {
            result_fits(from, &entry.step, result) && follow_fits(map, &entry.step, result, follow)
        }
        CommitMessage::Committed { result, .. } => result_fits(from, &entry.step, result),
        CommitMessage::Refused { why, .. } => refusal_fits(&entry.step, why),
        _ => true,
    }
}

/// Whether `shard` can have this result of `step`.
fn result_fits(shard: ShardId, step: &Step, result: &StepResult) -> bool {
    let inode = result.inode.as_deref();
    let fits = match step {
        Step::NewDir(new) => inode.is_some_and(|inode| {
            inode.attr.kind == FileKind::Dir
                && new.chosen.is_none_or(|(_, ino)| ino == inode.attr.ino)
                && inode.attr.ino.birth_shard() == shard
                && inode.dir.is_some()
        }),
        Step::NewFile(new) => inode.is_some_and(|inode| {
            inode.attr.kind == kind_of(&new.node)
                && inode.attr.ino.birth_shard() == shard
                && inode.dir.is_none()
        }),
        Step::Link(step::Link { ino, .. }) => inode.is_some_and(|inode| {
            inode.attr.ino == *ino && inode.attr.kind != FileKind::Dir && inode.dir.is_none()
        }),
        // A name that changes places led to another inode, or there is nothing to do.
        Step::Swap(swap) if !swap.own => {
            return inode.is_none()
                && result
                    .entry
                    .is_some_and(|entry| entry.ino != swap.comes.ino);
        }
        _ => inode.is_none(),
    };
    fits && result.entry.is_none()
}

/// Whether these steps can follow from `step` with this result.
fn follow_fits(
    map: &ClusterMap,
    step: &Step,
    result: &StepResult,
    follow: &[(ShardId, Step)],
) -> bool {
    if let (Step::Swap(swap), Some(goes)) = (step, result.entry) {
        return swap_follow_fits(map, swap, &goes, follow);
    }
    let each_fits = follow.iter().all(|(_, next)| match (step, next) {
        (
            Step::Insert(step::Insert {
                replace: true,
                time,
                ..
            }),
            Step::Unlink(step::Unlink {
                time: unlinked_at, ..
            }),
        ) => unlinked_at == time,
        (Step::Insert(step::Insert { replace: true, .. }), Step::DropDir(drop)) => {
            drop.holder.is_none()
        }
        (Step::NewDir(_), Step::NewPart(part)) => result
            .inode
            .as_deref()
            .is_some_and(|inode| inode.attr.ino == part.dir),
        (
            Step::DropDir(step::DropDir { dir, .. }) | Step::DropPart(step::DropPart { dir }),
            Step::DropPart(step::DropPart { dir: next }),
        ) => dir == next,
        (
            Step::HoldAncestors(step::HoldAncestors { moving, .. }),
            Step::HoldAncestors(step::HoldAncestors { moving: next, .. }),
        ) => moving == next,
        (Step::SetDir(_), Step::SetDir(_)) | (Step::SetAcl(_), Step::SetAcl(_)) => step == next,
        _ => false,
    });
    // One name gives way, one ancestor is the next; all else goes to every shard once.
    let most = match step {
        Step::Insert(_) | Step::HoldAncestors(_) => 1,
        _ => usize::MAX,
    };
    let mut shards: Vec<ShardId> = follow.iter().map(|(shard, _)| *shard).collect();
    shards.sort_unstable();
    shards.dedup();
    each_fits && follow.len() <= most && shards.len() == follow.len()
}

/// Exactly what it takes that `goes` changes places; only the other shard knows its required owner.
fn swap_follow_fits(
    map: &ClusterMap,
    swap: &Swap,
    goes: &SwappedEntry,
    follow: &[(ShardId, Step)],
) -> bool {
    let must_own = match follow.first() {
        Some((
            _,
            Step::Touch(step::Touch { must_own, .. })
            | Step::SetParent(step::SetParent { must_own, .. }),
        )) => *must_own,
        _ => return false,
    };
    let (from, to) = (swap.dir, swap.other);
    moved(goes, from, to, must_own, &swap.caller, swap.time).is_ok_and(|mut wanted| {
        wanted.extend(lines_of(map, goes, swap.stamp));
        wanted == follow
    })
}

/// Whether `step` can be refused for this reason.
fn refusal_fits(step: &Step, why: &Refused) -> bool {
    // Only the new name of a rename, or the other one of an exchange, can lead to the same file already.
    *why != Refused::SameFile
        || match step {
            Step::Insert(step::Insert { replace, .. }) => *replace,
            Step::Swap(swap) => !swap.own,
            _ => false,
        }
}
