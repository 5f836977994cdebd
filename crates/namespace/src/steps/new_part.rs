//! A directory that starts with several partitions gets those of this shard.

use super::Prepared;
use super::new_dir::parts_here;
use crate::locks::{Lock, LockSet};
use crate::records::PartsRecord;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::NewPart;
use pandofs_types::{FsError, TxId};

pub fn prepare(
    view: &View<'_>,
    held: &Locks,
    own: Option<TxId>,
    part: &NewPart,
) -> Result<Prepared, Stop> {
    held.check(&Lock::Dir(part.dir), own)?;
    if view.parts(part.dir)?.is_some() || parts_here(&part.map, view.shard).is_empty() {
        return Err(FsError::Io.into());
    }
    Ok(Prepared {
        locks: locks(part),
        ..Prepared::default()
    })
}

/// Nothing comes in, and who knows of the directory already waits.
pub fn locks(part: &NewPart) -> LockSet {
    vec![Lock::Dir(part.dir), Lock::Made(part.dir)]
}

pub fn execute(txn: &mut Txn<'_, '_>, part: &NewPart) -> Result<(), Stop> {
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
    };
    txn.meta.partitions += parts.parts.len() as u64;
    txn.put_parts(part.dir, &parts);
    Ok(())
}
