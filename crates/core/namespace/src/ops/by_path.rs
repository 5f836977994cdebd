//! Requests by path: an operation in a directory at any depth, whose path this shard knows, so that the caller's right to
//! come there is decided here alone; and the memory of paths that were found by going through the directories.

use super::{ByLoad, Checked, Choices, Execute, Mutation, path_operation};
use crate::paths::{self, Known, hash_of};
use crate::records::PathRecord;
use crate::{Context, Locks, Stop, Txn, View};
use pandofs_api::op::PathOperation;
use pandofs_api::{PathName, PathReply, Refusal, Reply, op};
use pandofs_types::{Credentials, FsError, Ino, LeaseKey, Name, ServerId, ShardId};

/// Directories of a request by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    dir: Ino,
    /// The other directory, if that is named by its path, and the shard of the name in it.
    new: Option<(Ino, ShardId)>,
}

/// Fills in the directories that a request by path is about. It is refused as a walk to them would be, or because they are
/// not this shard's, or not known.
pub fn fill(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    by_path: &mut op::ByPath,
) -> Result<(), Stop> {
    let places = places(view, locks, caller, by_path)?;
    *by_path.operation.dir_mut() = places.dir;
    if let Some((dir, shard)) = places.new
        && let Some(other) = other_mut(&mut by_path.operation)
    {
        (*other.0, *other.1) = (dir, shard);
    }
    Ok(())
}

/// Refusal as a client is told that has named the directory by its path, and knows no number to which a map belongs.
pub fn told(by_path: &op::ByPath, refusal: Refusal) -> Refusal {
    let dir = by_path.operation.dir();
    match refusal {
        Refusal::Misdirected(map) => Refusal::ByPath(PathReply::LeadsTo { dir, map }),
        Refusal::NewNameMisdirected(_) => Refusal::ByPath(PathReply::LeadsTo { dir, map: None }),
        other => other,
    }
}

fn places(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    by_path: &op::ByPath,
) -> Result<Places, Stop> {
    let dir = follow(view, locks, caller, &by_path.path)?;
    let new_dir = match &by_path.new_path {
        Some(path) => Some(follow(view, locks, caller, path)?),
        None => None,
    };
    let of_name = |name: &Name| view.map.hash_key.position(name.as_bytes());
    match view.owned_at(dir, by_path.operation.position(of_name)) {
        Ok(_) => {}
        Err(Stop::Refuse(refusal)) => {
            let mut found = by_path.clone();
            *found.operation.dir_mut() = dir;
            return Err(told(&found, refusal).into());
        }
        Err(stop) => return Err(stop),
    }
    let new = match (new_dir, by_path.operation.operation().new_name()) {
        (None, _) => None,
        (Some(_), None) => {
            let text = "a second path for an operation in one directory".to_string();
            return Err(Refusal::Malformed(text).into());
        }
        (Some(new_dir), Some(new)) => match view.parts(new_dir)? {
            Some(parts) => Some((new_dir, parts.map.shard_of(of_name(new.name)))),
            // It has stayed on another shard when it was renamed.
            None => {
                return Err(Refusal::ByPath(PathReply::LeadsTo { dir, map: None }).into());
            }
        },
    };
    Ok(Places { dir, new })
}

/// The directory that a path leads to, if this shard knows it, and the caller may go there.
fn follow(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    path: &PathName,
) -> Result<Ino, Stop> {
    check_here(view, path)?;
    let unknown = |seen| Stop::from(Refusal::ByPath(PathReply::Unknown { seen }));
    let (dir, above) = match paths::find(view, locks, path)? {
        Known::Nothing { seen } => return Err(unknown(seen)),
        Known::Leads { dir, above } => (dir, above),
    };
    if !above.allows(caller) {
        return Err(FsError::Access.into());
    }
    // The directory is gone, and another one may have its path by now.
    if dir.birth_shard() == view.shard && view.parts(dir)?.is_none() {
        return Err(unknown(view.path_log()?));
    }
    Ok(dir)
}

