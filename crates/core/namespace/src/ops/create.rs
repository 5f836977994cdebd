//! Create: a file, symbolic link, fifo, socket or device. The directory's policy says on which shard its inode goes:
//! with its entry (then this is an ordinary operation), or as Dynamic Dir-Grain has it, which makes some of them
//! branch files, each by a distributed operation (Xiong et al., figure 2 and table 1).

use super::{ByLoad, Checked, Choices, Execute, Mutation, Plan, PlanAnswer, advance, inode_reply};
use crate::permission::inherit;
use crate::records::{Body, EntryRecord, InodeRecord, PartsRecord};
use crate::split::child_wanted;
use crate::touches::entry_key;
use crate::{Context, Effect, Owned, Stop, Txn, View};
use pandofs_api::{EntryReply, Layout, NewFile, NewNode, Refusal, Reply, Step, op, step};
use pandofs_placement::{FilePolicy, place_new_file};
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use pandofs_types::{
    Capabilities, Credentials, FileKind, FsError, Ino, LeaseKey, ServerId, SessionId, ShardId, Time,
};

/// A node that is to be made, and where.
struct Placed {
    /// With the placement state that follows the choice of the shard.
    owned: Owned,
    policy: FilePolicy,
    /// Where the inode goes.
    shard: ShardId,
    new: NewFile,
}

impl Execute for op::Create {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let placed = place(self, view, cx)?;
        Ok(Checked {
            adapts: matches!(placed.policy, FilePolicy::Adaptive(_)),
            plan: placed.plan(self, view, cx.caller, None),
        })
    }

    fn apply(&self, txn: &mut Txn<'_, '_>, cx: &Context<'_>) -> Result<Mutation, Stop> {
        let placed = place(self, &txn.view(), cx)?;
        let opened_by = self.open.then_some(cx.session);
        if let Some(plan) = placed.plan(self, &txn.view(), cx.caller, opened_by) {
            // Stored when the operation begins, as a directory's is.
            txn.put_parts(self.dir, &placed.owned.parts);
            return Ok(Mutation::Plan(plan));
        }
        Ok(Mutation::Done(make(self, txn, placed, cx.choices.ino)))
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }

    fn touches(&self, view: &View<'_>, _choices: &Choices) -> Result<Vec<LeaseKey>, Stop> {
        Ok(vec![
            entry_key(view, self.dir, &self.name),
            LeaseKey::Parts(self.dir),
        ])
    }

    fn by_load(&self, _view: &View<'_>) -> Option<ByLoad> {
        Some(ByLoad { near: None })
    }
}

fn place(create: &op::Create, view: &View<'_>, cx: &Context<'_>) -> Result<Placed, Stop> {
    too_high(create.mode)?;
    // Device 0:0 is none, but overlayfs's sign that a name is gone from below it: Linux lets everybody make it.
    let is_device = match create.node {
        NewNode::Char { rdev } => rdev != 0,
        NewNode::Block { .. } => true,
        _ => false,
    };
    if is_device && !cx.caller.has(Capabilities::MKNOD) {
        return Err(FsError::NotPermitted.into());
    }
    if let NewNode::Symlink { target } = &create.node {
        if target.is_empty() {
            return Err(FsError::NotFound.into());
        }
        if target.len() > MAX_SYMLINK_BYTES {
            return Err(FsError::NameTooLong.into());
        }
    }
    let mut owned = cx.free_name(view, create.dir, &create.name)?;
    let new = inherited(
        cx.caller,
        &owned.parts,
        create.node.clone(),
        (create.mode, create.umask),
        cx.choices.time,
    );
    let policy = owned.parts.settings.file_policy;
    let policy = policy.unwrap_or(view.map.settings.file_policy);
    let drawn = cx.choices.drawn(view);
    let placed = place_new_file(policy, &owned.parts.grain, view.shard, &drawn);
    owned.parts.grain = placed.parent_after;
    Ok(Placed {
        owned,
        policy,
        shard: placed.shard,
        new,
    })
}

impl Placed {
    /// How a branch file is made. `None`: the inode is with its entry.
    fn plan(
        &self,
        create: &op::Create,
        view: &View<'_>,
        caller: &Credentials,
        opened_by: Option<SessionId>,
    ) -> Option<Plan> {
        if self.shard == view.shard {
            return None;
        }
        let insert = Step::Insert(step::Insert {
            dir: create.dir,
            name: create.name.clone(),
            ino: None,
            kind: kind_of(&self.new.node),
            shard: self.shard,
            replace: false,
            caller: caller.clone(),
            time: self.new.time,
        });
        let new = NewFile {
            opened_by,
            ..self.new.clone()
        };
        Some(Plan {
            steps: vec![
                (view.shard, insert),
                (self.shard, Step::NewFile(Box::new(new))),
            ],
            answer: PlanAnswer::Made { shard: self.shard },
        })
    }
}

/// Makes it with its entry.
fn make(create: &op::Create, txn: &mut Txn<'_, '_>, placed: Placed, number: Option<Ino>) -> Reply {
    let Placed {
        owned: Owned {
            mut parts,
            index,
            position,
        },
        shard,
        new,
        ..
    } = placed;
    assert!(shard == txn.shard, "a branch file is made by a plan");
    let dir = create.dir;
    let ino = txn.new_ino(number);
    let (kind, time) = (kind_of(&new.node), new.time);
    let inode = inode_of(&txn.view(), ino, &new);
    txn.add_inode(ino, &inode);
    let entry = EntryRecord { ino, kind, shard };
    txn.add_entry(dir, position, &create.name, &entry);
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
    if create.open {
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

/// Kind of the inode that is made.
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

/// New inode in a directory with this mode and umask.
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

/// White-out, overlayfs's sign that a name is gone (`WHITEOUT_DEV`, `WHITEOUT_MODE`), made in a directory.
pub(super) fn whiteout(caller: &Credentials, dir: &PartsRecord, time: Time) -> NewFile {
    inherited(caller, dir, NewNode::Char { rdev: 0 }, (0, 0), time)
}

/// An inode with one name, as it is when it is made.
pub(crate) fn inode_of(view: &View<'_>, ino: Ino, new: &NewFile) -> InodeRecord {
    let (body, rdev, size) = match &new.node {
        NewNode::File => {
            let body = Body::Inline {
                held: 0,
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
        truncations: 0,
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
