//! The giving half of a split or a merge: half of a partition, or all of it, goes to another shard.

use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::records::SplitRecord;
use crate::{Effect, Stop, Txn, View, split};
use pandofs_api::{Refusal, StepResult, step};
use pandofs_types::{FileKind, Ino};

impl Perform for step::GiveUp {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (dir, id) = (self.dir, self.split);
        let (view, locks_held, own) = (&txn.view(), cx.locks, cx.own);
        match view.split(dir)? {
            Some(record) if record.split == id => {}
            _ => return Err(Refusal::TryAgain.into()),
        }
        let locks = locks(view, dir)?;
        for lock in &locks {
            locks_held.check(lock, own)?;
        }
        Ok(Prepared {
            locks,
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let dir = self.dir;
        let record = of(&txn.view(), dir)?;
        let mut moving = Vec::new();
        split::for_each_moving(
            &txn.view(),
            dir,
            &record,
            &mut |position, name, entry, moved| {
                moving.push((position, name.clone(), entry.kind, moved));
                Ok(())
            },
        )?;
        let mut parts = txn
            .view()
            .parts(dir)?
            .ok_or_else(|| Stop::Broken(format!("partitions of {dir} went during a split")))?;
        let (mut inos, mut trails) = (Vec::new(), Vec::new());
        let part = parts.part_mut(record.giver()).ok_or_else(|| {
            Stop::Broken(format!("partition {} of {dir} is not here", record.giver()))
        })?;
        for (position, name, kind, moved) in moving {
            txn.delete_entry(dir, position, &name);
            part.entries -= 1;
            part.subdirs -= u32::from(kind == FileKind::Dir);
            if let Some((ino, inode)) = moved {
                split::forget_moved(txn, ino, &inode)?;
                txn.put_forwarding(ino, record.target);
                inos.push(ino);
                trails.extend(
                    inode
                        .trail
                        .iter()
                        .filter(|&&at| at != record.target)
                        .map(|&at| (at, ino)),
                );
            }
        }
        if record.back {
            assert!(
                part.entries == 0 && part.subdirs == 0,
                "partition {} of {dir} was merged and has names left",
                record.child
            );
            parts.parts.retain(|part| part.index != record.child);
            parts.map.deactivate(record.child);
            txn.meta.partitions -= 1;
        } else {
            parts.map.activate_at(record.child, record.target);
            txn.meta.splits += 1;
        }
        txn.put_parts(dir, &parts);
        txn.delete_split(dir);
        txn.effects.push(Effect::MapChanged { dir });
        txn.effects.push(Effect::MovedAway {
            inos,
            trails,
            to: record.target,
        });
        if !record.back {
            // The entries left may still be over the threshold.
            txn.effects.push(Effect::Grew {
                dir,
                index: record.index,
            });
        }
        Ok(())
    }

    fn locks(&self, view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        locks(view, self.dir)
    }

    // Everything is recalled before a split.
    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}

/// The moving names, the inodes they lead to here, and the directory's attributes, of which the other
/// shard gets a copy.
fn locks(view: &View<'_>, dir: Ino) -> Result<LockSet, Stop> {
    let record = of(view, dir)?;
    let (start, end) = split::moving_range(&record);
    let mut locks = vec![Lock::Range { dir, start, end }, Lock::Inode(dir)];
    split::for_each_moving(view, dir, &record, &mut |_, _, entry, _| {
        // Also an inode that stays, as it has other names: were it to lose them before the decision, it
        // would be dropped here as one that moves along, and the other shard have none of it.
        if entry.shard == view.shard && entry.kind != FileKind::Dir {
            locks.push(Lock::Inode(entry.ino));
        }
        Ok(())
    })?;
    Ok(locks)
}

fn of(view: &View<'_>, dir: Ino) -> Result<SplitRecord, Stop> {
    view.split(dir)?
        .ok_or_else(|| Stop::Broken(format!("directory {dir} has no split here")))
}
