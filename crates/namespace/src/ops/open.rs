//! Open: checks rights; with `truncate` also empties the file. That the session has it open is the
//! driver's to remember.

use super::{Choices, inode_reply, setattr::cut};
use crate::permission::check_inode;
use crate::records::InodeRecord;
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply};
use pandofs_types::{Credentials, FileKind, FsError, Ino};

pub fn read(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    access: u16,
) -> Result<Reply, Stop> {
    let inode = checked(view, locks, caller, ino, access)?;
    Ok(Reply::Inode(inode_reply(view, ino, &inode)?))
}

pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    access: u16,
) -> Result<InodeRecord, Stop> {
    let inode = checked(view, locks, caller, ino, access | crate::permission::WRITE)?;
    match inode.kind {
        FileKind::File => Ok(inode),
        FileKind::Dir => Err(FsError::IsDir.into()),
        _ => Err(FsError::Invalid.into()),
    }
}

fn checked(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    ino: Ino,
    access: u16,
) -> Result<InodeRecord, Stop> {
    if access > 7 {
        return Err(Refusal::Malformed(format!("access {access}")).into());
    }
    locks.check(&Lock::Inode(ino), None)?;
    let inode = view.inode(ino)?;
    check_inode(caller, access, &inode)?;
    Ok(inode)
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    ino: Ino,
    mut inode: InodeRecord,
    choices: &Choices,
) -> Result<Reply, Stop> {
    cut(txn, caller, ino, &mut inode, 0, choices)?;
    txn.put_inode(ino, &inode);
    txn.effects.push(crate::Effect::Opened { ino });
    Ok(Reply::Inode(inode_reply(&txn.view(), ino, &inode)?))
}
