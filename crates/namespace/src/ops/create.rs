//! Create: a file, symbolic link, fifo, socket or device. The directory's policy says on which shard its inode goes:
//! with its entry (then this is an ordinary operation), or as Dynamic Dir-Grain has it, which makes some of them
//! branch files, each by a distributed operation (Xiong et al., figure 2 and table 1).

use super::{Choices, Plan, PlanAnswer, advance, inode_reply};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, inherit};
use crate::records::{Body, EntryRecord, InodeRecord, PartsRecord};
use crate::split::child_wanted;
use crate::{Effect, Locks, Owned, Stop, Txn, View};
use pandofs_api::{EntryReply, Layout, NewFile, NewNode, Refusal, Reply, Step};
use pandofs_placement::{FilePolicy, place_new_file};
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use pandofs_types::{
    Capabilities, Credentials, FileKind, FsError, Ino, Name, ServerId, SessionId, ShardId, Time,
};

/// What is to be made, and where.
pub struct Checked {
    /// With the placement state that follows the choice of the shard.
    owned: Owned,
    policy: FilePolicy,
    /// Where the inode goes.
    shard: ShardId,
    new: NewFile,
}

#[allow(clippy::too_many_arguments)]
pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    node: &NewNode,
    (mode, umask): (u16, u16),
    choices: &Choices,
) -> Result<Checked, Stop> {
    too_high(mode)?;
    // Device 0:0 is none, but overlayfs's sign that a name is gone from below it: Linux lets everybody make it.
    let is_device = match node {
        NewNode::Char { rdev } => *rdev != 0,
        NewNode::Block { .. } => true,
        _ => false,
    };
    if is_device && !caller.has(Capabilities::MKNOD) {
        return Err(FsError::NotPermitted.into());
    }
    if let NewNode::Symlink { target } = node {
        if target.is_empty() {
            return Err(FsError::NotFound.into());
        }
        if target.len() > MAX_SYMLINK_BYTES {
            return Err(FsError::NameTooLong.into());
        }
    }
    let mut owned = view.owned(dir, name)?;
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
    let new = inherited(
        caller,
        &owned.parts,
        node.clone(),
        (mode, umask),
        choices.time,
    );
    let policy = owned.parts.settings.file_policy;
    let policy = policy.unwrap_or(view.map.settings.file_policy);
    let drawn = choices.drawn(view);
    let placed = place_new_file(policy, &owned.parts.grain, view.shard, &drawn);
    owned.parts.grain = placed.parent_after;
    Ok(Checked {
        owned,
        policy,
        shard: placed.shard,
        new,
    })
}

impl Checked {
    /// Whether it was placed by what is known of loads.
    pub fn adapts(&self) -> bool {
        matches!(self.policy, FilePolicy::Adaptive(_))
    }

    /// How a branch file is made, and the directory's partitions with the placement state that follows the choice,
    /// which is stored when the operation begins, as a directory's is. `None`: the inode is with its entry.
    pub fn plan(
        &self,
        view: &View<'_>,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        opened_by: Option<SessionId>,
    ) -> Option<(Plan, PartsRecord)> {
        if self.shard == view.shard {
            return None;
        }
        let insert = Step::Insert {
            dir,
            name: name.clone(),
            ino: None,
            kind: kind_of(&self.new.node),
            shard: self.shard,
            replace: false,
            caller: caller.clone(),
            time: self.new.time,
        };
        let new = NewFile {
            opened_by,
            ..self.new.clone()
        };
        let plan = Plan {
            steps: vec![
                (view.shard, insert),
                (self.shard, Step::NewFile { new: Box::new(new) }),
            ],
            answer: PlanAnswer::Made { shard: self.shard },
        };
        Some((plan, self.owned.parts.clone()))
    }
}

/// Makes it with its entry.
pub fn apply(txn: &mut Txn<'_, '_>, dir: Ino, name: &Name, checked: Checked, open: bool) -> Reply {
    let Checked {
        owned: Owned {
            mut parts,
            index,
            position,
        },
        shard,
        new,
        ..
    } = checked;
    assert!(shard == txn.shard, "a branch file is made by a plan");
    let ino = txn.new_ino();
    let (kind, time) = (kind_of(&new.node), new.time);
    let inode = inode_of(&txn.view(), ino, &new);
    txn.add_inode(ino, &inode);
    txn.add_entry(dir, position, name, &EntryRecord { ino, kind, shard });
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
        shard,
        inode: Some(reply),
    })
}

/// What comes of making this.
pub fn kind_of(node: &NewNode) -> FileKind {
    match node {
        NewNode::File => FileKind::File,
        NewNode::Symlink { .. } => FileKind::Symlink,
        NewNode::Fifo => FileKind::Fifo,
        NewNode::Socket => FileKind::Socket,
        NewNode::Char { .. } => FileKind::Char,
        NewNode::Block { .. } => FileKind::Block,
    }
}

/// What is made in a directory with this mode and umask.
fn inherited(
    caller: &Credentials,
    dir: &PartsRecord,
    node: NewNode,
    (mode, umask): (u16, u16),
    time: Time,
) -> NewFile {
    let (gid, mode, acls) = inherit(caller, dir, kind_of(&node), mode, umask);
    NewFile {
        node,
        mode,
        uid: caller.uid,
        gid,
        layout: dir.settings.layout.unwrap_or_default(),
        time,
        acls,
        opened_by: None,
    }
}

/// What overlayfs takes for the sign that a name is gone (`WHITEOUT_DEV`, `WHITEOUT_MODE`), made in a directory.
pub(super) fn whiteout(caller: &Credentials, dir: &PartsRecord, time: Time) -> NewFile {
    inherited(caller, dir, NewNode::Char { rdev: 0 }, (0, 0), time)
}

/// An inode with one name, as it is when it is made.
pub(crate) fn inode_of(view: &View<'_>, ino: Ino, new: &NewFile) -> InodeRecord {
    let (body, rdev, size) = match &new.node {
        NewNode::File => {
            let body = Body::Inline {
                data: Vec::new(),
                layout: new.layout.of_file(default_layout(view, ino)),
            };
            (body, 0, 0)
        }
        NewNode::Symlink { target } => (Body::Symlink(target.clone()), 0, target.len() as u64),
        NewNode::Fifo | NewNode::Socket => (Body::Nothing, 0, 0),
        NewNode::Char { rdev } | NewNode::Block { rdev } => (Body::Nothing, *rdev, 0),
    };
    InodeRecord {
        kind: kind_of(&new.node),
        mode: new.mode,
        uid: new.uid,
        gid: new.gid,
        nlink: 1,
        rdev,
        size,
        atime: new.time,
        mtime: new.time,
        ctime: new.time,
        btime: new.time,
        body,
        xattrs: 0,
        xattr_bytes: 0,
        trail: Vec::new(),
        acls: new.acls.clone(),
        may_be_named: false,
        cuts: 0,
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
    inode_of(
        view,
        ino,
        &inherited(caller, dir, NewNode::File, modes, time),
    )
}

pub(super) fn too_high(mode: u16) -> Result<(), Stop> {
    if mode > 0o7777 {
        Err(Refusal::Malformed(format!("mode {mode:#o}")).into())
    } else {
        Ok(())
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
