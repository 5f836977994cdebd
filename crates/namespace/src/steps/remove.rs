//! A name goes out of a directory.

use super::Prepared;
use super::insert::no_longer;
use crate::locks::Lock;
use crate::ops::advance;
use crate::permission::{CHANGE, check_dir};
use crate::{Effect, Locks, Stop, Txn, View, merge};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, Time, TxId};

pub fn prepare(
    view: &View<'_>,
    locks: &Locks,
    own: Option<TxId>,
    dir: Ino,
    name: &Name,
    ino: Ino,
    caller: &Credentials,
) -> Result<Prepared, Stop> {
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

pub fn execute(txn: &mut Txn<'_, '_>, dir: Ino, name: &Name, time: Time) -> Result<(), Stop> {
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
