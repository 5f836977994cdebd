//! Keys that an operation changes: their leases are recalled before the change is proposed.
//!
//! They are found on the state as it is when a request or a step arrives, and the change is made on the state
//! as it is a moment later. Changes of a request besides those of what it names follow from [what it depends
//! on](ops::Execute::depends), so a request waits for changes of that which are under way.

use crate::steps::{self, Follows};
use crate::{Plan, Stop, View, ops};
use pandofs_api::{Request, Step};
use pandofs_types::{FileKind, Ino, LeaseKey, Name};

/// Something that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Of the leases to be recalled.
    pub key: LeaseKey,
    /// The sender of the request knows of it by the request and its answer.
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

/// Keys that a mutation changes here; `plan` is its plan, if it has one.
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
            touched.extend(steps::of(step).touches(view).into_iter().map(known));
            touched.extend(followers(view, step)?);
        }
    }
    Ok(touched)
}

/// Keys that steps change that follow from this one, and are here.
fn followers(view: &View<'_>, step: &Step) -> Result<Vec<Touched>, Stop> {
    let Some(follows) = steps::of(step).follows() else {
        return Ok(Vec::new());
    };
    let Follows {
        dir,
        name,
        is_known,
    } = follows;
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
