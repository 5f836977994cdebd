//! Create without a name (`O_TMPFILE`): a file that its maker has open, and that is gone when nobody has it
//! open any more, unless it was given a name by then. It has what a file made in the directory would have,
//! and is on the shard where a name at the position that is given would put it: an ordinary operation, and
//! none of the directory, which stays as it is.

use super::create::{new_file, too_high};
use super::{Choices, inode_reply};
use crate::permission::{CHANGE, check_dir};
use crate::records::{PartsRecord, ReclaimRecord};
use crate::{Effect, Locks, Stop, Txn, View};
use pandofs_api::{EntryReply, Refusal, Reply};
use pandofs_types::{Credentials, FileKind, Ino, Position};

/// The directory, as far as it is here.
pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    at: Position,
    mode: u16,
) -> Result<PartsRecord, Stop> {
    too_high(mode)?;
    if at >= Position::END {
        return Err(Refusal::Malformed(format!("position {at:?}")).into());
    }
    let owned = view.owned_at(dir, at)?;
    locks.check_rights(dir)?;
    check_dir(caller, CHANGE, &owned.parts)?;
    Ok(owned.parts)
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    parts: &PartsRecord,
    (mode, umask): (u16, u16),
    may_be_named: bool,
    choices: &Choices,
) -> Reply {
    let ino = txn.new_ino();
    let mut inode = new_file(&txn.view(), ino, caller, parts, (mode, umask), choices.time);
    inode.nlink = 0;
    inode.may_be_named = may_be_named;
    txn.add_inode(ino, &inode);
    txn.effects.push(Effect::Opened { ino });
    txn.put_reclaim(ino, &ReclaimRecord::Orphan);
    let reply = inode_reply(&txn.view(), ino, &inode).expect("a file has no parts");
    Reply::Entry(EntryReply {
        ino,
        kind: FileKind::File,
        shard: txn.shard,
        inode: Some(reply),
    })
}
