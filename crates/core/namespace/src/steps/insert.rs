//! A name comes into a directory, perhaps in place of another one.

use super::{Follows, Given, Held, Perform, Prepared, entry_lock};
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::records::EntryRecord;
use crate::split::child_wanted;
use crate::touches::entry_key;
use crate::{Effect, LockSet, Stop, Txn, View};
use pandofs_api::{Step, StepResult, step};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey};

impl Perform for step::Insert {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let step::Insert {
            dir,
            name,
            ino,
            kind,
            replace,
            caller,
            time,
            ..
        } = self;
        let owned = view.owned(*dir, name)?;
        let lock = Lock::Entry {
            dir: *dir,
            position: owned.position,
            name: name.clone(),
        };
        locks.check(&lock, own)?;
        check_dir(caller, SEARCH, &owned.parts)?;
        let mut follow = Vec::new();
        match view.entry(*dir, owned.position, name)? {
            None => check_dir(caller, CHANGE, &owned.parts)?,
            Some(_) if !replace => return Err(FsError::Exists.into()),
            Some(old) if Some(old.ino) == *ino => return Err(Stop::SameFile),
            Some(old) => {
                check_dir(caller, CHANGE, &owned.parts)?;
                match (*kind == FileKind::Dir, old.kind == FileKind::Dir) {
                    (true, false) => return Err(FsError::NotDir.into()),
                    (false, true) => return Err(FsError::IsDir.into()),
                    _ => {}
                }
                let must_own = must_own(caller, &owned.parts);
                let free = if old.kind == FileKind::Dir {
                    Step::DropDir(step::DropDir {
                        dir: old.ino,
                        must_own,
                        holder: None,
                    })
                } else {
                    Step::Unlink(step::Unlink {
                        ino: old.ino,
                        must_own,
                        time: *time,
                    })
                };
                follow.push((old.shard, free));
            }
        }
        Ok(Prepared {
            result: StepResult::default(),
            follow,
            locks: vec![lock],
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let step::Insert {
            dir,
            name,
            ino,
            kind,
            shard,
            time,
            ..
        } = self;
        let all = given.all;
        let (ino, kind) = match ino {
            Some(ino) => (*ino, *kind),
            None => all
                .iter()
                .find_map(|result| result.inode.as_ref())
                .map(|inode| (inode.attr.ino, inode.attr.kind))
                .ok_or_else(|| Stop::Broken("no step made the inode of a name".to_string()))?,
        };
        let owned = txn.view().owned(*dir, name).map_err(no_longer)?;
        let mut parts = owned.parts;
        let entry = EntryRecord {
            ino,
            kind,
            shard: *shard,
        };
        if txn.view().entry(*dir, owned.position, name)?.is_some() {
            txn.put_entry(*dir, owned.position, name, &entry);
        } else {
            txn.add_entry(*dir, owned.position, name, &entry);
            let part = parts
                .part_mut(owned.index)
                .expect("the partition was found by this index");
            part.entries += 1;
            part.subdirs += u32::from(kind == FileKind::Dir);
        }
        advance(&mut parts.mtime, *time);
        advance(&mut parts.ctime, *time);
        txn.put_parts(*dir, &parts);
        if child_wanted(txn.map, &parts, owned.index).is_some() {
            txn.effects.push(Effect::Grew {
                dir: *dir,
                index: owned.index,
            });
        }
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

    fn needs_space(&self) -> bool {
        true
    }

    fn victim(&self, view: &View<'_>) -> Result<Option<Ino>, Stop> {
        if !self.replace {
            return Ok(None);
        }
        let position = view.map.hash_key.position(self.name.as_bytes());
        let old = view.entry(self.dir, position, &self.name)?;
        Ok(old.map(|entry| entry.ino))
    }

    // Which file gives way no answer tells.
    fn follows(&self) -> Option<Follows<'_>> {
        self.replace.then_some(Follows {
            dir: self.dir,
            name: &self.name,
            is_known: false,
        })
    }
}

/// Makes a refusal of what was checked under a lock a broken state.
pub(super) fn no_longer(stop: Stop) -> Stop {
    match stop {
        Stop::Refuse(refusal) => Stop::Broken(format!("a prepared step is refused: {refusal:?}")),
        other => other,
    }
}
