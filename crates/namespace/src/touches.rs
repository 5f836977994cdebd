//! What is changed that clients may believe in under a lease: to be cleared before the change is proposed.
//!
//! It is found on the state as it is when a request or a step arrives, and the change is made on the state as
//! it is a moment later. What a request changes besides that it names follows from [what it depends
//! on](ops::Execute::depends), so a request waits for changes of that which are under way.

use crate::{Plan, Stop, View, ops};
use pandofs_api::{Request, Step};
use pandofs_types::{FileKind, Ino, LeaseKey, Name};

/// Something that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    pub key: LeaseKey,
    /// Whoever asks for the change knows of it by the request and its answer, and need not be told.
    pub is_known: bool,
}

fn known(key: LeaseKey) -> Touched {
    Touched {
        key,
        is_known: true,
    }
}

/// The key of a name.
pub fn entry_key(view: &View<'_>, dir: Ino, name: &Name) -> LeaseKey {
    let position = view.map.hash_key.position(name.as_bytes());
    LeaseKey::Entry { dir, position }
}

/// What a request that is no read changes here; `plan` is what it was found to come to.
pub fn of_request(
    view: &View<'_>,
    request: &Request,
    plan: Option<&Plan>,
    choices: &crate::Choices,
) -> Result<Vec<Touched>, Stop> {
    let keys = ops::operation(request).touches(view, choices)?;
    let mut touched: Vec<Touched> = keys.into_iter().map(known).collect();
    for (shard, step) in plan.into_iter().flat_map(|plan| &plan.steps) {
        if *shard == view.shard {
            touched.extend(of_step(step, view).into_iter().map(known));
            touched.extend(followers(view, step)?);
        }
    }
    Ok(touched)
}

/// What a step changes where it is performed, unless it is the giving half of a split, before which
/// everything is recalled. The receiving half brings what nobody can have a lease of.
pub fn of_step(step: &Step, view: &View<'_>) -> Vec<LeaseKey> {
    match step {
        Step::Insert { dir, name, .. } | Step::Remove { dir, name, .. } => {
            vec![entry_key(view, *dir, name), LeaseKey::Parts(*dir)]
        }
        Step::Swap { swap } => vec![
            entry_key(view, swap.dir, &swap.name),
            LeaseKey::Parts(swap.dir),
        ],
        Step::Whiteout { whiteout } => vec![
            entry_key(view, whiteout.dir, &whiteout.name),
            LeaseKey::Parts(whiteout.dir),
        ],
        Step::Link { ino, .. } | Step::Unlink { ino, .. } | Step::Touch { ino, .. } => {
            vec![LeaseKey::Inode(*ino)]
        }
        Step::SetParent { dir, .. } => vec![LeaseKey::Inode(*dir)],
        Step::DropDir { dir, .. } | Step::SetDir { dir, .. } => {
            vec![LeaseKey::Inode(*dir), LeaseKey::Parts(*dir)]
        }
        Step::SetAcl { set } => vec![LeaseKey::Inode(set.dir), LeaseKey::Parts(set.dir)],
        Step::DropPart { dir } => vec![LeaseKey::Parts(*dir)],
        Step::NewPart { part } => vec![LeaseKey::Parts(part.dir)],
        Step::Adopt { adopt } => vec![LeaseKey::Parts(adopt.part.dir)],
        Step::NewDir { .. }
        | Step::NewFile { .. }
        | Step::HoldAncestors { .. }
        | Step::GiveUp { .. } => Vec::new(),
    }
}

/// What steps change that follow from this one, and are here.
fn followers(view: &View<'_>, step: &Step) -> Result<Vec<Touched>, Stop> {
    let (dir, name, is_known) = match step {
        // Which file gives way no answer tells.
        Step::Insert {
            dir,
            name,
            replace: true,
            ..
        } => (*dir, name, false),
        // What the names led to is in the answer.
        Step::Swap { swap } => (swap.dir, &swap.name, true),
        _ => return Ok(Vec::new()),
    };
    let position = view.map.hash_key.position(name.as_bytes());
    let Some(entry) = view.entry(dir, position, name)? else {
        return Ok(Vec::new());
    };
    if entry.shard != view.shard {
        return Ok(Vec::new());
    }
    let mut keys = vec![LeaseKey::Inode(entry.ino)];
    if entry.kind == FileKind::Dir {
        keys.push(LeaseKey::Parts(entry.ino));
    }
    let touched = |key| Touched { key, is_known };
    Ok(keys.into_iter().map(touched).collect())
}
