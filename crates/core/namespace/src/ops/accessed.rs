//! Times of access, which a client reports some time after, of many inodes at once.

use super::{Checked, Choices, Execute, Mutation};
use crate::records::InodeRecord;
use crate::{Context, Stop, Txn, View, locks::Lock};
use pandofs_api::{Refusal, Reply, op};
use pandofs_types::limits::MAX_ACCESSES_PER_MESSAGE;
use pandofs_types::{AtimeRule, FileKind, Ino, LeaseKey, Time};

impl Execute for op::Accessed {
    fn check(&self, _view: &View<'_>, _cx: &Context<'_>) -> Result<Checked, Stop> {
        if self.inos.len() > MAX_ACCESSES_PER_MESSAGE {
            let text = format!("{} inodes were read", self.inos.len());
            return Err(Refusal::Malformed(text).into());
        }
        Ok(Checked::HERE)
    }

    /// Those that are not here, or are being changed by an operation under way, are left as they are: a time of
    /// access is not worth waiting for.
    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        self.check(&txn.view(), cx)?;
        for &(ino, at) in &self.inos {
            if cx.locks.check(&Lock::Inode(ino), None).is_err() {
                continue;
            }
            // A clock that goes ahead of this one sets no time in the future.
            let at = at.min(cx.choices.time);
            if let Some(mut inode) = due(&txn.view(), ino, at, self.rule)? {
                inode.atime = at;
                txn.put_inode(ino, &inode);
            }
        }
        Ok(Mutation::Done(Reply::Done))
    }

    fn changes_nothing(&self, view: &View<'_>, choices: &Choices) -> Result<bool, Stop> {
        Ok(all_due(self, view, choices)?.is_empty())
    }

    fn touches(&self, view: &View<'_>, choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        all_due(self, view, choices)
    }

    fn depends(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        let inos = self.inos.iter();
        inos.map(|(ino, _)| LeaseKey::Inode(*ino)).collect()
    }
}

/// Inodes of which the time changes: most readings change none, and are then worth no record. All are looked at, so that
/// what is not in memory is found here and not when the record is applied, which waits for it.
fn all_due(
    accessed: &op::Accessed,
    view: &View<'_>,
    choices: &Choices,
) -> Result<Vec<LeaseKey>, Stop> {
    let mut found = Vec::new();
    for &(ino, at) in &accessed.inos {
        if due(view, ino, at.min(choices.time), accessed.rule)?.is_some() {
            found.push(LeaseKey::Inode(ino));
        }
    }
    Ok(found)
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
