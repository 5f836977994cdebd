//! What was read: times of access. A client tells them some time after, of many inodes at once.

use super::Choices;
use crate::records::InodeRecord;
use crate::{Locks, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply};
use pandofs_types::limits::MAX_ACCESSES_PER_MESSAGE;
use pandofs_types::{AtimeRule, FileKind, Ino, Time};

pub fn check(inos: &[(Ino, Time)]) -> Result<(), Stop> {
    if inos.len() > MAX_ACCESSES_PER_MESSAGE {
        let text = format!("{} inodes were read", inos.len());
        return Err(Refusal::Malformed(text).into());
    }
    Ok(())
}

/// Those of which the time changes: most readings change none, and are then worth no record. All are looked at, so that
/// what is not in memory is found here and not by [`apply`], which waits for it.
pub fn due_of(
    view: &View<'_>,
    inos: &[(Ino, Time)],
    rule: AtimeRule,
    choices: &Choices,
) -> Result<Vec<Ino>, Stop> {
    let mut found = Vec::new();
    for &(ino, at) in inos {
        if due(view, ino, at.min(choices.time), rule)?.is_some() {
            found.push(ino);
        }
    }
    Ok(found)
}

/// Those that are not here, or are being changed by an operation under way, are left as they are: a time of
/// access is not worth waiting for.
pub fn apply(
    txn: &mut Txn<'_, '_>,
    locks: &Locks,
    inos: &[(Ino, Time)],
    rule: AtimeRule,
    choices: &Choices,
) -> Result<Reply, Stop> {
    for &(ino, at) in inos {
        if locks.check(&Lock::Inode(ino), None).is_err() {
            continue;
        }
        // A clock that goes ahead of this one sets no time in the future.
        let at = at.min(choices.time);
        if let Some(mut inode) = due(&txn.view(), ino, at, rule)? {
            inode.atime = at;
            txn.put_inode(ino, &inode);
        }
    }
    Ok(Reply::Done)
}

/// The inode if a reading `at` that time changes its time of access.
fn due(view: &View<'_>, ino: Ino, at: Time, rule: AtimeRule) -> Result<Option<InodeRecord>, Stop> {
    let Some(inode) = view.stored_inode(ino)? else {
        return Ok(None);
    };
    let (mut rule, mut mtime, mut ctime) = (rule, inode.mtime, inode.ctime);
    if inode.kind == FileKind::Dir
        && let Some(parts) = view.parts(ino)?
    {
        (mtime, ctime) = (parts.mtime, ctime.max(parts.ctime));
        if parts.map.shards().len() > 1 {
            // When other shards changed their parts of it is not known here.
            rule = AtimeRule::Strict;
        }
    }
    Ok(rule.is_due(at, inode.atime, mtime, ctime).then_some(inode))
}
