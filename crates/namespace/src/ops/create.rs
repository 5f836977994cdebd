//! Create: a file, symbolic link, fifo, socket or device. Its inode is on the shard of its entry
//! (`with-entry`), so this is an ordinary operation.

use super::{Choices, advance, inode_reply};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, inherit};
use crate::records::{Body, EntryRecord, InodeRecord, PartsRecord};
use crate::split::child_wanted;
use crate::{Effect, Locks, Owned, Stop, Txn, View};
use pandofs_api::{EntryReply, Layout, NewNode, Refusal, Reply};
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, ServerId, Time};

/// What is to be made, and where.
pub struct Checked {
    owned: Owned,
    kind: FileKind,
    rdev: u32,
    target: Option<Vec<u8>>,
    mode: u16,
    umask: u16,
}

#[allow(clippy::too_many_arguments)]
pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    node: &NewNode,
    mode: u16,
    umask: u16,
) -> Result<Checked, Stop> {
    too_high(mode)?;
    let (kind, rdev, target) = match node {
        NewNode::File => (FileKind::File, 0, None),
        NewNode::Symlink { target } => (FileKind::Symlink, 0, Some(target.clone())),
        NewNode::Fifo => (FileKind::Fifo, 0, None),
        NewNode::Socket => (FileKind::Socket, 0, None),
        NewNode::Char { rdev } => (FileKind::Char, *rdev, None),
        NewNode::Block { rdev } => (FileKind::Block, *rdev, None),
    };
    if matches!(kind, FileKind::Char | FileKind::Block) && !caller.is_superuser() {
        return Err(FsError::NotPermitted.into());
    }
    if let Some(target) = &target {
        if target.is_empty() {
            return Err(FsError::NotFound.into());
        }
        if target.len() > MAX_SYMLINK_BYTES {
            return Err(FsError::NameTooLong.into());
        }
    }
    let owned = view.owned(dir, name)?;
    locks.check(
        &Lock::Entry {
            dir,
            position: owned.position,
            name: name.clone(),
        },
        None,
    )?;
    check_dir(caller, SEARCH, &owned.parts)?;
    if view.entry(dir, owned.position, name)?.is_some() {
        return Err(FsError::Exists.into());
    }
    check_dir(caller, CHANGE, &owned.parts)?;
    Ok(Checked {
        owned,
        kind,
        rdev,
        target,
        mode,
        umask,
    })
}

pub fn apply(
    txn: &mut Txn<'_, '_>,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    checked: Checked,
    open: bool,
    choices: &Choices,
) -> Reply {
    let Checked {
        owned: Owned {
            mut parts,
            index,
            position,
        },
        kind,
        rdev,
        target,
        mode,
        umask,
    } = checked;
    let time = choices.time;
    let ino = txn.new_ino();
    let modes = (mode, umask);
    let inode = match (kind, target) {
        (FileKind::File, _) => new_file(&txn.view(), ino, caller, &parts, modes, time),
        (FileKind::Symlink, Some(target)) => {
            let size = target.len() as u64;
            let body = Body::Symlink(target);
            InodeRecord {
                size,
                ..new_inode(caller, &parts, kind, modes, body, time)
            }
        }
        _ => InodeRecord {
            rdev,
            ..new_inode(caller, &parts, kind, modes, Body::Nothing, time)
        },
    };
    txn.add_inode(ino, &inode);
    txn.add_entry(
        dir,
        position,
        name,
        &EntryRecord {
            ino,
            kind,
            shard: txn.shard,
        },
    );
    let part = parts
        .part_mut(index)
        .expect("the partition was found by this index");
    part.entries += 1;
    advance(&mut parts.mtime, time);
    advance(&mut parts.ctime, time);
    txn.put_parts(dir, &parts);
    if child_wanted(txn.map, &parts, index).is_some() {
        txn.effects.push(Effect::Grew { dir, index });
    }
    if open {
        txn.effects.push(Effect::Opened { ino });
    }
    let reply = inode_reply(&txn.view(), ino, &inode).expect("what is no directory has no parts");
    Reply::Entry(EntryReply {
        ino,
        kind,
        shard: txn.shard,
        inode: Some(reply),
    })
}

pub(super) fn too_high(mode: u16) -> Result<(), Stop> {
    if mode > 0o7777 {
        Err(Refusal::Malformed(format!("mode {mode:#o}")).into())
    } else {
        Ok(())
    }
}

/// A file as it is when it is made in this directory.
pub(super) fn new_file(
    view: &View<'_>,
    ino: Ino,
    caller: &Credentials,
    dir: &PartsRecord,
    modes: (u16, u16),
    time: Time,
) -> InodeRecord {
    let choice = dir.settings.layout.unwrap_or_default();
    let body = Body::Inline {
        data: Vec::new(),
        layout: choice.of_file(default_layout(view, ino)),
    };
    new_inode(caller, dir, FileKind::File, modes, body, time)
}

/// What is made in a directory with this mode and umask.
fn new_inode(
    caller: &Credentials,
    dir: &PartsRecord,
    kind: FileKind,
    (mode, umask): (u16, u16),
    body: Body,
    time: Time,
) -> InodeRecord {
    let (gid, mode, acls) = inherit(caller, dir, kind, mode, umask);
    InodeRecord {
        kind,
        mode,
        uid: caller.uid,
        gid,
        nlink: 1,
        rdev: 0,
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        body,
        xattrs: 0,
        xattr_bytes: 0,
        trail: Vec::new(),
        acls,
        may_be_named: false,
    }
}

/// Servers of the file system.
pub(super) fn servers(view: &View<'_>) -> u16 {
    u16::try_from(view.map.servers.len()).expect("MAX_SERVERS fits 16 bits")
}

/// The layout that a new file gets where nothing else is chosen: the file system's stripe unit and count, and
/// a first server that goes round with the inode number, so that small striped files use all servers alike.
pub(super) fn default_layout(view: &View<'_>, ino: Ino) -> Layout {
    let servers = servers(view);
    let settings = &view.map.settings;
    let count = match settings.stripe_count {
        0 => servers,
        count => count.min(servers),
    };
    let first = (ino.serial() + u64::from(ino.birth_shard().0)) % u64::from(servers);
    Layout {
        unit: settings.stripe_unit,
        count,
        first: ServerId(first as u16),
        servers,
    }
}
