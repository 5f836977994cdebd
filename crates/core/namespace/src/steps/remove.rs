//! A name goes out of a directory.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared, entry_lock};
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::{CHANGE, check_dir};
use crate::touches::entry_key;
use crate::{Effect, LockSet, Stop, Txn, View, merge};
use pandofs_api::{StepResult, step};
use pandofs_types::{Credentials, FileKind, FsError, Ino, LeaseKey, Name};

impl Perform for step::Remove {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        takeable(
            &txn.view(),
            cx,
            self.dir,
            &self.name,
            self.ino,
            &self.caller,
        )
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let (dir, name, time) = (self.dir, &self.name, self.time);
        let owned = txn.view().owned(dir, name).map_err(no_longer)?;
        let mut parts = owned.parts;
        let entry = txn
            .view()
            .entry(dir, owned.position, name)?
            .ok_or_else(|| Stop::Broken(format!("the name {name} went while it was locked")))?;
        txn.delete_entry(dir, owned.position, name);
        let part = parts
            .part_mut(owned.index)
            .expect("the partition was found by this index");
        assert!(
            part.entries > 0,
            "partition {} of {dir} lost more names than it had",
            owned.index
        );
        part.entries -= 1;
        part.subdirs -= u32::from(entry.kind == FileKind::Dir);
        advance(&mut parts.mtime, time);
        advance(&mut parts.ctime, time);
        if merge::is_noteworthy(txn.map, &parts, owned.index) {
            let index = owned.index;
            txn.effects.push(Effect::Shrank { dir, index });
        }
        txn.put_parts(dir, &parts);
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
}

/// Checks that the name leads to the inode and that the caller may take it away, and locks it.
pub(super) fn takeable(
    view: &View<'_>,
    cx: &Held<'_>,
    dir: Ino,
    name: &Name,
    ino: Ino,
    caller: &Credentials,
) -> Result<Prepared, Stop> {
    let (locks, own) = (cx.locks, cx.own);
    let owned = view.owned(dir, name)?;
    let lock = Lock::Entry {
        dir,
        position: owned.position,
        name: name.clone(),
    };
    locks.check(&lock, own)?;
    check_dir(caller, CHANGE, &owned.parts)?;
    match view.entry(dir, owned.position, name)? {
        Some(entry) if entry.ino == ino => {}
        _ => return Err(FsError::NotFound.into()),
    }
    Ok(Prepared {
        locks: vec![lock],
        ..Prepared::default()
    })
}
