//! A name gets what another one led to.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::{Lock, LockSet};
use crate::ops::advance;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::records::EntryRecord;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{Step, StepResult, Swap, SwappedEntry};
use pandofs_types::{Credentials, FileKind, FsError, Ino, ShardId, Time, TxId};

pub(super) fn locks(view: &View<'_>, swap: &Swap) -> LockSet {
    vec![Lock::Entry {
        dir: swap.dir,
        position: view.map.hash_key.position(swap.name.as_bytes()),
        name: swap.name.clone(),
    }]
}

pub fn prepare(
    view: &View<'_>,
    locks_held: &Locks,
    own: Option<TxId>,
    swap: &Swap,
) -> Result<Prepared, Stop> {
    let owned = view.owned(swap.dir, &swap.name)?;
    let locks = locks(view, swap);
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
    Ok(prepared)
}

/// What else it takes that a name of `from` comes to lead to `entry` no more, and one of `to` does.
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
        let touch = Step::Touch {
            ino,
            must_own,
            time,
        };
        return Ok(vec![(shard, touch)]);
    }
    if to == ino {
        return Err(FsError::Invalid.into());
    }
    let set_parent = Step::SetParent {
        dir: ino,
        parent: to,
        must_own,
        caller: caller.clone(),
        time,
    };
    let hold = Step::HoldAncestors {
        from: to,
        moving: ino,
        depth: 0,
    };
    Ok(vec![(shard, set_parent), (to.birth_shard(), hold)])
}

pub fn execute(txn: &mut Txn<'_, '_>, swap: &Swap, all: &[StepResult]) -> Result<(), Stop> {
    let comes = if swap.own {
        all.iter()
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
        .ok_or_else(|| Stop::Broken(format!("the name {} went while it was locked", swap.name)))?;
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
