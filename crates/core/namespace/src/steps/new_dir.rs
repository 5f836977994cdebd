//! A directory is made: inode and first partitions, at its home.

use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::ops::new_dir_attr;
use crate::records::{Body, InodeRecord, Part, PartsRecord};
use crate::{Effect, Stop, Txn, View, paths};
use pandofs_api::{DirReply, FileBody, InodeReply, NewDir, NewPart, Step, StepResult};
use pandofs_placement::DirMap;
use pandofs_types::{FileKind, FsError, Ino, SessionId, ShardId};

impl Perform for NewDir {
    /// Fixes the inode number. If the operation is aborted the number is lost, which harms nothing.
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let new = self;
        let initial = new
            .settings
            .initial_partitions
            .unwrap_or(txn.map.settings.initial_partitions);
        let map = if initial > 1 && !cx.choices.slots.is_empty() {
            if cx.choices.slots[0] != txn.shard {
                return Err(Stop::Broken(
                    "the slot array does not start at home".to_string(),
                ));
            }
            DirMap::with_slots(
                cx.choices.slots.clone(),
                initial.min(cx.choices.slots.len() as u32),
            )
        } else {
            DirMap::single(txn.shard)
        };
        let ino = match new.chosen {
            Some((session, ino)) => {
                has_number(&txn.view(), session, ino)?;
                // Of a session that uses it twice.
                cx.locks.check(&Lock::Made(ino), cx.own)?;
                ino
            }
            None => txn.new_ino(cx.choices.ino),
        };
        let follow = map
            .shards()
            .into_iter()
            .filter(|&shard| shard != txn.shard)
            .map(|shard: ShardId| {
                let part = NewPart {
                    dir: ino,
                    map: map.clone(),
                    mode: new.mode,
                    uid: new.uid,
                    gid: new.gid,
                    grain: new.grain,
                    settings: new.settings.clone(),
                    time: new.time,
                    acls: new.acls.clone(),
                    path: new.path.clone(),
                };
                (shard, Step::NewPart(Box::new(part)))
            })
            .collect();
        let dir = DirReply {
            map,
            parent: new.parent,
            settings: new.settings.clone(),
        };
        let inode = InodeReply {
            attr: new_dir_attr(ino, new),
            body: FileBody::None,
            dir: Some(Box::new(dir)),
            truncations: 0,
        };
        Ok(Prepared {
            result: StepResult {
                inode: Some(Box::new(inode)),
                ..StepResult::default()
            },
            follow,
            locks: vec![Lock::Made(ino)],
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop> {
        let (new, own) = (self, given.own);
        let made = own
            .inode
            .as_deref()
            .and_then(|inode| Some((inode.attr.ino, inode.dir.as_deref()?)))
            .ok_or_else(|| Stop::Broken("a directory was made without a number".to_string()))?;
        let (ino, dir) = made;
        if let Some((session, _)) = new.chosen {
            let mut numbers = txn.view().numbers(session)?.unwrap_or_default();
            numbers.take_unordered(ino.serial());
            txn.put_numbers(session, &numbers);
            txn.effects.push(Effect::MadeAway { dir: ino, session });
        }
        let inode = InodeRecord {
            kind: FileKind::Dir,
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            nlink: 1,
            rdev: 0,
            size: 0,
            atime: new.time,
            mtime: new.time,
            ctime: new.time,
            btime: new.time,
            body: Body::Dir { parent: new.parent },
            xattrs: 0,
            xattr_bytes: 0,
            trail: Vec::new(),
            acls: new.acls.clone(),
            may_be_named: false,
            truncations: 0,
        };
        txn.add_inode(ino, &inode);
        let parts = PartsRecord {
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            settings: new.settings.clone(),
            grain: new.grain,
            mtime: new.time,
            ctime: new.time,
            parts: parts_here(&dir.map, txn.shard),
            map: dir.map.clone(),
            acls: new.acls.clone(),
            path: new.path.clone(),
        };
        txn.meta.partitions += parts.parts.len() as u64;
        txn.put_parts(ino, &parts);
        if let (Some(path), Some(above)) = (&new.path, &new.above) {
            paths::keep_new(txn, ino, path, above)?;
        }
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, own: &StepResult) -> Result<LockSet, Stop> {
        let made = own.inode.iter().map(|inode| Lock::Made(inode.attr.ino));
        Ok(made.collect())
    }

    fn needs_space(&self) -> bool {
        self.chosen.is_none()
    }
}

/// Refuses a number that the session has not taken to use it in any order.
fn has_number(view: &View<'_>, session: SessionId, ino: Ino) -> Result<(), Stop> {
    let numbers = view.numbers(session)?.unwrap_or_default();
    match ino.birth_shard() == view.shard && numbers.has_unordered(ino.serial()) {
        true => Ok(()),
        false => Err(FsError::Invalid.into()),
    }
}

/// The empty partitions that a new directory has on `shard`.
pub(super) fn parts_here(map: &DirMap, shard: ShardId) -> Vec<Part> {
    map.active()
        .filter(|&index| map.shard_of_partition(index) == shard)
        .map(|index| Part {
            index,
            entries: 0,
            subdirs: 0,
        })
        .collect()
}
