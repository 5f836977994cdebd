//! Directories found by their paths: what a shard that paths lead to knows of them, and until when that is right.
//!
//! A [`PathRecord`] says which directory a path leads to and on which conditions a caller may search all that is above
//! it. It was right at one moment. Any change that would make it wrong (another mode, owner or access control list of an
//! ancestor, another name or parent of one or of the directory itself) is a distributed operation with a step on *every*
//! shard that paths lead to. Prepared, the step locks the directory's number, and requests by path wait; performed, it
//! writes a line. So, at any moment, of a directory that is not locked here exactly the decided changes have lines here,
//! and a record which no line of its ancestors is younger than is right *now*.
//!
//! Lines are kept in a table of fixed size, in which directories share a line: a change of another directory may have a
//! record made anew that was right, and none is ever taken for right that is not.

use crate::locks::Lock;
use crate::records::{PartsRecord, PathRecord};
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{Above, AboveSeen, PathName, SearchCondition, Step, step};
use pandofs_types::limits::PATH_LINES;
use pandofs_types::{HashKey, Ino, Name, ShardId};

/// Changes of a directory that have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// All that concern what is below it.
    Below,
    /// Those of its own name and parent.
    Itself,
}

impl Line {
    /// The number of the line in which such changes of the directory are taken down.
    pub(crate) fn of(self, view: &View<'_>, dir: Ino) -> u16 {
        self.by(view.map.hash_key, dir)
    }

    /// The same by the file system's key.
    pub fn by(self, key: HashKey, dir: Ino) -> u16 {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&dir.0.to_be_bytes());
        bytes[8] = self as u8;
        (key.position(&bytes).hash() % u64::from(PATH_LINES)) as u16
    }
}

/// Knowledge of a path here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing that is right. A client that finds the path otherwise may have it [kept](crate::ops) with this count.
    Nothing {
        /// Changes that the path log has seen.
        seen: u64,
    },
    /// It leads there, and this is above it.
    Leads {
        /// The directory.
        dir: Ino,
        /// The rights that a caller has to have.
        above: Above,
    },
}

/// Returns what this shard knows of a path. Stops with [`Stop::Locked`] while it may just be changing.
pub fn find(view: &View<'_>, locks: &Locks, path: &PathName) -> Result<Known, Stop> {
    let hash = hash_of(view, path);
    for pointer in [false, true] {
        if let Some(record) = view.path(hash, pointer)?
            && record.path == *path
            && is_right(view, locks, &record)?
        {
            let PathRecord { dir, above, .. } = record;
            return Ok(Known::Leads { dir, above });
        }
    }
    let seen = view.path_log()?;
    Ok(Known::Nothing { seen })
}

/// Test that nothing has changed since the record was made.
fn is_right(view: &View<'_>, locks: &Locks, record: &PathRecord) -> Result<bool, Stop> {
    check_unlocked(locks, record.dir, &record.above)?;
    if view.path_log()? == record.seen {
        return Ok(true);
    }
    has_no_line_after(view, record.dir, &record.above, record.seen)
}

fn check_unlocked(locks: &Locks, dir: Ino, above: &Above) -> Result<(), Stop> {
    if locks.is_empty() {
        return Ok(());
    }
    let mut dirs = above.ancestors.iter().chain([&dir]);
    dirs.try_for_each(|&dir| locks.check(&Lock::Path(dir), None))
}

