//! A name gets what another one led to.

use super::insert::no_longer;
use super::{Follows, Given, Held, Perform, Prepared, entry_lock};
use crate::ops::advance;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::records::EntryRecord;
use crate::touches::entry_key;
use crate::{LockSet, Stop, Txn, View, paths};
use pandofs_api::{Step, StepResult, Swap, SwappedEntry, step};
use pandofs_placement::ClusterMap;
use pandofs_types::{Credentials, FileKind, FsError, Ino, LeaseKey, ShardId, Time};

impl Perform for Swap {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let swap = self;
        let (view, locks_held, own) = (&txn.view(), cx.locks, cx.own);
        let owned = view.owned(swap.dir, &swap.name)?;
        let locks = vec![entry_lock(view, swap.dir, &swap.name)];
        for lock in &locks {
            locks_held.check(lock, own)?;
        }
        check_dir(&swap.caller, SEARCH, &owned.parts)?;
        let entry = view
            .entry(swap.dir, owned.position, &swap.name)?
            .ok_or(FsError::NotFound)?;
        let mut prepared = Prepared {
            locks,
            ..Prepared::default()
        };
        if swap.own {
            if entry.ino != swap.comes.ino {
                return Err(FsError::NotFound.into());
            }
            check_dir(&swap.caller, CHANGE, &owned.parts)?;
            return Ok(prepared);
        }
        if entry.ino == swap.comes.ino {
            return Err(Stop::SameFile);
        }
        check_dir(&swap.caller, CHANGE, &owned.parts)?;
        let goes = SwappedEntry {
            ino: entry.ino,
            kind: entry.kind,
            shard: entry.shard,
        };
        prepared.result.entry = Some(goes);
        let must_own = must_own(&swap.caller, &owned.parts);
        prepared.follow = moved(
            &goes,
            swap.dir,
            swap.other,
            must_own,
            &swap.caller,
            swap.time,
        )?;
        let lines = lines_of(view.map, &goes, swap.stamp);
        prepared.follow.extend(lines);
        Ok(prepared)
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let swap = self;
        let comes = if swap.own {
            given
                .all
                .iter()
                .find_map(|result| result.entry)
                .ok_or_else(|| Stop::Broken("nothing comes in exchange for a name".to_string()))?
        } else {
            swap.comes
        };
        let owned = txn.view().owned(swap.dir, &swap.name).map_err(no_longer)?;
        let mut parts = owned.parts;
        let goes = txn
            .view()
            .entry(swap.dir, owned.position, &swap.name)?
            .ok_or_else(|| {
                Stop::Broken(format!("the name {} went while it was locked", swap.name))
            })?;
        let entry = EntryRecord {
            ino: comes.ino,
            kind: comes.kind,
            shard: comes.shard,
        };
        txn.put_entry(swap.dir, owned.position, &swap.name, &entry);
        let part = parts
            .part_mut(owned.index)
            .expect("the partition was found by this index");
        part.subdirs += u32::from(entry.kind == FileKind::Dir);
        part.subdirs -= u32::from(goes.kind == FileKind::Dir);
        advance(&mut parts.mtime, swap.time);
        advance(&mut parts.ctime, swap.time);
        txn.put_parts(swap.dir, &parts);
        Ok(())
    }

    fn locks(&self, view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![entry_lock(view, self.dir, &self.name)])
    }

    fn touches(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![
            entry_key(view, self.dir, &self.name),
            LeaseKey::Parts(self.dir),
        ]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }

    // The answer tells the inodes that the names led to.
    fn follows(&self) -> Option<Follows<'_>> {
        Some(Follows {
            dir: self.dir,
            name: &self.name,
            is_known: true,
        })
    }
}

/// Lines of path logs for what changes places, if it is a directory.
pub fn lines_of(map: &ClusterMap, entry: &SwappedEntry, stamp: u64) -> Vec<(ShardId, Step)> {
    match entry.kind {
        FileKind::Dir => paths::lines(map, entry.ino, true, stamp).collect(),
        _ => Vec::new(),
    }
}

/// Further steps, as a name of `from` comes to lead to `entry` no more, and one of `to` does.
pub fn moved(
    entry: &SwappedEntry,
    from: Ino,
    to: Ino,
    must_own: Option<u32>,
    caller: &Credentials,
    time: Time,
) -> Result<Vec<(ShardId, Step)>, Stop> {
    let SwappedEntry { ino, shard, .. } = *entry;
    if entry.kind != FileKind::Dir || from == to {
        let touch = Step::Touch(step::Touch {
            ino,
            must_own,
            time,
        });
        return Ok(vec![(shard, touch)]);
    }
    if to == ino {
        return Err(FsError::Invalid.into());
    }
    let set_parent = Step::SetParent(step::SetParent {
        dir: ino,
        parent: to,
        must_own,
        caller: caller.clone(),
        time,
    });
    let hold = Step::HoldAncestors(step::HoldAncestors {
        from: to,
        moving: ino,
        depth: 0,
    });
    Ok(vec![(shard, set_parent), (to.birth_shard(), hold)])
}
