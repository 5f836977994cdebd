//! Attributes and settings of a directory change, at its home and at every partition.

use super::insert::no_longer;
use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::ops::setattr::set_common;
use crate::permission::check_set;
use crate::{Effect, LockSet, Stop, Txn, View};
use pandofs_api::{DirSettings, Step, StepResult, step};
use pandofs_types::{FsError, Ino, LeaseKey, SetTime};

impl Perform for step::SetDir {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, locks, own) = (&txn.view(), cx.locks, cx.own);
        let (dir, set, caller) = (self.dir, &self.set, &self.caller);
        let lock = Lock::Inode(dir);
        locks.check(&lock, own)?;
        if dir.birth_shard() == view.shard {
            check_set(caller, &view.inode(dir)?, set)?;
        }
        let Some(parts) = view.parts(dir)? else {
            if dir.birth_shard() == view.shard {
                return Err(FsError::NotFound.into());
            }
            // The coordinator named this shard and has not heard yet that the partition here was merged
            // into another one, whose shard is asked as well.
            return Ok(Prepared {
                locks: vec![lock],
                ..Prepared::default()
            });
        };
        let follow = parts
            .map
            .shards()
            .into_iter()
            .filter(|&shard| shard != view.shard && shard != dir.birth_shard())
            .map(|shard| (shard, Step::SetDir(self.clone())))
            .collect();
        Ok(Prepared {
            result: StepResult::default(),
            follow,
            locks: vec![lock],
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let step::SetDir {
            dir,
            set,
            settings,
            caller,
            time,
        } = self;
        let (dir, time) = (*dir, *time);
        let Some(mut parts) = txn.view().parts(dir)? else {
            return Ok(());
        };
        if dir.birth_shard() == txn.shard {
            let mut inode = txn.view().inode(dir).map_err(no_longer)?;
            set_common(caller, &mut inode, set, time);
            parts.mode = inode.mode;
            parts.uid = inode.uid;
            parts.gid = inode.gid;
            parts.acls = inode.acls.clone();
            txn.put_inode(dir, &inode);
        } else {
            // The home alone decides about set-group-id; a caller who loses it there loses it here, since
            // the same function of the same arguments is taken on a copy of the same attributes.
            let mut copy = copy_of_inode(&parts);
            set_common(caller, &mut copy, set, time);
            parts.mode = copy.mode;
            parts.uid = copy.uid;
            parts.gid = copy.gid;
            parts.acls = copy.acls;
        }
        if let Some(mtime) = set.mtime {
            parts.mtime = match mtime {
                SetTime::Now => time,
                SetTime::At(mtime) => mtime,
            };
        }
        parts.ctime = parts.ctime.max(time);
        merge(&mut parts.settings, settings);
        txn.put_parts(dir, &parts);
        txn.effects.push(Effect::Settings { dir });
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Inode(self.dir)])
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(self.dir), LeaseKey::Parts(self.dir)]
    }

    fn dir(&self) -> Option<Ino> {
        Some(self.dir)
    }
}

fn merge(settings: &mut DirSettings, new: &DirSettings) {
    settings.threshold = new.threshold.or(settings.threshold);
    settings.max_partitions = new.max_partitions.or(settings.max_partitions);
    settings.initial_partitions = new.initial_partitions.or(settings.initial_partitions);
    settings.policy = new.policy.or(settings.policy);
    settings.layout = new.layout.or(settings.layout);
    settings.file_policy = new.file_policy.or(settings.file_policy);
}

fn copy_of_inode(parts: &crate::records::PartsRecord) -> crate::records::InodeRecord {
    crate::records::InodeRecord {
        kind: pandofs_types::FileKind::Dir,
        mode: parts.mode,
        uid: parts.uid,
        gid: parts.gid,
        nlink: 1,
        rdev: 0,
        size: 0,
        atime: parts.mtime,
        mtime: parts.mtime,
        ctime: parts.ctime,
        btime: parts.ctime,
        body: crate::records::Body::Nothing,
        xattrs: 0,
        xattr_bytes: 0,
        trail: Vec::new(),
        acls: parts.acls.clone(),
        may_be_named: false,
        truncations: 0,
    }
}
