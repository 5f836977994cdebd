//! The receiving half of a split or a merge: what was staged becomes a partition, or a part of the one it
//! was split from.

use super::{Given, Held, Perform, Prepared};
use crate::records::{EntryRecord, InodeRecord, Part, PartsRecord, decode};
use crate::{Effect, LockSet, Stop, Txn, View, keys, locks::Lock, merge, split};
use pandofs_api::{Adopt, Refusal, SplitItem, StepResult};
use pandofs_types::{FileKind, FsError, LeaseKey};
use std::collections::BTreeMap;

impl Perform for Adopt {
    /// Refuses if something of what was copied is missing, or the partition is here already. Waits for the end
    /// of a split that gives names of this range away.
    ///
    /// The bad interleaving otherwise: this shard gave a half away and has not heard of the decision yet; the
    /// other shard splits that half and wants to give a part of it back. It would be adopted, and then deleted
    /// with the rest of what was given away when the decision comes.
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let adopt = self;
        let (start, end) = split::range_of_child(adopt.child);
        let dir = adopt.part.dir;
        locks.check(&Lock::Range { dir, start, end }, own)?;
        let chunks = view
            .staging(adopt.split)?
            .map_or(0, |staging| staging.chunks);
        if chunks != adopt.chunks {
            return Err(Refusal::TryAgain.into());
        }
        if adopt.back {
            merge::check(view, adopt)?;
            return Ok(Prepared::default());
        }
        if let Some(mut parts) = view.parts(dir)? {
            if parts.part(adopt.child).is_some() {
                return Err(FsError::Io.into());
            }
            // A merge that is under way here may have to end first, before what else the map tells is learnt.
            parts.learn(&adopt.part.map, view.split(dir)?.as_ref());
            if !parts.map.is_active(adopt.child) {
                return Err(Refusal::TryAgain.into());
            }
        }
        if !adopt.part.map.is_active(adopt.child)
            || adopt.part.map.shard_of_partition(adopt.child) != view.shard
        {
            return Err(FsError::Io.into());
        }
        Ok(Prepared::default())
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let adopt = self;
        let dir = adopt.part.dir;
        let mut items: BTreeMap<Vec<u8>, SplitItem> = BTreeMap::new();
        split::for_each_staged(&txn.view(), adopt.split, &mut |item| {
            items.insert(item.name.as_bytes().to_vec(), item);
            Ok(())
        })?;
        for item in &adopt.changed {
            items.insert(item.name.as_bytes().to_vec(), item.clone());
        }
        for name in &adopt.gone {
            items.remove(name.as_bytes());
        }
        let mut part = Part {
            index: adopt.child,
            entries: 0,
            subdirs: 0,
        };
        let mut inos = Vec::new();
        for item in items.into_values() {
            let entry: EntryRecord = decode("entry of a split", &item.entry)?;
            part.entries += 1;
            part.subdirs += u32::from(entry.kind == FileKind::Dir);
            let position = txn.map.hash_key.position(item.name.as_bytes());
            let entry = match item.inode {
                None => entry,
                Some(moved) => {
                    let mut inode: InodeRecord = decode("inode of a split", &moved.record)?;
                    // It may have been here before and left a forwarding record that is now wrong.
                    inode.trail.retain(|&shard| shard != txn.shard);
                    inode.trail.push(adopt.split.source);
                    inode.trail.dedup();
                    txn.delete_forwarding(moved.ino);
                    for (name, value) in moved.xattrs {
                        txn.put_xattr(moved.ino, &name, value.into_vec());
                    }
                    txn.keep_inline(moved.ino, 0, moved.data.into_vec());
                    txn.add_inode(moved.ino, &inode);
                    inos.push(moved.ino);
                    EntryRecord {
                        shard: txn.shard,
                        ..entry
                    }
                }
            };
            txn.add_entry(dir, position, &item.name, &entry);
        }
        txn.effects.push(Effect::MovedHere { inos });
        split::drop_staged(txn, adopt.split)?;
        let known = txn.view().parts(dir)?;
        let mut map = adopt.part.map.clone();
        if let Some(known) = &known {
            map.merge(&known.map);
        }
        // Of a directory that has no partition here any more, attributes may have changed without this shard.
        let known = known.filter(|known| !known.parts.is_empty());
        let mut parts = known.unwrap_or_else(|| PartsRecord {
            map,
            mode: adopt.part.mode,
            uid: adopt.part.uid,
            gid: adopt.part.gid,
            settings: adopt.part.settings.clone(),
            grain: adopt.part.grain,
            mtime: adopt.mtime,
            ctime: adopt.ctime,
            parts: Vec::new(),
            acls: adopt.part.acls.clone(),
            path: adopt.part.path.clone(),
        });
        if adopt.back {
            let into = merge::merged_into(adopt)?;
            assert!(
                parts.learn_merge(
                    &adopt.part.map,
                    adopt.child,
                    txn.view().split(dir)?.as_ref()
                ),
                "partition {} of {dir} does not merge any more",
                adopt.child
            );
            let grown = parts
                .part_mut(into)
                .ok_or_else(|| Stop::Broken(format!("partition {into} of {dir} is not here")))?;
            grown.entries += part.entries;
            grown.subdirs += part.subdirs;
            // Now it may be merged itself, or what it split off before.
            txn.effects.push(Effect::Shrank { dir, index: into });
        } else {
            parts.learn(&adopt.part.map, txn.view().split(dir)?.as_ref());
            parts.parts.push(part);
            parts.parts.sort_by_key(|part| part.index);
            txn.meta.partitions += 1;
            let index = adopt.child;
            txn.effects.push(Effect::Grew { dir, index });
        }
        parts.mtime = parts.mtime.max(adopt.mtime);
        parts.ctime = parts.ctime.max(adopt.ctime);
        txn.put_parts(dir, &parts);
        txn.overlay.delete(keys::staging(txn.shard, adopt.split));
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(Vec::new())
    }

    // Nobody can have a lease of anything else that it brings.
    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Parts(self.part.dir)]
    }
}
