//! Lookup by path: one request finds what is in a directory at any depth, and is decided on this shard alone; and the
//! memory of paths that were found by going through the directories.

use super::{Checked, Choices, Execute, Mutation};
use crate::paths::{self, Known, hash_of};
use crate::records::PathRecord;
use crate::{Context, Locks, Stop, Txn, View};
use pandofs_api::{PathReply, Refusal, Reply, op};
use pandofs_types::{FsError, Ino};

/// The directory here that a lookup by path leads to; `None` if it is another shard's, or not known.
pub fn dir_here(
    view: &View<'_>,
    locks: &Locks,
    lookup: &op::LookupPath,
) -> Result<Option<Ino>, Stop> {
    if view.map.path_shard(lookup.path.as_bytes()) != Some(view.shard) {
        return Ok(None);
    }
    Ok(match paths::find(view, locks, &lookup.path)? {
        Known::Leads { dir, .. } if dir.birth_shard() == view.shard => Some(dir),
        _ => None,
    })
}

impl Execute for op::LookupPath {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        check_here(view, &self.path)?;
        let (dir, above) = match paths::find(view, cx.locks, &self.path)? {
            Known::Nothing { seen } => return Ok(Reply::ByPath(PathReply::Unknown { seen })),
            Known::Leads { dir, above } => (dir, above),
        };
        if !above.allows(cx.caller) {
            return Err(FsError::Access.into());
        }
        let leads_to = Ok(Reply::ByPath(PathReply::LeadsTo { dir }));
        if dir.birth_shard() != view.shard {
            return leads_to;
        }
        // The directory is gone, and another one may have its path by now.
        if view.parts(dir)?.is_none() {
            let seen = view.path_log()?;
            return Ok(Reply::ByPath(PathReply::Unknown { seen }));
        }
        let name = self.name.clone();
        match (op::Lookup { dir, name }).read(view, cx) {
            // The name's partition is elsewhere.
            Err(Stop::Refuse(Refusal::Misdirected(_))) => leads_to,
            answer => answer,
        }
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
