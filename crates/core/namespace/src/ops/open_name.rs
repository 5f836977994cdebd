//! Open by name: lookup and open at once, where the inode is with its name, or creation where nothing has the name. That the
//! session has it open is the driver's to remember.

use super::{ByLoad, Checked, Choices, Execute, Mutation};
use crate::records::EntryRecord;
use crate::touches::entry_key;
use crate::{Context, Effect, Stop, Txn, View};
use pandofs_api::op::PathOperation;
use pandofs_api::{EntryReply, NewNode, Reply, Request, op};
use pandofs_types::{FileKind, FsError, LeaseKey, NewMode};

impl Execute for op::OpenName {
    fn read(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Reply, Stop> {
        match found(self, view, cx)? {
            Some(entry) => opened(self, &entry, view, cx),
            None => Err(FsError::NotFound.into()),
        }
    }

    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        match (found(self, view, cx)?, self.create) {
            (Some(entry), _) => opened(self, &entry, view, cx).map(|_| Checked::HERE),
            (None, Some(mode)) => creation(self, mode).check(view, cx),
            (None, None) => Err(FsError::NotFound.into()),
        }
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let there = found(self, &txn.view(), cx)?;
        match (there, self.create) {
            (Some(entry), _) => {
                let reply = opened(self, &entry, &txn.view(), cx)?;
                if let Reply::Entry(EntryReply { inode: Some(_), .. }) = reply {
                    txn.effects.push(Effect::Opened { ino: entry.ino });
                }
                Ok(Mutation::Done(reply))
            }
            (None, Some(mode)) => creation(self, mode).apply(txn, cx),
            (None, None) => Err(FsError::NotFound.into()),
        }
    }

    fn needs_space(&self, view: &View<'_>) -> Result<bool, Stop> {
        Ok(!is_there(self, view)?)
    }

    fn touches(&self, view: &View<'_>, choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        match self.create {
            Some(mode) if !is_there(self, view)? => creation(self, mode).touches(view, choices),
            _ => Ok(Vec::new()),
        }
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![entry_key(view, self.dir, &self.name)]
    }

    fn by_load(&self, view: &View<'_>) -> Option<ByLoad> {
        creation(self, self.create?).by_load(view)
    }
}

/// Test whether a request that may make a file finds that something has the name: it changes nothing then.
///
/// # Errors
/// As the operation is refused where the name is not this shard's; [`Stop`] where that is not known yet.
pub fn finds(view: &View<'_>, request: &Request) -> Result<bool, Stop> {
    match request {
        Request::ByPath(op::ByPath {
            operation: PathOperation::OpenName(open),
            ..
        }) => is_there(open, view),
        _ => Ok(false),
    }
}

fn is_there(open: &op::OpenName, view: &View<'_>) -> Result<bool, Stop> {
    let owned = view.owned(open.dir, &open.name)?;
    let entry = view.entry(open.dir, owned.position, &open.name)?;
    Ok(entry.is_some())
}

fn found(
    open: &op::OpenName,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<Option<EntryRecord>, Stop> {
    let owned = cx.name(view, open.dir, &open.name)?;
    view.entry(open.dir, owned.position, &open.name)
}

fn creation(open: &op::OpenName, mode: NewMode) -> op::Create {
    op::Create {
        dir: open.dir,
        name: open.name.clone(),
        node: NewNode::File,
        mode: mode.mode,
        umask: mode.umask,
        open: true,
    }
}

fn opened(
    open: &op::OpenName,
    entry: &EntryRecord,
    view: &View<'_>,
    cx: &Context<'_>,
) -> Result<Reply, Stop> {
    let is_opened = entry.shard == view.shard && entry.kind == FileKind::File;
    let inode = match is_opened {
        true => {
            let open = op::Open {
                ino: entry.ino,
                access: open.access,
                truncate: false,
                data: false,
            };
            match open.read(view, cx)? {
                Reply::Inode(inode) => Some(inode),
                other => return Err(Stop::Broken(format!("an open is answered {other:?}"))),
            }
        }
        false => None,
    };
    Ok(Reply::Entry(EntryReply {
        ino: entry.ino,
        kind: entry.kind,
        shard: entry.shard,
        inode,
    }))
}
