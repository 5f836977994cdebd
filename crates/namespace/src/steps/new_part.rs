//! A directory that starts with several partitions gets those of this shard.

use super::Prepared;
use super::new_dir::parts_here;
use crate::locks::Lock;
use crate::records::PartsRecord;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::NewPart;
use pandofs_types::{FsError, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    part: &NewPart,
) -> Result<Prepared, Stop> {
    let lock = Lock::Dir(part.dir);
    locks.check(&lock, own)?;
    if view.parts(part.dir)?.is_some() || parts_here(&part.map, view.shard).is_empty() {
        return Err(FsError::Io.into());
    }
    Ok(Prepared {
        locks: vec![lock],
        ..Prepared::default()
    })
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
