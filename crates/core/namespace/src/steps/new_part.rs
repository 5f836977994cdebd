//! A directory that starts with several partitions gets those of this shard.

use super::new_dir::parts_here;
use super::{Given, Held, Perform, Prepared};
use crate::locks::{Lock, LockSet};
use crate::records::PartsRecord;
use crate::{Stop, Txn, View};
use pandofs_api::{NewPart, StepResult};
use pandofs_types::{FsError, LeaseKey};

impl Perform for NewPart {
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let (view, held, own) = (&txn.view(), cx.locks, cx.own);
        let part = self;
        held.check(&Lock::Dir(part.dir), own)?;
        if view.parts(part.dir)?.is_some() || parts_here(&part.map, view.shard).is_empty() {
            return Err(FsError::Io.into());
        }
        Ok(Prepared {
            locks: locks(part),
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let part = self;
        let parts = PartsRecord {
            map: part.map.clone(),
            mode: part.mode,
            uid: part.uid,
            gid: part.gid,
            settings: part.settings.clone(),
            grain: part.grain,
            mtime: part.time,
            ctime: part.time,
            parts: parts_here(&part.map, txn.shard),
            acls: part.acls.clone(),
            path: part.path.clone(),
        };
        txn.meta.partitions += parts.parts.len() as u64;
        txn.put_parts(part.dir, &parts);
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(locks(self))
    }

    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        vec![LeaseKey::Parts(self.dir)]
    }

    fn needs_space(&self) -> bool {
        true
    }
}

/// Nothing comes in, and requests that name the directory already wait.
fn locks(part: &NewPart) -> LockSet {
    vec![Lock::Dir(part.dir), Lock::Made(part.dir)]
}