fn other_mut(operation: &mut PathOperation) -> Option<(&mut Ino, &mut ShardId)> {
    match operation {
        PathOperation::Rename(op) => Some((&mut op.new_dir, &mut op.new_shard)),
        PathOperation::Exchange(op) => Some((&mut op.new_dir, &mut op.new_shard)),
        _ => None,
    }
}

/// Checks once more that the request is about the directories that were filled in: of those leases have ended, and grants.
fn check_filled(by_path: &op::ByPath, view: &View<'_>, cx: &Context<'_>) -> Result<(), Stop> {
    let found = places(view, cx.locks, cx.caller, by_path)?;
    let new = by_path.operation.operation().new_name();
    let filled = Places {
        dir: by_path.operation.dir(),
        new: found.new.and(new.map(|new| (new.dir, new.shard))),
    };
    match found == filled {
        true => Ok(()),
        false => Err(Refusal::TryAgain.into()),
    }
}

impl Execute for op::ByPath {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        check_filled(self, view, cx)?;
        path_operation(&self.operation).read(view, cx)
    }

    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        check_filled(self, view, cx)?;
        path_operation(&self.operation).check(view, cx)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        check_filled(self, &txn.view(), cx)?;
        path_operation(&self.operation).apply(txn, cx)
    }

    fn needs_space(&self, view: &View<'_>) -> Result<bool, Stop> {
        path_operation(&self.operation).needs_space(view)
    }

    fn fills(&self, view: &View<'_>) -> Result<Option<ServerId>, Stop> {
        path_operation(&self.operation).fills(view)
    }

    fn changes_nothing(&self, view: &View<'_>, choices: &Choices) -> Result<bool, Stop> {
        path_operation(&self.operation).changes_nothing(view, choices)
    }

    fn touches(&self, view: &View<'_>, choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        path_operation(&self.operation).touches(view, choices)
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        path_operation(&self.operation).depends(view)
    }

    fn by_load(&self, view: &View<'_>) -> Option<ByLoad> {
        path_operation(&self.operation).by_load(view)
    }
}

impl Execute for op::KeepPath {
    fn check(&self, view: &View<'_>, _cx: &Context<'_>) -> Result<Checked, Stop> {
        check_here(view, &self.path)?;
        if !self.above.fits(&self.path) || self.dir == Ino::ROOT {
            return Err(Refusal::Malformed("what is above a path".to_string()).into());
        }
        Ok(Checked::HERE)
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        self.check(&txn.view(), cx)?;
        let view = txn.view();
        if paths::may_keep(&view, cx.locks, self.dir, &self.above, self.seen)? {
            let hash = hash_of(&view, &self.path);
            let seen = view.path_log()?;
            let here = view.parts(self.dir)?;
            let was_placed_by_it = self.dir.birth_shard() == view.shard
                && here.is_some_and(|parts| parts.path.as_ref() == Some(&self.path));
            let record = PathRecord {
                path: self.path.clone(),
                dir: self.dir,
                above: self.above.clone(),
                seen,
            };
            txn.put_path(hash, !was_placed_by_it, &record);
        }
        Ok(Mutation::Done(Reply::Done))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }

    fn changes_nothing(&self, view: &View<'_>, _choices: &Choices) -> Result<bool, Stop> {
        let is_old = !paths::may_keep(view, &Locks::default(), self.dir, &self.above, self.seen)?;
        Ok(is_old)
    }
}

/// Refuses a path that does not lead here.
fn check_here(view: &View<'_>, path: &pandofs_api::PathName) -> Result<(), Stop> {
    if path.is_valid() && view.map.path_shard(path.as_bytes()) == Some(view.shard) {
        return Ok(());
    }
    Err(Refusal::Malformed("a path that does not lead to this shard".to_string()).into())
}