fn has_no_line_after(view: &View<'_>, dir: Ino, above: &Above, seen: u64) -> Result<bool, Stop> {
    for (line, dir) in changes_of(dir, above) {
        if view.path_line(line.of(view, dir))?.last > seen {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Changes that make a record wrong of a path that leads to the directory, below these.
pub fn changes_of(dir: Ino, above: &Above) -> impl Iterator<Item = (Line, Ino)> + use<'_> {
    let below = above.ancestors.iter();
    let below = below.map(|&ancestor| (Line::Below, ancestor));
    below.chain([(Line::Itself, dir)])
}

/// Test that what somebody found by going through the directories, from when this shard's path log had seen `seen` changes
/// on, is right now. If an operation that is under way may change it, it is not known to be.
pub(crate) fn may_keep(
    view: &View<'_>,
    locks: &Locks,
    dir: Ino,
    above: &Above,
    seen: u64,
) -> Result<bool, Stop> {
    match check_unlocked(locks, dir, above) {
        Ok(()) => has_no_line_after(view, dir, above, seen),
        Err(Stop::Locked(_)) => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// The hash by which a path is stored and leads to its shard.
pub(crate) fn hash_of(view: &View<'_>, path: &PathName) -> u64 {
    view.map.hash_key.position(path.as_bytes()).hash()
}

/// Directories above a new one in `dir`, of which this shard has these partitions, if they are known here.
pub(crate) fn above_new(
    view: &View<'_>,
    locks: &Locks,
    dir: Ino,
    parts: &PartsRecord,
) -> Result<Option<AboveSeen>, Stop> {
    let Some(path) = &parts.path else {
        return Ok(None);
    };
    let above = if dir == Ino::ROOT {
        Above::default()
    } else {
        match find(view, locks, path) {
            Ok(Known::Leads { dir: found, above }) if found == dir => above,
            Ok(_) | Err(Stop::Locked(_)) => return Ok(None),
            Err(stop) => return Err(stop),
        }
    };
    if locks.check(&Lock::Path(dir), None).is_err() {
        return Ok(None);
    }
    let condition = SearchCondition::of(parts.mode, parts.uid, parts.gid, &parts.acls);
    let Some(above) = above.below(dir, condition) else {
        return Ok(None);
    };
    let lines = sums(view, &above)?;
    Ok(Some(AboveSeen { above, lines }))
}

/// The sum of the line of each ancestor.
fn sums(view: &View<'_>, above: &Above) -> Result<Vec<u64>, Stop> {
    let ancestors = above.ancestors.iter();
    let sum = |&dir: &Ino| Ok(view.path_line(Line::Below.of(view, dir))?.sum);
    ancestors.map(sum).collect()
}

/// Stores the path of a new directory, if this shard's path log has seen of its ancestors what the shard had that says
/// what is above it: no more and no less.
pub(crate) fn keep_new(
    txn: &mut Txn<'_, '_>,
    dir: Ino,
    path: &PathName,
    above: &AboveSeen,
) -> Result<(), Stop> {
    let view = txn.view();
    if view.map.path_shard(path.as_bytes()) != Some(view.shard)
        || sums(&view, &above.above)? != above.lines
    {
        return Ok(());
    }
    let hash = hash_of(&view, path);
    let record = PathRecord {
        path: path.clone(),
        dir,
        above: above.above.clone(),
        seen: view.path_log()?,
    };
    txn.put_path(hash, false, &record);
    Ok(())
}

/// The directory is gone that was placed here by this path.
pub(crate) fn forget(txn: &mut Txn<'_, '_>, dir: Ino, path: &PathName) -> Result<(), Stop> {
    let view = txn.view();
    let hash = hash_of(&view, path);
    if view
        .path(hash, false)?
        .is_some_and(|record| record.dir == dir)
    {
        txn.delete_path(hash);
    }
    Ok(())
}

/// Path of a new directory, where directories are placed by paths.
pub(crate) fn path_of_new(parts: &PartsRecord, name: &Name) -> Option<PathName> {
    parts.path.as_ref()?.join(name)
}

/// Steps that take down in every path log that the directory changes.
pub fn lines(
    map: &pandofs_placement::ClusterMap,
    dir: Ino,
    moved: bool,
    stamp: u64,
) -> impl Iterator<Item = (ShardId, Step)> + use<> {
    let line = step::PathLine { dir, moved, stamp };
    map.path_shards()
        .map(move |shard| (shard, Step::PathLine(line)))
}
